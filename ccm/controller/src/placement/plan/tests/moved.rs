//! What an admin wants of a virtual router (`windlass move`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use windlass_api::{ANNOTATION_PREFERRED_NODE, LoadSharing, PreferredNodes, Transport, VrrpSettings};

use super::*;

const VIP: &str = "192.0.2.100";

impl Cluster {
    /// An admin wants the VIPs of a router on this node, or takes that back.
    pub(super) fn prefer(&mut self, router: &str, node: Option<&str>) {
        for one in self.input.routers.iter_mut().filter(|one| one.name_any() == router) {
            Arc::make_mut(one).metadata.annotations = preferring(node);
        }
    }
}

/// Annotations of a router whose VIPs an admin wants on this node.
pub(super) fn preferring(node: Option<&str>) -> Option<BTreeMap<String, String>> {
    node.map(|node| BTreeMap::from([(ANNOTATION_PREFERRED_NODE.to_owned(), node.to_owned())]))
}

/// Of three nodes, with one VIP: the cluster, the name of the VIP's router, and its nodes in their order.
fn one_vip() -> (Cluster, String, Vec<String>) {
    let mut cluster = Cluster::of(3);
    cluster.vip(VIP);
    let router = cluster.router(VIP).expect("a router");
    let order = names(&cluster.plan(), &router);
    (cluster, router, order)
}

#[test]
fn the_node_that_an_admin_wants_comes_first_and_the_others_as_before_until_the_wish_is_taken_back() {
    let (mut cluster, router, order) = one_vip();
    let before = ranking(&cluster.plan(), &router);
    cluster.prefer(&router, Some(&order[2]));
    let plan = cluster.plan();
    assert_eq!(names(&plan, &router), order, "the order is as it was");
    let priorities: Vec<u8> = ranking(&plan, &router).into_iter().map(|(_, priority)| priority).collect();
    assert_eq!(priorities, [priorities::good(1), priorities::good(2), priorities::good(0)]);
    cluster.prefer(&router, None);
    assert_eq!(ranking(&cluster.plan(), &router), before);
}

#[test]
fn it_gives_the_addresses_up_while_it_is_drained_and_a_wish_for_a_node_that_is_gone_changes_nothing() {
    let (mut cluster, router, order) = one_vip();
    cluster.prefer(&router, Some(&order[1]));
    assert_eq!(preferred(&cluster.plan(), VIP), order[1]);
    cluster.node(&order[1], false);
    assert_eq!(preferred(&cluster.plan(), VIP), order[0], "drained");
    cluster.node(&order[1], true);
    assert_eq!(preferred(&cluster.plan(), VIP), order[1], "taken back");
    cluster.nodes.remove(&order[1]);
    assert_eq!(preferred(&cluster.plan(), VIP), order[0], "deleted");
    cluster.prefer(&router, Some("n9"));
    assert_eq!(preferred(&cluster.plan(), VIP), order[0], "there never was one");
}

#[test]
fn it_comes_before_the_nodes_that_the_announcement_prefers_and_not_before_its_selector() {
    let (mut cluster, router, order) = one_vip();
    for node in &order[..2] {
        cluster.label(node, "disk", "fast");
    }
    let fast = LabelSelector {
        match_labels: Some([("disk".to_owned(), "fast".to_owned())].into()),
        ..LabelSelector::default()
    };
    let preferred_nodes = vec![PreferredNodes { weight: 100, selector: fast.clone() }];
    cluster.announce("a", AnnouncementSpec { preferred_nodes, ..AnnouncementSpec::default() });
    assert_ne!(preferred(&cluster.plan(), VIP), order[2]);
    cluster.prefer(&router, Some(&order[2]));
    assert_eq!(preferred(&cluster.plan(), VIP), order[2]);
    cluster.announce("a", AnnouncementSpec { node_selectors: vec![fast], ..AnnouncementSpec::default() });
    assert_ne!(preferred(&cluster.plan(), VIP), order[2], "the Announcement leaves it out");
}

#[test]
fn with_local_it_comes_first_of_those_that_have_pods() {
    let mut cluster = Cluster::of(3);
    let load_sharing = LoadSharing::None;
    cluster.announce("a", AnnouncementSpec { load_sharing, ..AnnouncementSpec::default() });
    cluster.vip(VIP);
    cluster.endpoints(VIP, &[("n1", EndpointState::Ready), ("n2", EndpointState::Ready)]);
    let router = cluster.router(VIP).expect("a router");
    let other = if preferred(&cluster.plan(), VIP) == "n1" { "n2" } else { "n1" };
    cluster.prefer(&router, Some("n3"));
    assert_ne!(preferred(&cluster.plan(), VIP), "n3", "it has no pod");
    cluster.prefer(&router, Some(other));
    assert_eq!(preferred(&cluster.plan(), VIP), other);
    cluster.prefer(&router, None);
    assert_eq!(preferred(&cluster.plan(), VIP), other, "it stays where a pod is");
}

#[test]
fn a_node_that_is_in_no_list_joins_the_router_to_have_its_addresses() {
    let mut cluster = Cluster::of(12);
    cluster.vip(VIP);
    let router = cluster.router(VIP).expect("a router");
    let members = names(&cluster.plan(), &router);
    let other = (1..=12).map(|number| format!("n{number}")).find(|name| !members.contains(name));
    let other = other.expect("a node that is not in it");
    cluster.prefer(&router, Some(&other));
    let plan = cluster.carry_out();
    assert_ne!(preferred(&plan, VIP), other, "not before all others know it");
    assert_eq!(preferred(&cluster.plan(), VIP), other);
}

#[test]
fn what_takes_the_place_of_a_router_has_its_wish() {
    let (mut cluster, router, order) = one_vip();
    cluster.prefer(&router, Some(&order[2]));
    cluster.plan();
    let vrrp = VrrpSettings { transport: Transport::Unicast, ..VrrpSettings::default() };
    cluster.announce("a", AnnouncementSpec { vrrp, ..AnnouncementSpec::default() });
    let plan = cluster.plan();
    assert_ne!(plan.routers_by_vip[VIP], router);
    assert_eq!(preferred(&plan, VIP), order[2]);
}

#[test]
fn addresses_that_an_admin_moved_stay_and_others_are_evened_out_as_without_that() {
    let mut cluster = Cluster::of(2);
    for last in 100..106 {
        cluster.vip(&format!("192.0.2.{last}"));
    }
    cluster.plan();
    cluster.settle(0);
    cluster.elect(0);
    let of_n1 = |cluster: &Cluster| -> Vec<String> {
        let routers = cluster.input.routers.iter();
        let first = routers.filter(|router| ranking::preferred(&router.spec) == Some("n1"));
        first.map(|router| router.name_any()).collect()
    };
    let moved = of_n1(&cluster);
    assert_eq!(moved.len(), 3);
    for router in &moved {
        cluster.prefer(router, Some("n2"));
    }
    cluster.rebalance(1000);
    assert_eq!(of_n1(&cluster), Vec::<String>::new());
    cluster.elect(1000);
    assert_eq!(cluster.rebalance(2000), (Vec::new(), None), "no other comes in their place");

    cluster.node("n3", true);
    cluster.network("n3", "eth0", &["192.0.2.3/24"]);
    cluster.plan();
    cluster.settle(2000);
    let mut given = Vec::new();
    for round in 30..40 {
        cluster.elect(round * 100);
        given.extend(cluster.rebalance(round * 100 + 50).0);
    }
    assert!(!given.is_empty() && given.iter().all(|router| !moved.contains(router)), "{given:?}");
}
