//! Small clusters of both families, whatever befalls their nodes, Services, Announcement and VRIDs, while some of the planner's writes
//! come to nothing.
//!
//! Each VIP is alone on its virtual router, as there are fewer than routers to spread over. So it stays, and when all is well again each
//! node gets its share.

use proptest::prelude::*;
use windlass_api::{Transport, UnschedulableNodePolicy, VrrpSettings};

use super::*;

/// The most nodes, and the most Services.
const NODES: u8 = 5;
const SERVICES: u8 = 6;
/// Prefix lengths of the LAN.
const LENGTHS: [u8; 2] = [24, 64];

#[derive(Debug, Clone)]
enum Step {
    /// One that is there gets these families instead of what it has.
    Service {
        number: u8,
        families: Families,
    },
    ServiceGone(u8),
    /// Where the pods are, for `Local`.
    Local {
        number: u8,
        nodes: Option<Vec<u8>>,
    },
    Node {
        number: u8,
        families: Families,
    },
    NodeGone(u8),
    /// With these prefix lengths: two nodes or more may have others than the rest of the LAN.
    Report {
        number: u8,
        families: Families,
        lengths: [u8; 2],
    },
    ReportGone(u8),
    Excluded {
        number: u8,
        is_excluded: bool,
    },
    Cordoned {
        number: u8,
        is_cordoned: bool,
    },
    Fails {
        number: u8,
        fails: bool,
    },
    CutOff {
        number: u8,
        is_cut_off: bool,
    },
    Announcement(Option<Transport>),
    /// Node `n1` hears one with each of these VRIDs.
    Strangers(Vec<u8>),
    /// The nodes that are preferred are Active, as is told.
    Elected,
    /// Somebody deletes one, and no write fails that brings its VIP elsewhere: it would go to the next that has the name.
    RouterGone(usize),
    /// An admin wants the VIPs of a router on this node, or takes that back.
    Prefer {
        router: usize,
        number: Option<u8>,
    },
    /// All nodes are well, no admin wants anything, and each gets its share.
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Families {
    Both,
    V4,
    V6,
}

impl Families {
    fn has(self, is_ipv6: bool) -> bool {
        match self {
            Self::Both => true,
            Self::V4 => !is_ipv6,
            Self::V6 => is_ipv6,
        }
    }
}

fn families() -> impl Strategy<Value = Families> {
    prop_oneof![6 => Just(Families::Both), 1 => Just(Families::V4), 1 => Just(Families::V6)]
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 1..=NODES;
    let service = || 0..SERVICES;
    let transport = prop_oneof![Just(Transport::Multicast), Just(Transport::Unicast)];
    let pods = prop::option::of(prop::collection::vec(node(), 0..3));
    prop_oneof![
        4 => (service(), families()).prop_map(|(number, families)| Step::Service { number, families }),
        1 => service().prop_map(Step::ServiceGone),
        1 => (service(), pods).prop_map(|(number, nodes)| Step::Local { number, nodes }),
        4 => (node(), families()).prop_map(|(number, families)| Step::Node { number, families }),
        3 => node().prop_map(Step::NodeGone),
        2 => (node(), families(), lengths())
            .prop_map(|(number, families, lengths)| Step::Report { number, families, lengths }),
        1 => node().prop_map(Step::ReportGone),
        1 => (node(), any::<bool>()).prop_map(|(number, is_excluded)| Step::Excluded { number, is_excluded }),
        1 => (node(), any::<bool>()).prop_map(|(number, is_cordoned)| Step::Cordoned { number, is_cordoned }),
        1 => (node(), any::<bool>()).prop_map(|(number, fails)| Step::Fails { number, fails }),
        1 => (node(), any::<bool>()).prop_map(|(number, is_cut_off)| Step::CutOff { number, is_cut_off }),
        4 => prop::option::weighted(0.9, transport).prop_map(Step::Announcement),
        2 => prop::collection::vec(60..72u8, 0..4).prop_map(Step::Strangers),
        2 => Just(Step::Elected),
        1 => (0..12usize).prop_map(Step::RouterGone),
        2 => (0..12usize, prop::option::of(node())).prop_map(|(router, number)| Step::Prefer { router, number }),
        2 => Just(Step::Rest),
    ]
}

/// Those of the LAN, or others that hold all addresses.
fn lengths() -> impl Strategy<Value = [u8; 2]> {
    prop_oneof![2 => Just(LENGTHS), 1 => (22..=25u8, 56..=66u8).prop_map(|(four, six)| [four, six])]
}

fn node_name(number: u8) -> String {
    format!("n{number}")
}

/// The address of the Service of this number in one of the families.
fn address(number: u8, is_ipv6: bool) -> String {
    if is_ipv6 { format!("2001:db8:2::{}", 100 + number) } else { format!("192.0.2.{}", 100 + number) }
}

impl Cluster {
    /// The agent of a node reports its addresses. What it said of routers and failures it says again.
    fn report(&mut self, number: u8, families: Families, [four, six]: [u8; 2]) {
        let [v4, v6] = [format!("192.0.2.{number}/{four}"), format!("2001:db8:2::{number}/{six}")];
        let of_both = [(v4.as_str(), false), (v6.as_str(), true)];
        let addresses: Vec<&str> = of_both
            .into_iter()
            .filter(|(_, is_ipv6)| families.has(*is_ipv6))
            .map(|(address, _)| address)
            .collect();
        self.network(&node_name(number), "eth0", &addresses);
    }

