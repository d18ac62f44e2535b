//! How VIPs are spread over the nodes: all of them, and those of one Service.

use super::*;

// shows: allocation 120
#[test]
fn vips_of_one_service_are_on_different_nodes_as_far_as_there_are() {
    let mut cluster = Cluster::of(3);
    // The routers that there are do not tempt it to put two on one node.
    for number in 0..5 {
        cluster.vip(&format!("192.0.2.{}", 100 + number));
        cluster.plan();
    }
    for number in 0..6 {
        cluster.vip_for("p", &format!("192.0.2.{}", 200 + number), &["web"]);
    }
    let plan = cluster.plan();
    let mut firsts = BTreeMap::<String, usize>::new();
    for number in 0..6 {
        let router = &plan.routers_by_vip[&format!("192.0.2.{}", 200 + number)];
        *firsts.entry(names(&plan, router)[0].clone()).or_default() += 1;
    }
    assert_eq!(firsts.into_values().collect::<Vec<_>>(), [2, 2, 2]);
    assert_eq!(plan.routers.len(), 6);
}

#[test]
fn a_shared_vip_keeps_away_from_the_others_of_each_of_its_services() {
    let mut cluster = Cluster::of(3);
    cluster.vip_for("p", "192.0.2.100", &["a"]);
    cluster.vip_for("p", "192.0.2.101", &["b"]);
    cluster.vip_for("p", "192.0.2.102", &["a", "b"]);
    let plan = cluster.plan();
    let firsts: BTreeSet<_> =
        plan.routers_by_vip.values().map(|router| names(&plan, router)[0].clone()).collect();
    assert_eq!(firsts.len(), 3);
}

#[test]
fn a_router_is_made_for_a_node_that_is_first_in_none_when_a_service_has_vips_on_all_others() {
    // Six routers of the pool `p`, each with n1 before n2, as two nodes that were drained in turn leave them.
    let mut cluster = Cluster::of(2);
    for last in 96..102 {
        cluster.vip(&format!("192.0.2.{last}"));
    }
    cluster.plan();
    for router in &mut cluster.input.routers {
        Arc::make_mut(router).spec.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    }
    cluster.vip_for("p", "192.0.2.102", &["web"]);
    assert_eq!(cluster.plan().routers.len(), 6, "one VIP is content with what there is");
    cluster.vip_for("p", "192.0.2.103", &["web"]);
    let plan = cluster.plan();
    assert_eq!(plan.routers.len(), 7);
    assert_eq!(names(&plan, &plan.routers_by_vip["192.0.2.103"])[0], "n2");
    // A drained node has none to give.
    cluster.node("n2", false);
    cluster.remove_vip("192.0.2.103");
    cluster.plan();
    cluster.vip_for("p", "192.0.2.104", &["web"]);
    assert_eq!(cluster.plan().routers.len(), 6);
}

// shows: allocation 92, 120
#[test]
fn routers_are_made_as_needed_at_most_two_per_node_and_vips_spread_over_them() {
    let mut cluster = Cluster::of(3);
    let mut routers = Vec::new();
    for number in 0..30 {
        cluster.vip(&format!("192.0.2.{}", 100 + number));
        routers.push(cluster.plan().routers.len());
    }
    assert_eq!(routers[..8], [1, 2, 3, 4, 5, 6, 6, 6]);
    let plan = cluster.plan();
    for router in plan.routers.keys() {
        assert_eq!(plan.routers_by_vip.values().filter(|carrier| *carrier == router).count(), 5, "{router}");
    }
    let mut firsts: Vec<_> = plan.routers.keys().map(|router| names(&plan, router)[0].clone()).collect();
    firsts.sort();
    assert_eq!(firsts, ["n1", "n1", "n2", "n2", "n3", "n3"], "every node is the first of two");
}

// shows: field-reports F-32
#[test]
fn a_dead_nodes_share_spreads_over_the_survivors() {
    for nodes in 3..=9 {
        let mut cluster = Cluster::of(nodes);
        for number in 0..4 * nodes {
            cluster.vip(&format!("192.0.2.{}", 100 + number));
            cluster.plan();
        }
        let plan = cluster.plan();
        assert_eq!(plan.routers.len(), 2 * usize::from(nodes));
        let mut after = BTreeMap::<String, BTreeSet<String>>::new();
        for router in plan.routers.keys() {
            let names = names(&plan, router);
            assert!(after.entry(names[0].clone()).or_default().insert(names[1].clone()), "{names:?}");
        }
        assert!(after.into_values().all(|seconds| seconds.len() == 2), "each has two others after it");
    }
}

// shows: field-reports F-31
#[test]
fn however_many_vips_there_are_each_node_has_as_many_but_one() {
    for nodes in [1, 2, 3, 7, 13] {
        let mut cluster = Cluster::of(nodes);
        for number in 0..60 {
            cluster.vip(&format!("192.0.2.{}", 100 + number));
            let plan = cluster.plan();
            let mut shares: BTreeMap<&str, usize> =
                cluster.nodes.keys().map(|node| (node.as_str(), 0)).collect();
            for router in plan.routers_by_vip.values() {
                *shares.entry(plan.routers[router].nodes[0].name.as_str()).or_default() += 1;
            }
            let (most, least) = (shares.values().max(), shares.values().min());
            assert!(most <= least.map(|least| least + 1).as_ref(), "{shares:?}");
        }
    }
}
