//! What a node is given that has less than its share.

use proptest::prelude::*;
use windlass_api::VirtualRouterStatus;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

impl Cluster {
    /// All nodes are settled at this second. Between two moves are 30 seconds.
    pub(super) fn settle(&mut self, seconds: i64) {
        self.input.settling = Duration::from_mins(5);
        self.input.settled = self.nodes.keys().map(|node| (node.clone(), at(seconds))).collect();
    }

    /// The nodes elect, and those that became Active did so at this second.
    pub(super) fn elect(&mut self, seconds: i64) {
        for router in &mut self.input.routers {
            let router = Arc::make_mut(router);
            let active = ranking::preferred(&router.spec).map(str::to_owned);
            let status = router.status.get_or_insert_default();
            if status.active_node != active {
                let active_since = Some(at(seconds).to_string());
                *status = VirtualRouterStatus {
                    active_node: active,
                    active_since,
                    ..VirtualRouterStatus::default()
                };
            }
        }
    }

    /// Plans at this second and carries it out, and once more when all have heard of a node that joins. The routers that prefer
    /// another node from now on, and when to look again.
    pub(super) fn rebalance(&mut self, seconds: i64) -> (Vec<String>, Option<i64>) {
        let (moved, look_again) = self.rebalance_once(seconds);
        if self.hear() {
            return (moved, self.rebalance_once(seconds).1);
        }
        (moved, look_again)
    }

    fn rebalance_once(&mut self, seconds: i64) -> (Vec<String>, Option<i64>) {
        self.input.now = at(seconds);
        let input = self.input();
        let plan = plan(&input);
        let mut moved = Vec::new();
        for router in &mut self.input.routers {
            let router = Arc::make_mut(router);
            let spec = VirtualRouterSpec::clone(&plan.routers[&router.name_any()]);
            if ranking::preferred(&spec) != ranking::preferred(&router.spec) {
                moved.push(router.name_any());
            }
            router.spec = spec;
        }
        (moved, plan.look_again.map(Timestamp::as_second))
    }

    /// The Services whose VIPs it carries.
    fn services(&self, router: &str) -> BTreeSet<&ServiceRef> {
        let carried = self.input.vips.iter().filter(|vip| vip.spec.virtual_router.as_deref() == Some(router));
        carried.flat_map(|vip| &vip.spec.owners).collect()
    }

    /// The other routers that prefer the same node.
    fn beside(&self, router: &str) -> Vec<String> {
        let first = |router: &Arc<VirtualRouter>| ranking::preferred(&router.spec).map(str::to_owned);
        let own = self.input.routers.iter().find(|one| one.name_any() == router).and_then(first);
        let others = self.input.routers.iter().filter(|one| one.name_any() != router && first(one) == own);
        others.map(|one| one.name_any()).collect()
    }

    /// VIPs by the node that is preferred for them.
    fn loads(&self) -> BTreeMap<String, usize> {
        let mut loads: BTreeMap<String, usize> = self.nodes.keys().map(|node| (node.clone(), 0)).collect();
        for vip in &self.input.vips {
            let carries = |router: &&Arc<VirtualRouter>| Some(router.name_any()) == vip.spec.virtual_router;
            let router = self.input.routers.iter().find(carries).expect("its router");
            let node = ranking::preferred(&router.spec).expect("a node").to_owned();
            *loads.entry(node).or_default() += 1;
        }
        loads
    }
}

/// Three nodes with ten VIPs each, Active since second 0, and a fourth, which is settled at second 300.
fn joined() -> Cluster {
    let mut cluster = Cluster::of(3);
    for last in 0..30 {
        cluster.vip(&format!("192.0.2.{}", 100 + last));
    }
    cluster.plan();
    cluster.elect(0);
    cluster.node("n4", true);
    cluster.network("n4", "eth0", &["192.0.2.4/24"]);
    cluster.settle(300);
    cluster
}

#[test]
fn a_node_that_joined_is_given_its_share_one_router_at_a_time_when_it_is_settled() {
    let mut cluster = joined();
    // It is put at the end of each ranking, first of all.
    assert_eq!(cluster.rebalance(10), (vec![], None));
    assert_eq!(cluster.rebalance(11), (vec![], Some(300)));
    assert_eq!(cluster.rebalance(299), (vec![], Some(300)));
    let (moved, look_again) = cluster.rebalance(300);
    assert_eq!((moved.len(), look_again), (1, Some(330)));
    assert_eq!(cluster.loads().into_values().collect::<Vec<_>>(), [5, 10, 10, 5]);
    // Its node is not Active yet; and then: it has its share.
    cluster.elect(301);
    assert_eq!(cluster.rebalance(400), (vec![], None));
}