    /// What `n1` hears, if it has reported anything.
    fn strangers(&mut self, vrids: &[u8]) {
        let strangers = |source: &'static str| {
            let source: IpAddr = source.parse().expect("an address");
            let router =
                move |vrid: &u8| ForeignRouter { interface: "eth0".into(), vrid: *vrid, source, version: 3 };
            vrids.iter().map(router)
        };
        let heard: Vec<_> = strangers("192.0.2.254").chain(strangers("fe80::254")).collect();
        for network in self.networks.iter_mut().filter(|network| network.name_any() == "n1") {
            Arc::make_mut(network).spec.foreign_routers.clone_from(&heard);
        }
    }

    fn reports(&self, name: &str) -> bool {
        self.networks.iter().any(|network| network.name_any() == name)
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Service { number, families } => {
                for is_ipv6 in [false, true] {
                    let address = address(*number, is_ipv6);
                    let has_it = self.input.vips.iter().any(|vip| vip.spec.address.to_string() == address);
                    if !families.has(is_ipv6) {
                        self.remove_vip(&address);
                    } else if !has_it {
                        self.vip_for("p", &address, &[&format!("s{number}")]);
                    }
                }
            }
            Step::ServiceGone(number) => {
                for is_ipv6 in [false, true] {
                    self.remove_vip(&address(*number, is_ipv6));
                }
            }
            Step::Local { number, nodes } => {
                for address in [false, true].map(|is_ipv6| address(*number, is_ipv6)) {
                    let Some(nodes) = nodes else {
                        self.policy(&address, ExternalTrafficPolicy::Cluster);
                        continue;
                    };
                    let names: Vec<String> = nodes.iter().copied().map(node_name).collect();
                    let ready: Vec<_> =
                        names.iter().map(|name| (name.as_str(), EndpointState::Ready)).collect();
                    self.endpoints(&address, &ready);
                }
            }
            Step::Node { number, families } => {
                self.node(&node_name(*number), true);
                if !self.reports(&node_name(*number)) {
                    self.report(*number, *families, LENGTHS);
                }
            }
            // As the garbage collector does it.
            Step::NodeGone(number) if self.nodes.len() > 1 => {
                self.nodes.remove(&node_name(*number));
                self.networks.retain(|network| network.name_any() != node_name(*number));
            }
            Step::Report { number, families, lengths } if self.nodes.contains_key(&node_name(*number)) => {
                self.report(*number, *families, *lengths);
            }
            Step::ReportGone(number) => {
                self.networks.retain(|network| network.name_any() != node_name(*number));
            }
            Step::Excluded { number, is_excluded } if self.nodes.contains_key(&node_name(*number)) => {
                self.node(&node_name(*number), !is_excluded);
            }
            Step::Cordoned { number, is_cordoned } => self.cordon(&node_name(*number), *is_cordoned),
            Step::Fails { number, fails } if self.reports(&node_name(*number)) => {
                self.fails(&node_name(*number), if *fails { &["kube-proxy: it is not well"] } else { &[] });
            }
            Step::CutOff { number, is_cut_off: true } => drop(self.cut_off.insert(node_name(*number))),
            Step::CutOff { number, is_cut_off: false } => drop(self.cut_off.remove(&node_name(*number))),
            Step::Announcement(Some(transport)) => {
                let vrrp = VrrpSettings { transport: *transport, ..VrrpSettings::default() };
                let unschedulable_nodes = UnschedulableNodePolicy::Yield;
                self.announce(
                    "lan",
                    AnnouncementSpec { unschedulable_nodes, vrrp, ..AnnouncementSpec::default() },
                );
            }
            Step::Announcement(None) => self.announcements.clear(),
            Step::Strangers(vrids) => self.strangers(vrids),
            Step::Elected => {
                let preferred = |router: &Arc<VirtualRouter>| {
                    Some((router.name_any(), ranking::preferred(&router.spec)?.to_owned()))
                };
                self.active = self.input.routers.iter().filter_map(preferred).collect();
            }
            Step::RouterGone(index) if *index < self.input.routers.len() => {
                self.active.remove(&self.input.routers.remove(*index).name_any());
            }
            Step::Prefer { router, number } => {
                if let Some(name) = self.input.routers.get(*router).map(|router| router.name_any()) {
                    self.prefer(&name, number.map(node_name).as_deref());
                }
            }
            Step::NodeGone(_)
            | Step::Report { .. }
            | Step::Excluded { .. }
            | Step::Fails { .. }
            | Step::RouterGone(_)
            | Step::Rest => {}
        }
    }

    /// Carries a plan out but for the writes that come to nothing, each by the next of these bits.
    fn carry_out_partly(&mut self, failing: u32) {
        let input = self.input();
        let plan = planned(&input);
        let mut bits = (0..).map(|bit: u32| failing.rotate_right(bit) & 1 == 1);
        let mut fails = || bits.next() == Some(true);
        for (name, spec) in &plan.routers {
            let at = self.input.routers.iter().position(|router| router.name_any() == *name);
            let is_new = at.is_none_or(|at| self.input.routers[at].spec != **spec);
            if is_new && !fails() {
                let written = self.written(name, spec, &plan);
                match at {
                    Some(at) => self.input.routers[at] = written,
                    None => self.input.routers.push(written),
                }
            }
        }
        self.input.routers.sort_by_key(|router| router.name_any());
        let is_made = |name: &String| self.input.routers.iter().any(|router| router.name_any() == *name);
        for vip in &mut self.input.vips {
            let router = plan.routers_by_vip.get(&vip.name_any()).cloned();
            let announcement = input.selected[&vip.spec.address].applied.clone();
            let is_new = vip.spec.virtual_router != router || vip.spec.announcement != announcement;
            if is_new && router.as_ref().is_none_or(is_made) && !fails() {
                let spec = &mut Arc::make_mut(vip).spec;
                (spec.virtual_router, spec.announcement) = (router, announcement);
            }
        }
        let vips = &self.input.vips;
        let is_named = |name: &String| vips.iter().any(|vip| vip.spec.virtual_router.as_ref() == Some(name));
        self.input.routers.retain(|router| {
            let name = router.name_any();
            plan.routers.contains_key(&name) || is_named(&name) || fails()
        });
    }

    /// VIPs of a family that every node serves, with their virtual routers.
    fn carried(&self, is_ipv6: bool) -> Vec<(&VirtualIP, &VirtualRouter)> {
        let vips = self.input.vips.iter().filter(|vip| vip.spec.address.is_ipv6() == is_ipv6);
        let router = |name: &String| self.input.routers.iter().find(|router| router.name_any() == *name);
        let carried = vips.filter_map(|vip| Some((&**vip, &**router(vip.spec.virtual_router.as_ref()?)?)));
        carried.filter(|(_, router)| router.spec.external_traffic_policy.is_cluster()).collect()
    }

    fn each_is_alone(&self) -> Result<(), TestCaseError> {
        for is_ipv6 in [false, true] {
            let mut seen = BTreeMap::new();
            for (vip, router) in self.carried(is_ipv6) {
                let other = seen.insert(router.name_any(), vip.name_any());
                prop_assert_eq!(other, None, "{} is on {} as well", vip.name_any(), router.name_any());
            }
        }
        Ok(())
    }

    /// All nodes are well, and strangers gone; each gets what is to be given to it.
    fn rest(&mut self) -> Result<(), TestCaseError> {
        for node in self.nodes.values_mut() {
            (node.is_stable, node.is_unschedulable) = (true, false);
        }
        self.cut_off.clear();
        self.strangers(&[]);
        let silent: Vec<String> = self.nodes.keys().filter(|name| !self.reports(name)).cloned().collect();
        for name in silent {
            self.report(name.trim_start_matches('n').parse().expect("a number"), Families::Both, LENGTHS);
        }
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        for name in names {
            self.fails(&name, &[]);
        }
        self.active.clear();
        for router in &mut self.input.routers {
            Arc::make_mut(router).metadata.annotations = None;
        }
        self.plan();
        self.settle(0);
        let mut last_move = 0;
        for round in 0.. {
            self.elect(round * 100);
            let (moved, _) = self.rebalance(round * 100 + 50);
            if !moved.is_empty() {
                last_move = round;
            }
            // Nodes leave and join in the first rounds.
            if round > last_move + 3 {
                break;
            }
            prop_assert!(round < 100, "it never rests");
        }
        self.input.settled.clear();
        Ok(())
    }

    /// For how many VIPs of a family that every node serves each node with addresses of the family is preferred.
    fn shares(&self, is_ipv6: bool) -> BTreeMap<String, usize> {
        let of_family = |network: &&Arc<NodeNetwork>| {
            let mut addresses = network.spec.interfaces.iter().flat_map(|interface| &interface.addresses);
            addresses.any(|address| address.contains(':') == is_ipv6)
        };
        let nodes = self.networks.iter().filter(of_family).map(|network| network.name_any());
        let mut shares: BTreeMap<String, usize> =
            nodes.filter(|name| self.nodes.contains_key(name)).map(|name| (name, 0)).collect();
        if shares.is_empty() {
            return shares;
        }
        for (_, router) in self.carried(is_ipv6) {
            *shares.entry(first(&router.spec).expect("a node").to_owned()).or_default() += 1;
        }
        shares
    }

    /// What holds when all is well.
    fn shares_are_even(&self) -> Result<(), TestCaseError> {
        let [four, six] = [false, true].map(|is_ipv6| self.shares(is_ipv6));
        for shares in [&four, &six] {
            let (least, most) = (shares.values().min(), shares.values().max());
            prop_assert!(most <= least.map(|least| least + 1).as_ref(), "{:?} {:?}", four, six);
        }
        // Where each node has its share of each family, it has addresses of both.
        let total = |shares: &BTreeMap<String, usize>| shares.values().sum::<usize>();
        if total(&four) >= four.len() && total(&six) >= six.len() {
            for node in four.keys().filter(|node| six.contains_key(*node)) {
                prop_assert!(four[node] > 0 && six[node] > 0, "{}: {:?} {:?}", node, four, six);
            }
        }
        Ok(())
    }
}

