//! Nodes that not all of the others may know.

use super::*;

impl Cluster {
    fn ready(&mut self, nodes: &[&str]) {
        self.input.settled = nodes.iter().map(|node| ((*node).to_owned(), Timestamp::UNIX_EPOCH)).collect();
    }

    /// `n1` to `n3` with one VIP, and `n4`, which the Announcement prefers, as it joins.
    fn joined_by_a_preferred_node() -> Self {
        let mut cluster = Self::of(3);
        let selector =
            serde_json::from_value(json!({ "matchLabels": { "edge": "yes" } })).expect("a selector");
        let preferred_nodes = vec![windlass_api::PreferredNodes { weight: 10, selector }];
        cluster.announce("a", AnnouncementSpec { preferred_nodes, ..AnnouncementSpec::default() });
        cluster.vip("192.0.2.100");
        cluster.ready(&["n1", "n2", "n3", "n4"]);
        cluster.plan();
        cluster.node("n4", true);
        cluster.label("n4", "edge", "yes");
        cluster.network("n4", "eth0", &["192.0.2.4/24"]);
        cluster
    }

    /// Plans and carries it out once: names and priorities of those that join, and who is preferred.
    fn turn(&mut self) -> (Vec<(String, u8)>, String) {
        let plan = self.carry_out();
        let router = plan.routers.values().next().expect("a router");
        let joining = router.nodes.iter().filter(|node| node.joining);
        let preferred = ranking::preferred(router).expect("a node").to_owned();
        (joining.map(|node| (node.name.clone(), node.priority)).collect(), preferred)
    }
}

#[test]
fn a_node_that_joins_comes_before_nobody_until_all_have_told_that_they_know_it() {
    let mut cluster = Cluster::joined_by_a_preferred_node();
    let (joining, preferred) = cluster.turn();
    assert_eq!(joining, [("n4".to_owned(), priorities::unfit(3))]);
    assert_ne!(preferred, "n4");
    cluster.cut_off.insert("n1".to_owned());
    cluster.hear();
    assert_eq!(cluster.turn(), (joining, preferred), "one has not told");
    cluster.cut_off.clear();
    cluster.hear();
    assert_eq!(cluster.turn(), (vec![], "n4".to_owned()));
}

#[test]
fn what_is_known_of_an_older_list_does_not_count() {
    let mut cluster = Cluster::joined_by_a_preferred_node();
    cluster.turn();
    cluster.hear();
    // Before the planner reads that, another one joins.
    cluster.node("n5", true);
    cluster.network("n5", "eth0", &["192.0.2.5/24"]);
    for router in &mut cluster.input.routers {
        let generation = &mut Arc::make_mut(router).metadata.generation;
        *generation = generation.map(|generation| generation + 1);
    }
    let (joining, _) = cluster.turn();
    assert_eq!(joining.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["n4", "n5"]);
    cluster.hear();
    assert_eq!(cluster.turn(), (vec![], "n4".to_owned()));
}

#[test]
fn a_node_that_is_not_ready_and_does_not_tell_keeps_it_below_what_that_node_was_told_to_be() {
    let mut cluster = Cluster::joined_by_a_preferred_node();
    cluster.ready(&["n2", "n3", "n4"]);
    cluster.cut_off.insert("n1".to_owned());
    cluster.turn();
    cluster.hear();
    let (joining, preferred) = cluster.turn();
    assert_eq!(joining, [("n4".to_owned(), priorities::fair(0))]);
    assert_ne!(preferred, "n4");
    // It takes the place of nodes that are drained: the last that is well serves.
    for node in ["n1", "n2", "n3"] {
        cluster.node(node, false);
    }
    cluster.hear();
    assert_eq!(cluster.turn().1, "n4");
    // Its Node is deleted: nobody is waited for.
    cluster.nodes.remove("n1");
    cluster.hear();
    assert_eq!(cluster.turn(), (vec![], "n4".to_owned()));
}

// shows: placement P-05
#[test]
fn a_node_with_another_address_joins_anew_and_gets_its_place_back() {
    let mut cluster = Cluster::of(3);
    cluster.vip("192.0.2.100");
    cluster.ready(&["n1", "n2", "n3"]);
    let plan = cluster.plan();
    let (router, before) =
        (plan.routers_by_vip["192.0.2.100"].clone(), preferred(&plan, "192.0.2.100").to_owned());
    let order = names(&plan, &router);
    cluster.network(&before, "eth0", &["192.0.2.99/24"]);
    let (joining, now) = cluster.turn();
    assert_eq!(joining, [(before.clone(), priorities::unfit(2))]);
    assert_ne!(now, before);
    let plan = cluster.plan();
    assert_eq!((preferred(&plan, "192.0.2.100"), names(&plan, &router)), (before.as_str(), order));
}