/// However small a cluster is, there is a virtual router that a node that joins can be given.
#[test]
fn a_cluster_that_grows_from_one_node_gives_each_that_joins_some_of_what_is_there() {
    let mut cluster = Cluster::of(1);
    for last in 0..12 {
        cluster.vip(&format!("192.0.2.{}", 100 + last));
    }
    cluster.plan();
    cluster.elect(0);
    let mut seconds = 0;
    for (number, least) in [(2, 6), (3, 4), (4, 2)] {
        seconds += 1000;
        cluster.node(&format!("n{number}"), true);
        cluster.network(&format!("n{number}"), "eth0", &[&format!("192.0.2.{number}/24")]);
        cluster.settle(seconds);
        for _ in 0..5 {
            seconds += 100;
            cluster.rebalance(seconds);
            cluster.elect(seconds);
        }
        let loads = cluster.loads();
        assert!(loads.values().all(|load| *load >= least), "{loads:?}");
    }
}

#[test]
fn a_node_that_is_in_no_ranking_of_a_large_segment_joins_one_and_is_then_given_its_share() {
    let mut cluster = Cluster::of(12);
    for last in 0..48 {
        cluster.vip(&format!("192.0.2.{}", 100 + last));
    }
    cluster.plan();
    cluster.elect(0);
    cluster.node("n13", true);
    cluster.network("n13", "eth0", &["192.0.2.13/24"]);
    cluster.settle(300);
    let is_in = |cluster: &Cluster| {
        let has_it = |router: &&Arc<VirtualRouter>| router.spec.nodes.iter().any(|node| node.name == "n13");
        cluster.input.routers.iter().filter(has_it).count()
    };
    assert_eq!(cluster.rebalance(299), (vec![], Some(300)));
    assert_eq!(is_in(&cluster), 0);
    assert_eq!(cluster.rebalance_once(300), (vec![], Some(330)));
    assert_eq!(is_in(&cluster), 1);
    assert_eq!(cluster.rebalance_once(330), (vec![], None), "the others have not heard of it");
    cluster.hear();
    assert_eq!(cluster.rebalance_once(340).0, Vec::<String>::new(), "it joins no more");
    let (moved, _) = cluster.rebalance_once(370);
    assert_eq!(moved.len(), 1);
    assert_eq!((is_in(&cluster), cluster.loads()["n13"]), (1, 2));
    cluster.elect(371);
    assert_eq!(cluster.rebalance(1000), (vec![], None), "another router would make it have more than others");
}

#[test]
fn nothing_is_moved_while_something_moves_or_a_node_is_not_well() {
    let mut cluster = joined();
    cluster.rebalance(10);
    let first = cluster.input.routers[0].name_any();
    // A router whose Active is another than it should be, or is not told.
    for active_node in [Some("n4".to_owned()), None] {
        let status = VirtualRouterStatus { active_node, ..VirtualRouterStatus::default() };
        Arc::make_mut(&mut cluster.input.routers[0]).status = Some(status);
        assert_eq!(cluster.rebalance(400), (vec![], Some(430)), "{first}");
    }
    cluster.elect(400);
    assert_eq!(cluster.rebalance(429), (vec![], Some(430)), "{first} has moved a moment ago");
    // One that is not ready, and one that is drained.
    let known = cluster.input.settled.remove("n2");
    assert_eq!(cluster.rebalance(430), (vec![], None));
    cluster.input.settled.extend(known.map(|since| ("n2".to_owned(), since)));
    cluster.node("n3", false);
    cluster.rebalance(430);
    cluster.elect(430);
    assert_eq!(cluster.rebalance(500), (vec![], None));
    cluster.node("n3", true);
    cluster.rebalance(501);
    cluster.elect(501);
    assert_eq!(cluster.rebalance(531).0.len(), 1);
}

#[test]
fn a_node_that_joined_is_given_nothing_while_something_fails_on_it_or_on_another_one() {
    for node in ["n4", "n1"] {
        let mut cluster = joined();
        cluster.rebalance(10);
        cluster.fails(node, &["kube-proxy: it is not well"]);
        assert_eq!(cluster.rebalance(400), (vec![], None), "{node}");
        // That it has no pod of some Service is no failure.
        cluster.fails(node, &["the health check on node port 30000: 503"]);
        assert_eq!(cluster.rebalance(500).0.len(), 1, "{node}");
        assert_eq!(cluster.loads()["n4"], 5, "{node}");
    }
}

