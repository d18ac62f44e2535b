//! Plans for small clusters, and properties over histories of clusters.

mod announcements;
mod capabilities;
mod edited;
mod failing;
mod families;
mod histories;
mod joining;
mod lans;
mod large_segments;
mod local;
mod moved;
mod pairs;
mod properties;
mod rebalancing;
mod renumbering;
mod segments;
mod sharing;
mod spread;
mod strangers;
mod takeover;
mod unplaced;
mod vrids;

use serde_json::json;
use windlass_api::{
    ANNOTATION_VRID_CHANGES, Announcement, AnnouncementSpec, Capability, ForeignRouter, InterfaceInfo,
    KnownRouter, NodeNetwork, NodeNetworkSpec, PortProtocol, PortSources, Quarantine, QuarantineReason,
    RankedNode, RestrictedPort, ServiceRef, VirtualIPSpec, VirtualRouterStatus, virtual_ip_name,
};
use windlass_common::priorities;
use windlass_ipam::Requester;

use super::*;
use crate::placement::endpoints::{EndpointState, NodeEndpoints};
use crate::placement::node_traits::NodeTraits;

/// A cluster that is changed and planned in turn, the plan being carried out each time.
#[derive(Default)]
struct Cluster {
    /// But for the topology.
    input: PlanInput,
    nodes: BTreeMap<String, NodeTraits>,
    networks: Vec<Arc<NodeNetwork>>,
    announcements: Vec<Arc<Announcement>>,
    /// The node that is Active for a router, by its name.
    active: BTreeMap<String, String>,
    /// Nodes that hear nothing new.
    cut_off: BTreeSet<String>,
    /// Virtual routers that were made so far.
    made: usize,
    /// Virtual routers are made at [`PlanInput::now`]; else at no time that counts.
    has_clock: bool,
}

/// The plan by itself, without a word on how it came about or how long it is good.
fn planned(input: &PlanInput) -> PlacementPlan<'static> {
    let PlacementPlan {
        routers,
        preferred_nodes,
        vrid_changes,
        routers_by_vip,
        left_behind,
        without_key,
        unplaced,
        without_candidates,
        shared_loads,
        uneven,
        not_shared,
        look_again: _,
    } = plan(input);
    let routers = routers.into_iter().map(|(name, spec)| (name, Cow::Owned(spec.into_owned()))).collect();
    let look_again = None;
    PlacementPlan {
        routers,
        preferred_nodes,
        vrid_changes,
        routers_by_vip,
        left_behind,
        without_key,
        unplaced,
        without_candidates,
        shared_loads,
        uneven,
        not_shared,
        look_again,
    }
}

impl Cluster {
    /// `(node, interface, addresses)`, all healthy; without an Announcement.
    fn new(nodes: &[(&str, &str, &[&str])]) -> Self {
        let mut cluster = Self::default();
        for (node, interface, addresses) in nodes {
            cluster.node(node, true);
            cluster.network(node, interface, addresses);
        }
        cluster
    }

    /// `n1` to `n<count>` on `eth0` of 192.0.2.0/24.
    fn of(count: u8) -> Self {
        let mut cluster = Self::new(&[]);
        for number in 1..=count {
            cluster.node(&format!("n{number}"), true);
            cluster.network(&format!("n{number}"), "eth0", &[&format!("192.0.2.{number}/24")]);
        }
        cluster
    }

    fn node(&mut self, name: &str, healthy: bool) {
        self.nodes.entry(name.into()).or_default().is_stable = healthy;
    }

