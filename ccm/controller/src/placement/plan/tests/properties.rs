//! What holds after any history of nodes, networks and VIPs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use proptest::prelude::*;
use windlass_api::{
    Authentication, LoadSharing, PreferredNodes, Transport, UnschedulableNodePolicy, VridRange, VrrpSettings,
};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Vip { last: u8, family: Family, services: Vec<u8> },
    RemoveVip { last: u8, family: Family },
    Quarantine { last: u8, family: Family },
    Node { number: u8, healthy: bool },
    Cordon { number: u8, is_unschedulable: bool },
    RemoveNode(u8),
    Network { number: u8, subnet: u8, lengths: [u8; 2] },
    Stranger { number: u8, vrid: u8 },
    Cluster { last: u8, family: Family },
    Local { last: u8, family: Family, nodes: Vec<(u8, EndpointState)> },
    Label { number: u8, rack: u8 },
    Announce { name: u8, of: Announced },
    Unannounce { name: u8 },
    Active { router: usize, number: u8 },
    Key { number: u8 },
    Fails { number: u8, fails: bool },
    Prefer { router: usize, number: Option<u8> },
    Restrict { last: u8, family: Family, is_restricted: bool },
    Obeys { number: u8, capabilities: usize },
    Pass { minutes: u8 },
}

/// An Announcement.
#[derive(Debug, Clone, Copy)]
struct Announced {
    /// Of one of two pools.
    pool: Option<bool>,
    /// Of one of two racks of nodes.
    rack: Option<u8>,
    preferred: Option<u8>,
    unschedulable_nodes: UnschedulableNodePolicy,
    transport: Transport,
    signs: bool,
    vrids: Option<(u8, u8)>,
    load_sharing: LoadSharing,
}

impl Announced {
    fn spec(self) -> AnnouncementSpec {
        let of_rack = |rack: u8| LabelSelector {
            match_labels: Some([("rack".to_owned(), rack.to_string())].into()),
            ..LabelSelector::default()
        };
        let Self { pool, rack, preferred, unschedulable_nodes, transport, signs, vrids, load_sharing } = self;
        AnnouncementSpec {
            pools: pool.map(pool_name).map(str::to_owned).into_iter().collect(),
            node_selectors: rack.map(of_rack).into_iter().collect(),
            preferred_nodes: preferred
                .map(|rack| PreferredNodes { weight: 10, selector: of_rack(rack) })
                .into_iter()
                .collect(),
            unschedulable_nodes,
            load_sharing,
            vrrp: VrrpSettings {
                transport,
                authentication: signs.then_some(Authentication { key_id: 7 }),
                vrid_range: vrids.map(|(first, last)| VridRange { first, last }),
                ..VrrpSettings::default()
            },
            ..AnnouncementSpec::default()
        }
    }
}

const fn pool_name(is_other: bool) -> &'static str {
    if is_other { "q" } else { "p" }
}

#[derive(Debug, Clone, Copy)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn vip(self, last: u8) -> String {
        match self {
            Self::V4 => format!("192.0.2.{last}"),
            Self::V6 => format!("2001:db8:2::{last}"),
        }
    }
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

fn step() -> impl Strategy<Value = Step> {
    let vip = || (100..130u8, family());
    let services = prop::collection::vec(0..6u8, 1..3);
    let state = prop_oneof![
        Just(EndpointState::JustReady),
        Just(EndpointState::Terminating),
        Just(EndpointState::Ready)
    ];
    let nodes = prop::collection::vec((1..13u8, state), 0..4);
    prop_oneof![
        5 => (vip(), services).prop_map(|((last, family), services)| Step::Vip { last, family, services }),
        2 => vip().prop_map(|(last, family)| Step::RemoveVip { last, family }),
        1 => vip().prop_map(|(last, family)| Step::Quarantine { last, family }),
        2 => (1..13u8, any::<bool>()).prop_map(|(number, healthy)| Step::Node { number, healthy }),
        2 => (1..13u8, any::<bool>())
            .prop_map(|(number, is_unschedulable)| Step::Cordon { number, is_unschedulable }),
        1 => (1..13u8).prop_map(Step::RemoveNode),
        3 => (1..13u8, 0..2u8, lengths()).prop_map(|(number, subnet, lengths)| Step::Network { number, subnet, lengths }),
        1 => (1..13u8, 62..68u8).prop_map(|(number, vrid)| Step::Stranger { number, vrid }),
        1 => vip().prop_map(|(last, family)| Step::Cluster { last, family }),
        4 => (vip(), nodes).prop_map(|((last, family), nodes)| Step::Local { last, family, nodes }),
        1 => (1..13u8, 0..2u8).prop_map(|(number, rack)| Step::Label { number, rack }),
        2 => (0..3u8, announced()).prop_map(|(name, of)| Step::Announce { name, of }),
        1 => (0..3u8).prop_map(|name| Step::Unannounce { name }),
        1 => (0..4usize, 1..13u8).prop_map(|(router, number)| Step::Active { router, number }),
        2 => (1..13u8).prop_map(|number| Step::Key { number }),
        2 => (1..13u8, any::<bool>()).prop_map(|(number, fails)| Step::Fails { number, fails }),
        3 => (vip(), prop::bool::weighted(0.8)).prop_map(|((last, family), is_restricted)| Step::Restrict { last, family, is_restricted }),
        3 => (0..8usize, prop::option::weighted(0.8, 1..13u8))
            .prop_map(|(router, number)| Step::Prefer { router, number }),
        3 => (1..13u8, 0..3usize).prop_map(|(number, capabilities)| Step::Obeys { number, capabilities }),
        2 => (0..90u8).prop_map(|minutes| Step::Pass { minutes }),
    ]
}

