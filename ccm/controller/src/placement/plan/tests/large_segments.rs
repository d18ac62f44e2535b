//! Segments with more nodes than a virtual router has.

use super::ranking::MOST_CANDIDATES;
use super::*;

/// A cluster with two VIPs for each of its nodes.
fn large(nodes: u8) -> Cluster {
    let mut cluster = Cluster::of(nodes);
    for vip in 0..2 * u16::from(nodes) {
        cluster.vip(&format!("192.0.2.{}", 100 + vip));
    }
    cluster
}

/// How many nodes each router has.
fn sizes(plan: &PlacementPlan<'_>) -> BTreeSet<usize> {
    plan.routers.values().map(|router| router.nodes.len()).collect()
}

#[test]
fn each_router_has_a_few_of_the_nodes_and_each_node_is_first_in_two() {
    let plan = large(30).plan();
    assert_eq!((plan.routers.len(), sizes(&plan)), (60, [MOST_CANDIDATES].into()));
    let mut places: BTreeMap<&str, [usize; MOST_CANDIDATES]> = BTreeMap::new();
    for router in plan.routers.values() {
        for (place, node) in router.nodes.iter().enumerate() {
            places.entry(&node.name).or_default()[place] += 1;
        }
    }
    assert_eq!(places.len(), 30);
    assert!(places.values().all(|of| of[0] == 2), "first: {places:?}");
    assert!(places.values().all(|of| (1..=3).contains(&of[1])), "second: {places:?}");
    assert!(places.values().all(|of| (1..=3).contains(&of[2])), "third: {places:?}");
}

#[test]
fn nodes_that_are_drained_in_turn_are_replaced_by_nobody() {
    let mut cluster = large(30);
    let before = cluster.plan();
    for number in 1..=30 {
        cluster.node(&format!("n{number}"), false);
        assert_eq!(sizes(&cluster.plan()), [MOST_CANDIDATES].into(), "n{number}");
        cluster.node(&format!("n{number}"), true);
    }
    assert_eq!(cluster.plan(), before);
}

#[test]
fn where_most_nodes_of_a_router_are_not_well_others_join_it_as_many_as_are_needed() {
    let mut cluster = large(30);
    let plan = cluster.plan();
    let (router, spec) = plan.routers.first_key_value().expect("a router");
    let (router, members) = (router.clone(), spec.nodes.clone());
    for (gone, expected) in [(4, 8), (5, 9), (7, 11)] {
        for node in &members[..gone] {
            cluster.node(&node.name, false);
        }
        let after = cluster.plan();
        let nodes = &after.routers[&router].nodes;
        assert_eq!(nodes.len(), expected, "without {gone}");
        let well = nodes.iter().filter(|node| cluster.nodes[&node.name].is_stable).count();
        assert_eq!(well, 4, "without {gone}");
    }
    for node in &members {
        cluster.nodes.remove(&node.name);
    }
    cluster.active.insert(router.clone(), "n99".to_owned());
    assert_eq!(
        cluster.plan().routers[&router].nodes.len(),
        MOST_CANDIDATES,
        "those that are gone are replaced"
    );
}

#[test]
fn a_node_that_the_announcement_prefers_joins_a_router_that_has_enough() {
    let mut cluster = large(30);
    let plan = cluster.plan();
    let (router, spec) = plan.routers.first_key_value().expect("a router");
    let other = (1..=30).map(|number| format!("n{number}"));
    let other =
        other.into_iter().find(|name| spec.nodes.iter().all(|node| node.name != *name)).expect("another");
    let router = router.clone();
    cluster.label(&other, "rack", "best");
    let selector = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
        match_labels: Some([("rack".to_owned(), "best".to_owned())].into()),
        ..Default::default()
    };
    let preferred_nodes = vec![windlass_api::PreferredNodes { weight: 10, selector }];
    cluster.announce("a", AnnouncementSpec { preferred_nodes, ..AnnouncementSpec::default() });
    let plan = cluster.plan();
    assert_eq!(plan.routers[&router].nodes[0].name, other);
}