    fn cordon(&mut self, name: &str, is_unschedulable: bool) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.is_unschedulable = is_unschedulable;
        }
    }

    fn label(&mut self, node: &str, label: &str, value: &str) {
        self.nodes.get_mut(node).expect(node).labels.insert(label.into(), value.into());
    }

    /// Makes or changes an Announcement; those with names that come first in the alphabet are the older ones.
    fn announce(&mut self, name: &str, spec: AnnouncementSpec) {
        self.announcements.retain(|one| one.name_any() != name);
        self.announcements.push(Arc::new(Announcement::new(name, spec)));
    }

    /// Addresses of the pool `wan` are announced on these interfaces.
    fn announce_wan_on(&mut self, interfaces: &[&str]) {
        let interfaces = interfaces.iter().map(|&name| name.to_owned()).collect();
        let pools = vec!["wan".to_owned()];
        self.announce("wan", AnnouncementSpec { pools, interfaces, ..AnnouncementSpec::default() });
    }

    /// The node's agent has this key from now on.
    fn give_key(&mut self, node: &str, id: u8) {
        let network = self.networks.iter_mut().find(|network| network.name_any() == node).expect(node);
        Arc::make_mut(network).spec.vrrp_keys.push(id);
    }

    /// The node's agent obeys these from now on.
    fn capabilities(&mut self, node: &str, capabilities: &[Capability]) {
        for network in self.networks.iter_mut().filter(|network| network.name_any() == node) {
            Arc::make_mut(network).spec.capabilities = capabilities.to_vec();
        }
    }

    /// Only the nodes keep out who may not use the VIP, or everybody may.
    fn restrict(&mut self, address: &str, is_restricted: bool) {
        for vip in self.input.vips.iter_mut().filter(|vip| vip.spec.address.to_string() == address) {
            let port = RestrictedPort { protocol: PortProtocol::Tcp, port: 80 };
            let allowed = vec!["192.0.2.0/24".to_owned()];
            let sources = PortSources { ports: vec![port], allowed, by_kube_proxy: false };
            Arc::make_mut(vip).spec.sources = if is_restricted { vec![sources] } else { Vec::new() };
        }
    }

    fn network(&mut self, node: &str, interface: &str, addresses: &[&str]) {
        self.networks(node, &[(interface, addresses)], &[]);
    }

    /// With a link-local address, `fe80::` and the digits of the node's name, on interfaces that have an IPv6 address.
    fn networks(&mut self, node: &str, interfaces: &[(&str, &[&str])], foreign: &[(&str, u8)]) {
        let interfaces = interfaces.iter().map(|(name, addresses)| InterfaceInfo {
            name: (*name).into(),
            mac: "02:00:00:00:00:01".into(),
            addresses: addresses.iter().map(|&address| address.into()).collect(),
            link_local: addresses.iter().any(|address| address.contains(':')).then(|| {
                format!("fe80::{}", node.trim_matches(char::is_alphabetic)).parse().expect("address")
            }),
            isolated: false,
        });
        let foreign_routers = foreign.iter().map(|(interface, vrid)| ForeignRouter {
            interface: (*interface).into(),
            vrid: *vrid,
            source: format!("198.51.100.{vrid}").parse().expect("address"),
            version: 3,
        });
        let spec = NodeNetworkSpec {
            agent_version: "t".into(),
            capabilities: vec![Capability::SourceRanges, Capability::LoadSharing],
            interfaces: interfaces.collect(),
            foreign_routers: foreign_routers.collect(),
            ..NodeNetworkSpec::default()
        };
        self.networks.retain(|network| network.name_any() != node);
        self.networks.push(Arc::new(NodeNetwork::new(node, spec)));
    }

    fn vip(&mut self, address: &str) {
        self.vip_of("p", address);
    }

    fn vip_of(&mut self, pool: &str, address: &str) {
        self.vip_for(pool, address, &[address]);
    }

    /// Owned by these Services.
    fn vip_for(&mut self, pool: &str, address: &str, services: &[&str]) {
        let owner =
            |name: &&str| ServiceRef { namespace: "ns".into(), name: (*name).into(), uid: (*name).into() };
        let spec = VirtualIPSpec {
            on_address_in_use: windlass_api::OnAddressInUse::Refuse,
            load_sharing: None,
            address: address.parse().expect(address),
            pool: pool.into(),
            owners: services.iter().map(owner).collect(),
            former_pools: Vec::new(),
            virtual_router: None,
            announcement: None,
            sources: Vec::new(),
            ports: vec![RestrictedPort { protocol: PortProtocol::Tcp, port: 80 }],
            external_traffic_policy: ExternalTrafficPolicy::Cluster,
            health_check_node_ports: Vec::new(),
            quarantine: None,
        };
        self.input.vips.push(Arc::new(VirtualIP::new(&virtual_ip_name(spec.address), spec)));
    }

    fn remove_vip(&mut self, address: &str) {
        self.input.vips.retain(|vip| vip.spec.address.to_string() != address);
        self.input.serving.remove(&address.parse().expect(address));
    }

    /// The Services of the VIP get this policy.
    fn policy(&mut self, address: &str, policy: ExternalTrafficPolicy) {
        for vip in self.input.vips.iter_mut().filter(|vip| vip.spec.address.to_string() == address) {
            Arc::make_mut(vip).spec.external_traffic_policy = policy;
        }
    }

    /// These nodes have endpoints of the VIP's Services, whose policy is `Local`.
    fn endpoints(&mut self, address: &str, nodes: &[(&str, EndpointState)]) {
        self.policy(address, ExternalTrafficPolicy::Local);
        let ready = |state| usize::from(state == EndpointState::Ready);
        let node = |(name, state): &(&str, _)| {
            ((*name).to_owned(), NodeEndpoints { state: *state, ready: ready(*state) })
        };
        self.input.serving.insert(address.parse().expect(address), nodes.iter().map(node).collect());
    }

    fn quarantine(&mut self, address: &str) {
        let until = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
        for vip in self.input.vips.iter_mut().filter(|vip| vip.spec.address.to_string() == address) {
            let quarantine = Quarantine {
                reason: QuarantineReason::Released,
                until: until.clone(),
                message: String::new(),
            };
            Arc::make_mut(vip).spec.quarantine = Some(quarantine);
        }
    }

    fn input(&self) -> PlanInput {
        let announcements = Announcements::new(self.announcements.iter());
        let topology = Arc::new(Topology::new(&self.nodes, self.networks.clone(), &announcements));
        let service = Requester { namespace: "ns".into(), ..Requester::default() };
        let selected = self.input.vips.iter().map(|vip| {
            let VirtualIPSpec { address, pool, announcement, .. } = &vip.spec;
            (*address, announcements.select(pool, Some(&service), announcement.as_deref()))
        });
        let selected = selected.collect();
        let announcements = Arc::new(announcements);
        let routers = self.input.routers.iter().map(|router| {
            let mut router = VirtualRouter::clone(router);
            router.status = self.active.get(&router.name_any()).map(|node| VirtualRouterStatus {
                active_node: Some(node.clone()),
                ..VirtualRouterStatus::default()
            });
            Arc::new(router)
        });
        let routers = if self.active.is_empty() { self.input.routers.clone() } else { routers.collect() };
        PlanInput { announcements, selected, routers, topology, ..self.input.clone() }
    }

    /// Plans, carries the plan out, and checks that planning again changes nothing. Only Announcements may need another turn, when a
    /// router is left with VIPs of another one than before, and nodes that join, when all have heard of them.
    fn plan(&mut self) -> PlacementPlan<'static> {
        let mut plan = self.carry_out();
        for _ in 0..3 {
            let some_join = self.hear();
            if self.announcements.is_empty() && !some_join || planned(&self.input()) == plan {
                break;
            }
            plan = self.carry_out();
        }
        assert_eq!(planned(&self.input()), plan, "a plan carried out is planned again as it is");
        plan
    }

    /// The nodes hear of the virtual routers as they are, and tell so. Whether a node joins one.
    fn hear(&mut self) -> bool {
        let joined = |router: &&Arc<VirtualRouter>| router.spec.nodes.iter().any(|node| node.joining);
        let known = self.input.routers.iter().filter(joined).map(|router| KnownRouter {
            name: router.name_any(),
            generation: router.metadata.generation.unwrap_or_default(),
        });
        let known: Vec<KnownRouter> = known.collect();
        for network in &mut self.networks {
            if !self.cut_off.contains(&network.name_any()) {
                Arc::make_mut(network).spec.known_routers.clone_from(&known);
            }
        }
        !known.is_empty()
    }

    fn carry_out(&mut self) -> PlacementPlan<'static> {
        let input = self.input();
        let plan = planned(&input);
        for old in &input.routers {
            let fixed = |spec: &VirtualRouterSpec| (spec.transport, spec.authentication);
            if let Some(new) = plan.routers.get(&old.name_any()) {
                assert_eq!(fixed(&old.spec), fixed(new), "{} changes while it runs", old.name_any());
            }
        }
        self.input.routers =
            plan.routers.iter().map(|(name, spec)| self.written(name, spec, &plan)).collect();
        self.active.retain(|router, _| plan.routers.contains_key(router));
        for vip in &mut self.input.vips {
            let router = plan.routers_by_vip.get(&vip.name_any()).cloned();
            let spec = &mut Arc::make_mut(vip).spec;
            spec.virtual_router = router;
            spec.announcement = input.selected[&spec.address].applied.clone();
            spec.load_sharing = plan.shared_loads.get(&spec.address).cloned();
        }
        let sharing = Arc::make_mut(&mut self.input.sharing);
        sharing.observe(&self.input.vips, self.input.now);
        sharing.set_uneven(&plan.uneven, self.input.now);
        plan
    }

    /// A virtual router as the API server has it once this is written.
    fn written(
        &mut self,
        name: &str,
        spec: &VirtualRouterSpec,
        plan: &PlacementPlan<'_>,
    ) -> Arc<VirtualRouter> {
        let mut router = VirtualRouter::new(name, spec.clone());
        let wanted = plan.preferred_nodes.get(name).map(String::as_str);
        router.metadata.annotations = moved::preferring(wanted);
        if let Some(number) = plan.vrid_changes.get(name) {
            let annotations = router.metadata.annotations.get_or_insert_default();
            annotations.insert(ANNOTATION_VRID_CHANGES.to_owned(), number.to_string());
        }
        if let Some(old) = self.input.routers.iter().find(|old| old.name_any() == name) {
            let generation = old.metadata.generation.unwrap_or_default() + i64::from(old.spec != *spec);
            (router.metadata.generation, router.metadata.uid) = (Some(generation), old.metadata.uid.clone());
            router.metadata.creation_timestamp.clone_from(&old.metadata.creation_timestamp);
        } else {
            self.made += 1;
            (router.metadata.generation, router.metadata.uid) = (Some(1), Some(format!("uid-{}", self.made)));
            let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.input.now);
            router.metadata.creation_timestamp = self.has_clock.then_some(now);
        }
        Arc::new(router)
    }

    /// The router that a VIP of a new Service is made with.
    fn router_for_new_vip(&self, address: &str) -> Option<String> {
        self.router_for_new_vip_beside(address, &BTreeSet::new())
    }

    /// The same where the Service has VIPs of the other family, for which these nodes are first.
    fn router_for_new_vip_beside(&self, address: &str, partners: &BTreeSet<String>) -> Option<String> {
        let mut new = Self::default();
        new.vip(address);
        let vip = &new.input.vips[0];
        let input = PlanInput { vips: Vec::new(), ..self.input() };
        let service = Requester { namespace: "ns".into(), ..Requester::default() };
        let applied = input.announcements.select(&vip.spec.pool, Some(&service), None).applied;
        let announcement = input.announcements.get_or_none(applied.as_deref());
        let is_shared = announcement.load_sharing == windlass_api::LoadSharing::All;
        if input.topology.need(&vip.spec, is_shared) != Need::Nothing {
            return None;
        }
        let segment = input.topology.segment(vip.spec.address, announcement)?;
        let offer = ReadyRouters::new(&input, segment, announcement.name.as_deref());
        let carried = self.input.vips.iter().filter_map(|vip| vip.spec.virtual_router.as_deref());
        let vips = |router: &str| carried.clone().filter(|carrier| *carrier == router).count();
        offer.next(partners, vips).map(str::to_owned)
    }

    fn router(&mut self, address: &str) -> Option<String> {
        let name = virtual_ip_name(address.parse().expect(address));
        self.plan().routers_by_vip.get(&name).cloned()
    }
}