fn announced() -> impl Strategy<Value = Announced> {
    let rack = || prop::option::of(0..2u8);
    let policy = prop_oneof![Just(UnschedulableNodePolicy::Serve), Just(UnschedulableNodePolicy::Yield)];
    let transport = prop_oneof![3 => Just(Transport::Multicast), 1 => Just(Transport::Unicast)];
    let vrids = prop::option::weighted(0.2, prop_oneof![Just((1, 40)), Just((60, 66)), Just((90, 90))]);
    let pool = prop::option::of(any::<bool>());
    let load_sharing =
        prop_oneof![1 => Just(LoadSharing::None), 2 => Just(LoadSharing::Local), 1 => Just(LoadSharing::All)];
    (pool, rack(), rack(), policy, transport, prop::bool::weighted(0.2), vrids, load_sharing).prop_map(
        |(pool, rack, preferred, unschedulable_nodes, transport, signs, vrids, load_sharing)| Announced {
            pool,
            rack,
            preferred,
            unschedulable_nodes,
            transport,
            signs,
            vrids,
            load_sharing,
        },
    )
}

/// Prefix lengths of a node's addresses, most of the time those of its LAN.
fn lengths() -> impl Strategy<Value = [u8; 2]> {
    let odd = (prop_oneof![22..=26u8, Just(0), Just(32)], prop_oneof![Just(48), Just(0), 60..=68u8]);
    prop_oneof![4 => Just([24, 64]), 1 => odd.prop_map(|(four, six)| [four, six])]
}

/// The addresses of a node in a subnet of each family.
fn subnets(subnet: u8, number: u8) -> [String; 2] {
    with_lengths(subnet, number, [24, 64])
}

fn with_lengths(subnet: u8, number: u8, [four, six]: [u8; 2]) -> [String; 2] {
    [format!("192.0.{}.{number}/{four}", 2 + subnet), format!("2001:db8:{}::{number}/{six}", 2 + subnet)]
}