proptest! {
    /// Whatever fails, and wherever: a router comes to prefer only nodes on which nothing does.
    #[test]
    fn no_address_is_moved_to_a_node_on_which_something_fails(
        before in 1..5u8,
        joining in 1..4u8,
        vips in 1..60u8,
        failing in prop::collection::vec(prop::collection::btree_set(1..9u8, 0..4), 1..8),
    ) {
        let mut cluster = Cluster::of(before);
        for last in 0..vips {
            cluster.vip(&format!("192.0.2.{}", 100 + last));
        }
        cluster.plan();
        for number in before + 1..=before + joining {
            cluster.node(&format!("n{number}"), true);
            cluster.network(&format!("n{number}"), "eth0", &[&format!("192.0.2.{number}/24")]);
        }
        cluster.settle(0);
        cluster.elect(0);
        cluster.rebalance(0);
        for (round, failing) in (1..).zip(failing) {
            cluster.elect(round * 100);
            let mut some_fail = false;
            for number in 1..=before + joining {
                let fails = failing.contains(&number);
                some_fail |= fails;
                cluster.fails(&format!("n{number}"), if fails { &["kube-proxy: it is not well"] } else { &[] });
            }
            let (moved, _) = cluster.rebalance(round * 100 + 50);
            prop_assert!(moved.is_empty() || !some_fail, "{:?} moved while {:?} fail", moved, failing);
        }
    }

    /// However VIPs came and went, and nodes: it ends, no step makes it worse or brings VIPs of one Service together, and nobody has
    /// much more than a router too many.
    #[test]
    fn rebalancing_comes_to_an_end_and_leaves_nobody_without_a_share(
        before in 1..5u8,
        joining in 1..4u8,
        vips in prop::collection::vec(0..30u8, 1..60),
        gone in prop::collection::vec(0..60u8, 0..40),
    ) {
        let mut cluster = Cluster::of(before);
        for (last, service) in (100..).zip(&vips) {
            cluster.vip_for("p", &format!("192.0.2.{last}"), &[&format!("s{service}")]);
        }
        cluster.plan();
        for last in gone {
            cluster.remove_vip(&format!("192.0.2.{}", 100 + last));
        }
        cluster.plan();
        for number in before + 1..=before + joining {
            cluster.node(&format!("n{number}"), true);
            cluster.network(&format!("n{number}"), "eth0", &[&format!("192.0.2.{number}/24")]);
        }
        cluster.settle(0);
        cluster.elect(0);
        cluster.rebalance(0);
        let spread = |cluster: &Cluster| {
            let loads = cluster.loads();
            loads.values().map(|load| load * load).sum::<usize>()
        };
        let routers = i64::try_from(cluster.input.routers.len()).expect("a number");
        let mut round = 1;
        loop {
            cluster.elect(round * 100);
            let was = spread(&cluster);
            let (moved, look_again) = cluster.rebalance(round * 100 + 50);
            if moved.is_empty() {
                prop_assert_eq!(look_again, None, "there is something to do that is not done");
                break;
            }
            prop_assert_eq!(moved.len(), 1);
            let services = cluster.services(&moved[0]);
            let beside = cluster.beside(&moved[0]);
            let others = beside.iter().flat_map(|router| cluster.services(router));
            prop_assert!(others.collect::<BTreeSet<_>>().is_disjoint(&services), "VIPs of one Service meet");
            prop_assert!(spread(&cluster) < was, "a step for the worse");
            round += 1;
            prop_assert!(round < 3 * routers + 3, "no end");
        }
        let loads = cluster.loads();
        let largest = cluster.input.routers.iter().map(|router| {
            cluster.input.vips.iter().filter(|vip| vip.spec.virtual_router == Some(router.name_any())).count()
        });
        let (least, most) = (loads.values().min().copied(), loads.values().max().copied());
        let total: usize = loads.values().sum();
        let has_share = least.unwrap_or(0) * loads.len() * 4 >= total * 3;
        let difference = most.unwrap_or(0) - least.unwrap_or(0);
        let services: BTreeSet<_> = cluster.input.vips.iter().map(|vip| &vip.spec.owners[0]).collect();
        let is_free = services.len() == cluster.input.vips.len();
        prop_assert!(has_share || !is_free || difference <= largest.max().unwrap_or(0), "{:?}", loads);
    }
}
