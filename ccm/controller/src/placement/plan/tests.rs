//! Plans for small clusters, and properties over histories of clusters.

mod announcements;
mod capabilities;
mod cluster;
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

use cluster::{Cluster, names, planned, preferred, ranking};

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