/// The node that is preferred for the VIP.
fn preferred<'a>(plan: &'a PlacementPlan<'_>, address: &str) -> &'a str {
    let name = virtual_ip_name(address.parse().expect(address));
    ranking::preferred(&plan.routers[&plan.routers_by_vip[&name]]).expect("a node")
}

/// Names and priorities, in order.
fn ranking(plan: &PlacementPlan<'_>, router: &str) -> Vec<(String, u8)> {
    plan.routers[router].nodes.iter().map(|node| (node.name.clone(), node.priority)).collect()
}

fn names(plan: &PlacementPlan<'_>, router: &str) -> Vec<String> {
    ranking(plan, router).into_iter().map(|(name, _)| name).collect()
}

// shows: ccm-contract S-28; field-reports F-47
#[test]
fn a_vip_goes_to_a_router_of_the_subnet_that_holds_it() {
    let mut cluster = Cluster::new(&[
        ("n1", "eth0", &["192.0.2.11/24"]),
        ("n2", "ens3", &["192.0.2.12/24", "2001:db8::12/64"]),
        ("n3", "eth0", &["198.51.100.13/24"]),
        ("n4", "eth0", &["192.0.2.14/32"]),
    ]);
    cluster.vip("192.0.2.200");
    let plan = cluster.plan();
    assert_eq!(plan.routers_by_vip["192.0.2.200"], "v4-192.0.2.0-24-64");
    let router = &plan.routers["v4-192.0.2.0-24-64"];
    assert_eq!(
        (router.vrid, router.segment.as_str(), router.advertisement_interval_milliseconds),
        (64, "192.0.2.0/24", 100)
    );
    let mut nodes: Vec<_> =
        router.nodes.iter().map(|n| format!("{} {} {}", n.name, n.address, n.interface)).collect();
    nodes.sort();
    assert_eq!(nodes, ["n1 192.0.2.11 eth0", "n2 192.0.2.12 ens3"], "not the other subnet, not a host route");
}