/// So that nobody takes the place of a node that has its old address still, or again.
#[test]
fn the_others_know_a_node_by_its_former_address_until_all_know_the_new_one() {
    let mut cluster = Cluster::of(3);
    cluster.vip("192.0.2.100");
    cluster.ready(&["n1", "n2", "n3"]);
    cluster.plan();
    let addresses = |cluster: &mut Cluster| {
        let plan = cluster.carry_out();
        let router = plan.routers.values().next().expect("a router");
        let node = router.nodes.iter().find(|node| node.name == "n1").expect("n1");
        (node.address.to_string(), node.former_address.map(|address| address.to_string()), node.joining)
    };
    let [first, second, third] = ["192.0.2.1", "192.0.2.91", "192.0.2.92"].map(str::to_owned);
    for next in [&second, &third] {
        cluster.network("n1", "eth0", &[&format!("{next}/24")]);
        assert_eq!(addresses(&mut cluster), (next.clone(), Some(first.clone()), true));
    }
    cluster.network("n1", "eth0", &["192.0.2.1/24"]);
    assert_eq!(addresses(&mut cluster), (first.clone(), None, false), "all know it still");
    cluster.network("n1", "eth0", &["192.0.2.91/24"]);
    addresses(&mut cluster);
    cluster.hear();
    assert_eq!(addresses(&mut cluster), (second, None, false));
}

#[test]
fn a_node_that_is_alone_has_nobody_to_wait_for() {
    let mut cluster = Cluster::of(1);
    cluster.vip("192.0.2.100");
    cluster.ready(&["n1", "n2"]);
    cluster.plan();
    cluster.network("n1", "eth0", &["192.0.2.99/24"]);
    assert_eq!(cluster.turn(), (vec![], "n1".to_owned()));
    cluster.nodes.remove("n1");
    cluster.node("n2", true);
    cluster.network("n2", "eth0", &["192.0.2.2/24"]);
    assert_eq!(cluster.turn(), (vec![], "n2".to_owned()));
}

// shows: placement P-13
/// Its agent may live: it hears of that, resigns, and the others have to know whose word that is.
#[test]
fn a_node_whose_node_object_was_deleted_stays_the_last_while_it_is_active() {
    let mut cluster = Cluster::of(3);
    cluster.vip("192.0.2.100");
    let plan = cluster.plan();
    let (router, active) =
        (plan.routers_by_vip["192.0.2.100"].clone(), preferred(&plan, "192.0.2.100").to_owned());
    cluster.active.insert(router.clone(), active.clone());
    cluster.nodes.remove(&active);
    cluster.networks.retain(|network| network.name_any() != active);
    let plan = cluster.plan();
    assert_eq!(
        ranking(&plan, &router).iter().find(|(name, _)| *name == active),
        Some(&(active.clone(), priorities::unfit(2)))
    );
    let next = preferred(&plan, "192.0.2.100").to_owned();
    cluster.active.insert(router.clone(), next);
    assert!(!names(&cluster.plan(), &router).contains(&active));
}

/// What takes a router's place has its nodes; until it is told who is Active in it, that may be the one whose Node was deleted.
#[test]
fn a_node_whose_node_object_was_deleted_stays_the_last_in_the_router_that_takes_the_place_of_one_where_it_is_active()
 {
    let mut cluster = Cluster::of(3);
    cluster.vip("192.0.2.100");
    let plan = cluster.plan();
    let (old, active) =
        (plan.routers_by_vip["192.0.2.100"].clone(), preferred(&plan, "192.0.2.100").to_owned());
    let vrid = plan.routers[&old].vrid;
    cluster.active.insert(old.clone(), active.clone());
    cluster.nodes.remove(&active);
    cluster.networks.retain(|network| network.name_any() != active);
    let other = preferred(&cluster.plan(), "192.0.2.100").to_owned();
    let address = format!("192.0.2.{}/24", &other[1..]);
    cluster.networks(&other, &[("eth0", &[&address])], &[("eth0", vrid)]);
    let plan = cluster.plan();
    let new = plan.routers_by_vip["192.0.2.100"].clone();
    assert_ne!(new, old);
    assert_eq!(names(&plan, &new).last(), Some(&active));
    cluster.active.insert(new.clone(), other);
    assert!(!names(&cluster.plan(), &new).contains(&active));
}
