//! Services with several VIPs.

use super::*;

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
    // Two routers of the pool `p`, both with n1 before n2, as two nodes that were drained in turn leave them.
    let mut cluster = Cluster::of(2);
    cluster.vip("192.0.2.100");
    cluster.vip("192.0.2.101");
    cluster.plan();
    for router in &mut cluster.input.routers {
        Arc::make_mut(router).spec.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    }
    cluster.vip_for("p", "192.0.2.102", &["web"]);
    assert_eq!(cluster.plan().routers.len(), 2, "one VIP is content with what there is");
    cluster.vip_for("p", "192.0.2.103", &["web"]);
    let plan = cluster.plan();
    assert_eq!(plan.routers.len(), 3);
    assert_eq!(names(&plan, &plan.routers_by_vip["192.0.2.103"])[0], "n2");
    // A drained node has none to give.
    cluster.node("n2", false);
    cluster.remove_vip("192.0.2.103");
    cluster.plan();
    cluster.vip_for("p", "192.0.2.104", &["web"]);
    assert_eq!(cluster.plan().routers.len(), 2);
}