#[test]
fn a_vip_in_quarantine_is_planned_for_as_if_it_did_not_exist() {
    let mut cluster = Cluster::of(2);
    cluster.vip("192.0.2.100");
    cluster.plan();
    cluster.quarantine("192.0.2.100");
    assert_eq!(planned(&cluster.input()), PlacementPlan::default());
}

// shows: allocation 93, 94; field-reports F-47
#[test]
fn a_pool_is_announced_on_the_interface_that_its_announcement_names_even_outside_its_subnet() {
    let mut cluster = Cluster::new(&[]);
    for number in 1..=2 {
        cluster.node(&format!("n{number}"), true);
        let (one, two) = (format!("192.0.2.{number}/24"), format!("198.51.100.{number}/24"));
        cluster.networks(&format!("n{number}"), &[("eth0", &[&one]), ("eth1", &[&two])], &[]);
    }
    cluster.announce_wan_on(&["eth1"]);
    cluster.vip_of("wan", "203.0.113.1");
    let plan = cluster.plan();
    let router = &plan.routers[&plan.routers_by_vip["203.0.113.1"]];
    assert_eq!(router.segment, "198.51.100.0/24");
    assert!(router.nodes.iter().all(|node| node.interface == "eth1"), "{:?}", router.nodes);
}

#[test]
fn of_two_routers_with_one_vrid_on_a_segment_the_older_stays_and_the_other_gives_its_vips_away() {
    let mut cluster = Cluster::of(2);
    cluster.vip("192.0.2.100");
    cluster.plan();
    let made = |router: &VirtualRouter, name: &str, second: i64| {
        let mut router = VirtualRouter::new(name, router.spec.clone());
        let time = Timestamp::from_second(second).expect("a time");
        router.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
        Arc::new(router)
    };
    let name = cluster.input.routers[0].name_any();
    cluster.input.routers =
        vec![made(&cluster.input.routers[0], "a-twin", 20), made(&cluster.input.routers[0], &name, 10)];
    cluster.vip("192.0.2.101");
    Arc::make_mut(&mut cluster.input.vips[1]).spec.virtual_router = Some("a-twin".into());
    let plan = cluster.plan();
    assert_eq!(plan.routers_by_vip["192.0.2.100"], name);
    assert!(!plan.routers.contains_key("a-twin"), "{:?}", plan.routers);
    let vrids: BTreeSet<u8> = plan.routers.values().map(|router| router.vrid).collect();
    assert_eq!((vrids.len(), plan.routers_by_vip.len()), (2, 2), "{plan:?}");
}