fn take(cluster: &mut Cluster, step: &Step) {
    match *step {
        Step::Vip { last, family, ref services } => {
            let address = family.vip(last);
            cluster.remove_vip(&address);
            let services: Vec<String> = services.iter().map(|number| format!("s{number}")).collect();
            cluster.vip_for(
                pool_name(last % 3 == 0),
                &address,
                &services.iter().map(String::as_str).collect::<Vec<_>>(),
            );
        }
        Step::RemoveVip { last, family } => cluster.remove_vip(&family.vip(last)),
        Step::Quarantine { last, family } => cluster.quarantine(&family.vip(last)),
        Step::Node { number, healthy } => cluster.node(&format!("n{number}"), healthy),
        Step::Cordon { number, is_unschedulable } => cluster.cordon(&format!("n{number}"), is_unschedulable),
        Step::RemoveNode(number) => drop(cluster.nodes.remove(&format!("n{number}"))),
        Step::Network { number, subnet: at, lengths } => {
            let [v4, v6] = with_lengths(at, number, lengths);
            cluster.network(&format!("n{number}"), "eth0", &[&v4, &v6]);
        }
        Step::Stranger { number, vrid } => {
            let [v4, v6] = subnets(0, number);
            cluster.networks(&format!("n{number}"), &[("eth0", &[&v4, &v6])], &[("eth0", vrid)]);
        }
        Step::Cluster { last, family } => cluster.policy(&family.vip(last), ExternalTrafficPolicy::Cluster),
        Step::Local { last, family, ref nodes } => {
            let nodes: Vec<_> = nodes.iter().map(|(number, state)| (format!("n{number}"), *state)).collect();
            let nodes: Vec<_> = nodes.iter().map(|(name, state)| (name.as_str(), *state)).collect();
            cluster.endpoints(&family.vip(last), &nodes);
        }
        Step::Label { number, rack } => {
            let name = format!("n{number}");
            if cluster.nodes.contains_key(&name) {
                cluster.label(&name, "rack", &rack.to_string());
            }
        }
        Step::Announce { name, of } => cluster.announce(&format!("a{name}"), of.spec()),
        Step::Unannounce { name } => {
            cluster.announcements.retain(|one| one.name_any() != format!("a{name}"));
        }
        Step::Key { number } => {
            let name = format!("n{number}");
            if cluster.networks.iter().any(|network| network.name_any() == name) {
                cluster.give_key(&name, 7);
            }
        }
        Step::Fails { number, fails } => {
            let name = format!("n{number}");
            if cluster.networks.iter().any(|network| network.name_any() == name) {
                cluster.fails(&name, if fails { &["kube-proxy: it is not well"] } else { &[] });
            }
        }
        Step::Restrict { last, family, is_restricted } => {
            cluster.restrict(&family.vip(last), is_restricted);
        }
        Step::Obeys { number, capabilities } => {
            let all = [Capability::SourceRanges, Capability::LoadSharing];
            cluster.capabilities(&format!("n{number}"), &all[..capabilities]);
        }
        Step::Pass { minutes } => {
            cluster.input.now += jiff::SignedDuration::from_mins(minutes.into());
        }
        Step::Prefer { router, number } => {
            if let Some(name) = cluster.input.routers.get(router).map(|router| router.name_any()) {
                cluster.prefer(&name, number.map(|number| format!("n{number}")).as_deref());
            }
        }
        Step::Active { router, number } => {
            if let Some(router) = cluster.input.routers.get(router) {
                cluster.active.insert(router.name_any(), format!("n{number}"));
            }
        }
    }
}

/// Returns true if several nodes serve the VIP.
fn is_shared(vip: &VirtualIP, plan: &PlacementPlan<'_>, announced: LoadSharing) -> bool {
    let is_wanted = match announced {
        LoadSharing::None => false,
        LoadSharing::Local => !vip.spec.external_traffic_policy.is_cluster(),
        LoadSharing::All => true,
    };
    is_wanted
        && plan.shared_loads.contains_key(&vip.spec.address)
        && !plan.not_shared.contains_key(&vip.spec.address)
}