/// A step, and which of the writes after it come to nothing; `None`: all of them are made.
type Event = (Step, Option<u32>);

/// Takes a small cluster through a history, and checks what holds after each step and at the end.
fn live_through(history: &[Event]) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::of(0);
    for number in 1..=3 {
        cluster.take(&Step::Node { number, families: Families::Both });
    }
    for number in 0..3 {
        cluster.take(&Step::Service { number, families: Families::Both });
    }
    cluster.take(&Step::Announcement(Some(Transport::Multicast)));
    cluster.plan();
    for (step, failing) in history {
        cluster.take(step);
        match failing.as_ref().filter(|_| !matches!(step, Step::RouterGone(_))) {
            Some(failing) => cluster.carry_out_partly(*failing),
            // What is left of a plan of which some writes failed may take a plan of its own.
            None => drop((cluster.carry_out(), cluster.plan())),
        }
        cluster.each_is_alone()?;
        if matches!(step, Step::Rest) {
            cluster.rest()?;
            cluster.shares_are_even()?;
        }
    }
    cluster.rest()?;
    cluster.each_is_alone()?;
    cluster.shares_are_even()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))] // 37 ms each

    #[test]
    fn each_address_keeps_a_virtual_router_of_its_own_and_each_node_gets_its_share(
        history in prop::collection::vec((step(), prop::option::weighted(0.4, any::<u32>())), 1..40),
    ) {
        live_through(&history)?;
    }
}