#[test]
fn a_router_without_vips_is_removed_and_its_vrid_used_again() {
    let mut cluster = Cluster::of(2);
    cluster.vip("192.0.2.100");
    cluster.vip("192.0.2.101");
    assert_eq!(cluster.plan().routers.len(), 2);
    cluster.remove_vip("192.0.2.100");
    let left: Vec<_> = cluster.plan().routers.into_keys().collect();
    assert_eq!(left, ["v4-192.0.2.0-24-65"]);
    cluster.vip("192.0.2.102");
    assert_eq!(cluster.router("192.0.2.102").as_deref(), Some("v4-192.0.2.0-24-64"));
}

// shows: allocation 116
#[test]
fn a_vip_stays_on_its_router_when_others_empty() {
    let mut cluster = Cluster::of(2);
    for number in 0..6 {
        cluster.vip(&format!("192.0.2.{}", 100 + number));
    }
    let before = cluster.plan().routers_by_vip;
    for number in [0, 2, 4] {
        cluster.remove_vip(&format!("192.0.2.{}", 100 + number));
    }
    let after = cluster.plan();
    for (vip, router) in &after.routers_by_vip {
        assert_eq!(before[vip], *router);
    }
    assert_eq!(after.routers_by_vip.len(), 3);
}

// shows: allocation 115, 118; placement P-04
#[test]
fn nodes_come_at_the_end_and_go_without_changing_the_order_of_the_others() {
    let mut cluster = Cluster::of(3);
    cluster.vip("192.0.2.100");
    let router = "v4-192.0.2.0-24-64";
    let before = names(&cluster.plan(), router);
    cluster.node("a0", true);
    cluster.network("a0", "eth0", &["192.0.2.50/24"]);
    let with = names(&cluster.plan(), router);
    assert_eq!(with[..3], before);
    assert_eq!(with[3], "a0");
    cluster.active.insert(router.to_owned(), before[0].clone());
    cluster.nodes.remove(&before[1]);
    let plan = cluster.plan();
    assert_eq!(names(&plan, router), [before[0].clone(), before[2].clone(), "a0".into()]);
    assert_eq!(
        ranking(&plan, router).iter().map(|(_, priority)| *priority).collect::<Vec<_>>(),
        [254, 238, 222]
    );
}