/// Checks a VIP that several nodes serve.
fn shares_well(cluster: &Cluster, vip: &VirtualIP, plan: &PlacementPlan<'_>) -> Result<(), TestCaseError> {
    let shared = &plan.shared_loads[&vip.spec.address];
    let table = shared.table().expect("a valid table");
    let can = |node: &str| {
        let mut network = cluster.networks.iter().filter(|network| network.name_any() == node);
        network.all(|network| network.spec.capabilities.contains(&Capability::LoadSharing))
    };
    let router = &plan.routers[&plan.routers_by_vip[&vip.name_any()]];
    let harm = router.nodes.iter().find(|node| !can(&node.name));
    prop_assert_eq!(harm, None, "{} is on a node that cannot direct its packets", vip.name_any());
    let servers: BTreeSet<&str> =
        table.lots.iter().map(|index| shared.nodes[usize::from(*index)].name.as_str()).collect();
    let serving = cluster.input.serving.get(&vip.spec.address);
    let is_local = !vip.spec.external_traffic_policy.is_cluster();
    if let Some(serving) =
        serving.filter(|serving| is_local && servers.iter().any(|node| serving.contains_key(*node)))
    {
        let states: BTreeSet<EndpointState> = servers
            .iter()
            .map(|node| serving.get(*node).map_or(EndpointState::None, |one| one.state))
            .collect();
        prop_assert_eq!(states.len(), 1, "{:?} serve {:?}", servers, serving);
        prop_assert!(servers.iter().all(|node| can(node)), "{:?}", servers);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))] // 52 ms each

    // shows: threats T-31
    #[test]
    fn every_plan_is_sound_and_sticky(strangers in prop_oneof![Just(0), Just(130u8)], steps in prop::collection::vec(step(), 1..60)) {
        let mut cluster = Cluster::of(3);
        // Where VRIDs are short, `Local` VIPs share routers.
        let short: Vec<_> = (100..100 + strangers).map(|vrid| ("eth0", vrid)).collect();
        cluster.networks("n19", &[("eth0", &["192.0.2.19/24", "2001:db8:2::19/64"])], &short);
        cluster.node("n19", false);
        let mut before = cluster.plan();
        for step in steps {
            take(&mut cluster, &step);
            // `plan` itself checks that planning again changes nothing.
            let after = cluster.plan();
            let announcements = Announcements::new(cluster.announcements.iter());
            for vip in &cluster.input.vips {
                let name = vip.name_any();
                let (carried, unplaced) = (after.routers_by_vip.get(&name), after.unplaced.contains_key(&name));
                let expected = usize::from(vip.spec.quarantine.is_none());
                prop_assert_eq!(usize::from(carried.is_some()) + usize::from(unplaced), expected, "{}", name);
                if let Some(router) = carried {
                    let of_family = |node: &RankedNode| node.address.is_ipv6() == vip.spec.address.is_ipv6();
                    prop_assert!(after.routers[router].nodes.iter().all(of_family), "{} in {}", name, router);
                    let lets_in_everybody = |network: &&Arc<NodeNetwork>| {
                        let is_one = after.routers[router].nodes.iter().any(|node| node.name == network.name_any());
                        is_one && network.spec.capabilities.is_empty()
                    };
                    if vip.spec.needs_guard() {
                        let harm = cluster.networks.iter().find(lets_in_everybody).map(|network| network.name_any());
                        prop_assert_eq!(harm, None, "{} in {}", name, router);
                    }
                    let policy = vip.spec.external_traffic_policy;
                    if after.without_candidates.contains_key(&name) || after.left_behind.contains(&vip.spec.address) {
                        continue;
                    }
                    let announcement = announcements.get_or_none(cluster.input().selected[&vip.spec.address].applied.as_deref());
                    if is_shared(vip, &after, announcement.load_sharing) {
                        shares_well(&cluster, vip, &after)?;
                        prop_assert_eq!(after.routers[router].external_traffic_policy, ExternalTrafficPolicy::Cluster);
                        continue;
                    }
                    prop_assert_eq!(after.routers[router].external_traffic_policy, policy, "{} in {}", name, router);
                    if let Some(serving) = cluster.input.serving.get(&vip.spec.address).filter(|_| !policy.is_cluster()) {
                        let state = |node: &str| serving.get(node).map_or(EndpointState::None, |one| one.state);
                        let announcement = announcements.get_or_none(after.routers[router].announcement.as_deref());
                        let is_left = |node: &&RankedNode| {
                            cluster.nodes.get(&node.name).is_some_and(|known| announcement.allows_node(&known.labels))
                        };
                        let nodes = after.routers[router].nodes.iter().filter(is_left);
                        let best = nodes.map(|node| state(&node.name)).max();
                        let preferred = ranking::preferred(&after.routers[router]).expect("a node");
                        prop_assert_eq!(Some(state(preferred)), best, "{} on {}", name, preferred);
                    }
                }
            }
            let mut vrids = BTreeSet::new();
            for (name, router) in &after.routers {
                let is_stuck = cluster.input.vips.iter().any(|vip| {
                    after.routers_by_vip.get(&vip.name_any()) == Some(name)
                        && after.left_behind.contains(&vip.spec.address)
                });
                for network in cluster.networks.iter().filter(|_| strangers == 0) {
                    let on_it = router.nodes.iter().find(|node| node.name == network.name_any());
                    let shares = |one: &ForeignRouter| {
                        on_it.is_some_and(|node| node.address.is_ipv4() == one.source.is_ipv4() && node.interface == one.interface)
                    };
                    let taken = network.spec.foreign_routers.iter().any(|one| shares(one) && one.vrid == router.vrid);
                    // Who signs leaves its VRID to nobody.
                    let signs = router.authentication.is_some();
                    prop_assert!(!taken || is_stuck || signs, "{} has a stranger's VRID", name);
                }
                prop_assert!(after.routers_by_vip.values().any(|router| router == name), "{} carries nothing", name);
                prop_assert!(vrids.insert((router.segment.clone(), router.vrid)), "{} twice", name);
                prop_assert!(!router.nodes.is_empty());
                let mut priorities: Vec<_> = router.nodes.iter().map(|node| node.priority).collect();
                priorities.sort_unstable();
                priorities.dedup();
                prop_assert_eq!(priorities.len(), router.nodes.len(), "two nodes of one priority");
                prop_assert!(priorities.iter().all(|priority| (1..=254).contains(priority)));
                let announcement = announcements.get(router.announcement.as_deref());
                prop_assert!(announcement.is_some(), "{} is of an Announcement that is gone", name);
                let Some(announcement) = announcement else { continue };
                let is_left = |node: &RankedNode| {
                    cluster.nodes.get(&node.name).is_some_and(|known| announcement.allows_node(&known.labels))
                };
                let worst = |healthy| {
                    let of_kind = router.nodes.iter().filter(|node| is_left(node));
                    let of_kind = of_kind.filter(|n| announcement.is_healthy(&cluster.nodes[&n.name]) == healthy);
                    (of_kind.clone().map(|n| n.priority).min(), of_kind.map(|n| n.priority).max())
                };
                let bounds = (worst(true), worst(false));
                if let ((Some(least_healthy), _), (_, Some(best_other))) = bounds && router.external_traffic_policy.is_cluster() {
                    prop_assert!(least_healthy > best_other, "a drained node before a healthy one");
                }
                // Who an admin wants has the VIPs, unless it serves them worse than another.
                if let Some(wanted) = after.preferred_nodes.get(name)
                    && let Some(ranked) = router.nodes.iter().find(|node| node.name == *wanted)
                    && is_left(ranked)
                    && !ranked.joining
                    && announcement.is_healthy(&cluster.nodes[wanted])
                    && router.external_traffic_policy.is_cluster()
                {
                    prop_assert_eq!(ranking::preferred(router), Some(wanted.as_str()), "{}", name);
                }
                let is_as_wanted = router.transport == announcement.vrrp.transport
                    && announcement.vrrp.vrids.contains(&router.vrid);
                prop_assert!(is_as_wanted || is_stuck, "{} is not as its Announcement says", name);
                // Survivors keep their order, unless the admin wants another, or another router has got the VRID.
                let is_large = announcement.vrrp.vrids == (1..=u8::MAX);
                let of_admin = matches!(step, Step::Announce { .. } | Step::Unannounce { .. } | Step::Label { .. });
                if let Some(old) = before.routers.get(name).filter(|_| is_large && !of_admin) {
                    let kept: Vec<_> =
                        router.nodes.iter().filter(|n| is_left(n) && old.nodes.iter().any(|o| o.name == n.name)).collect();
                    let order: Vec<_> = old
                        .nodes
                        .iter()
                        .filter(|o| router.nodes.iter().any(|n| is_left(n) && n.name == o.name))
                        .collect();
                    prop_assert!(kept.iter().zip(&order).all(|(n, o)| n.name == o.name), "order changed");
                }
            }
            for router in after.routers_by_vip.values() {
                prop_assert!(after.routers.contains_key(router));
            }
            for address in ["192.0.2.99", "2001:db8:2::99", "192.0.3.99"] {
                if let Some(named) = cluster.router_for_new_vip(address) {
                    cluster.vip(address);
                    let planned = planned(&cluster.input());
                    let name = virtual_ip_name(address.parse().expect(address));
                    prop_assert_eq!(planned.routers_by_vip.get(&name), Some(&named), "what the planner gives {}", address);
                    prop_assert_eq!(&planned.routers, &after.routers, "{} changes the routers", address);
                    cluster.remove_vip(address);
                }
            }
            before = after;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))] // 14 ms each

    #[test]
    fn the_vips_of_each_service_are_spread_evenly_over_the_nodes_in_whatever_order_they_come(
        nodes in 1..6u8,
        services in prop::collection::vec((0..6u8, family()), 1..30),
    ) {
        let mut cluster = Cluster::of(nodes);
        for number in 1..=nodes {
            let [v4, v6] = subnets(0, number);
            cluster.network(&format!("n{number}"), "eth0", &[&v4, &v6]);
        }
        let mut last = 100;
        for (service, family) in services {
            last += 1;
            cluster.vip_for("p", &family.vip(last), &[&format!("s{service}")]);
            let plan = cluster.plan();
            let mut firsts = BTreeMap::<(String, bool), BTreeMap<String, usize>>::new();
            for vip in &cluster.input.vips {
                let kind = (vip.spec.owners[0].name.clone(), vip.spec.address.is_ipv6());
                let first = names(&plan, &plan.routers_by_vip[&vip.name_any()])[0].clone();
                *firsts.entry(kind).or_default().entry(first).or_default() += 1;
            }
            for (kind, counts) in firsts {
                let least = if counts.len() == usize::from(nodes) { counts.values().min() } else { Some(&0) };
                prop_assert!(counts.values().max() <= least.map(|least| least + 1).as_ref(), "{kind:?} {counts:?}");
            }
        }
    }
}