#[test]
fn an_emptied_router_whose_successor_is_there_takes_no_new_address() {
    let announced = |transport| Step::Announcement(Some(transport));
    let both = Families::Both;
    let histories: [Vec<Event>; 2] = [
        vec![
            (announced(Transport::Unicast), None),
            (announced(Transport::Multicast), Some(3_966_871_851)),
            (Step::NodeGone(1), Some(4_220_673_523)),
            (Step::Service { number: 3, families: both }, Some(370_794_063)),
            (announced(Transport::Unicast), Some(3_675_513_203)),
            (announced(Transport::Multicast), None),
        ],
        vec![
            (announced(Transport::Unicast), None),
            (Step::Announcement(None), Some(2_857_155_252)),
            (Step::Node { number: 1, families: both }, Some(2_138_914_869)),
            (Step::Service { number: 3, families: both }, Some(364_213_954)),
            (announced(Transport::Unicast), Some(176_254_177)),
            (Step::Announcement(None), None),
        ],
    ];
    for history in histories {
        live_through(&history).unwrap_or_else(|error| panic!("{error}: {history:?}"));
    }
}

#[test]
fn a_router_that_another_address_is_about_to_leave_takes_no_new_one() {
    let both = Families::Both;
    let history = vec![
        (Step::ServiceGone(2), None),
        (Step::Service { number: 5, families: both }, None),
        (Step::Service { number: 2, families: both }, Some(518_961)),
        (Step::Local { number: 5, nodes: Some(Vec::new()) }, Some(3_541_790_817)),
        (Step::Local { number: 5, nodes: None }, None),
    ];
    live_through(&history).unwrap_or_else(|error| panic!("{error}: {history:?}"));
}