// shows: allocation 93 to 95, 118; ccm-contract S-28; field-reports F-07, F-20
#[test]
fn a_drained_node_ranks_below_every_healthy_one_and_comes_back_to_its_place() {
    let mut cluster = Cluster::of(3);
    cluster.vip("192.0.2.100");
    let router = "v4-192.0.2.0-24-64";
    let before = ranking(&cluster.plan(), router);
    cluster.node(&before[0].0, false);
    let drained = ranking(&cluster.plan(), router);
    let expected = [(before[0].0.clone(), 60), (before[1].0.clone(), 254), (before[2].0.clone(), 238)];
    assert_eq!(drained, expected);
    cluster.node(&before[0].0, true);
    assert_eq!(ranking(&cluster.plan(), router), before);
    // All of them drained: the last still serves.
    for (name, _) in &before {
        cluster.node(name, false);
    }
    let all: Vec<_> = ranking(&cluster.plan(), router).into_iter().map(|(_, priority)| priority).collect();
    assert_eq!(all, [60, 59, 58]);
}

// shows: allocation 96
#[test]
fn a_missing_report_moves_nobody_and_an_empty_ranking_is_never_written() {
    let mut cluster = Cluster::of(3);
    cluster.vip("192.0.2.100");
    let before = cluster.plan();
    cluster.networks.clear();
    let without_candidates = [(
        "192.0.2.100".to_owned(),
        Unplaced::Segment { address: "192.0.2.100".parse().expect("an address"), pool: "p".into() },
    )];
    let before = PlacementPlan { without_candidates: without_candidates.into(), ..before };
    assert_eq!(cluster.plan(), before, "agents that do not report may still announce");
    cluster.nodes.clear();
    assert_eq!(cluster.plan(), before, "with no node left there is nobody better either");
}

#[test]
fn a_node_that_left_the_subnet_leaves_the_ranking_and_a_new_address_is_taken_over() {
    let mut cluster = Cluster::of(3);
    cluster.vip("192.0.2.100");
    cluster.plan();
    cluster.network("n1", "eth0", &["198.51.100.1/24"]);
    cluster.network("n2", "eth9", &["192.0.2.22/24"]);
    let plan = cluster.plan();
    let mut nodes: Vec<_> = plan.routers["v4-192.0.2.0-24-64"]
        .nodes
        .iter()
        .map(|node| format!("{} {} {}", node.name, node.address, node.interface))
        .collect();
    nodes.sort();
    assert_eq!(nodes, ["n2 192.0.2.22 eth9", "n3 192.0.2.3 eth0"]);
}

#[test]
fn a_vip_that_is_being_deleted_is_carried_no_more() {
    let mut cluster = Cluster::of(1);
    cluster.vip("192.0.2.100");
    cluster.plan();
    let deleted = json!("2026-01-01T00:00:00Z");
    Arc::make_mut(&mut cluster.input.vips[0]).metadata.deletion_timestamp =
        serde_json::from_value(deleted).expect("time");
    assert_eq!(planned(&cluster.input()), PlacementPlan::default());
}

#[test]
fn a_new_vip_names_its_router_once_the_vips_are_spread() {
    let mut cluster = Cluster::of(2);
    for last in 100..106 {
        let address = format!("192.0.2.{last}");
        assert_eq!(cluster.router_for_new_vip(&address), None, "{address}");
        cluster.vip(&address);
        cluster.plan();
    }
    assert!(cluster.router_for_new_vip("192.0.2.106").is_some());
    assert_eq!(cluster.router_for_new_vip("198.51.100.1"), None, "no segment");
    assert_eq!(cluster.router_for_new_vip("2001:db8::1"), None, "the first of its family");
    cluster.announce("b", AnnouncementSpec { pools: vec!["p".into()], ..AnnouncementSpec::default() });
    cluster.input.vips.iter_mut().for_each(|vip| Arc::make_mut(vip).spec.pool = "q".into());
    assert_eq!(cluster.router_for_new_vip("192.0.2.107"), None, "the routers are of no Announcement");
}
