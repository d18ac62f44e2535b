//! How Announcements change where VIPs are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::json;
use windlass_api::{
    AddressConflictPolicy, Authentication, ConnectionPolicy, PreferredNodes, Transport,
    UnschedulableNodePolicy, VridRange, VrrpSettings,
};

use super::*;

fn selector(key: &str, value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some([(key.to_owned(), value.to_owned())].into()),
        ..LabelSelector::default()
    }
}

fn spec() -> AnnouncementSpec {
    AnnouncementSpec::default()
}

/// `count` VIPs of pool `p` and as many of `q`, in turn.
fn cluster_of_two_pools(nodes: u8, count: u8) -> Cluster {
    let mut cluster = Cluster::of(nodes);
    for number in 0..count {
        cluster.vip_of("p", &format!("192.0.2.{}", 100 + number));
        cluster.vip_of("q", &format!("192.0.2.{}", 200 + number));
    }
    cluster
}

fn preferred_nodes(plan: &PlacementPlan<'_>) -> BTreeMap<String, String> {
    let first = |(vip, router): (&String, &String)| {
        (vip.clone(), ranking::preferred(&plan.routers[router]).expect("a node").to_owned())
    };
    plan.routers_by_vip.iter().map(first).collect()
}

#[test]
fn the_first_announcement_for_everything_changes_the_routers_as_they_are() {
    let mut cluster = cluster_of_two_pools(3, 6);
    let before = cluster.plan();
    let vrrp = VrrpSettings {
        advertisement_interval_milliseconds: 50,
        preempt_delay_seconds: 7,
        unicast_fallback: false,
        virtual_mac: true,
        ..VrrpSettings::default()
    };
    let checks = vec![serde_json::from_value(json!({ "tcpSocket": { "port": 22 } })).expect("a check")];
    let (address_conflict, connections) = (AddressConflictPolicy::Yield, ConnectionPolicy::Replicate);
    let checked = AnnouncementSpec { checks: checks.clone(), address_conflict, connections, ..spec() };
    cluster.announce("a", AnnouncementSpec { vrrp, ..checked });
    let after = cluster.plan();
    assert_eq!(after.routers_by_vip, before.routers_by_vip);
    for router in after.routers.values() {
        assert_eq!((&router.checks, router.address_conflict), (&checks, AddressConflictPolicy::Yield));
        assert_eq!(router.connections, ConnectionPolicy::Replicate);
        let VirtualRouterSpec { announcement, advertisement_interval_milliseconds: interval, .. } = &**router;
        assert_eq!((announcement.as_deref(), *interval, router.preempt_delay_seconds), (Some("a"), 50, 7));
        assert!(!router.unicast_fallback);
        assert!(router.virtual_mac);
    }
    cluster.announcements.clear();
    assert_eq!(cluster.plan(), before, "and without it all is as it was");
}

#[test]
fn vips_that_an_announcement_takes_out_of_a_router_go_on_at_the_node_that_has_them() {
    let mut cluster = cluster_of_two_pools(3, 6);
    let before = cluster.plan();
    let checks = vec![serde_json::from_value(json!({ "tcpSocket": { "port": 22 } })).expect("a check")];
    cluster.announce("a", AnnouncementSpec { pools: vec!["p".into()], checks: checks.clone(), ..spec() });
    let after = cluster.plan();
    assert_eq!(preferred_nodes(&after), preferred_nodes(&before));
    for vip in &cluster.input.vips {
        let router = &after.routers[&after.routers_by_vip[&vip.name_any()]];
        let of_p = vip.spec.pool == "p";
        assert_eq!(router.checks, if of_p { &checks[..] } else { &[] }, "{}", vip.name_any());
        assert_eq!(router.announcement.as_deref(), of_p.then_some("a"), "{}", vip.name_any());
        let was = &before.routers[&before.routers_by_vip[&vip.name_any()]];
        assert_eq!(router.nodes, was.nodes, "{}", vip.name_any());
    }
    let moved =
        after.routers_by_vip.iter().filter(|(vip, router)| before.routers_by_vip[*vip] != **router).count();
    assert_eq!(moved, 6, "one half of them");
}

#[test]
fn a_router_is_of_the_announcement_of_most_of_its_vips() {
    let mut cluster = Cluster::of(1);
    for number in 0..18 {
        cluster.vip_of(if number < 12 { "p" } else { "q" }, &format!("192.0.2.{}", 100 + number));
        cluster.plan();
    }
    let before = cluster.plan();
    assert_eq!(before.routers.len(), 6);
    cluster.announce("a", AnnouncementSpec { pools: vec!["p".into()], ..spec() });
    let after = cluster.plan();
    let moved: Vec<_> = after
        .routers_by_vip
        .iter()
        .filter(|(vip, router)| before.routers_by_vip[*vip] != **router)
        .map(|(vip, _)| vip.as_str())
        .collect();
    assert_eq!(moved, (112..118).map(|last| format!("192.0.2.{last}")).collect::<Vec<_>>());
}

#[test]
fn what_cannot_change_while_a_router_runs_is_had_by_another_with_the_same_nodes() {
    let authentication = Some(Authentication { key_id: 7 });
    let wishes = [
        VrrpSettings { transport: Transport::Unicast, ..VrrpSettings::default() },
        VrrpSettings { authentication, ..VrrpSettings::default() },
        VrrpSettings { vrid_range: Some(VridRange { first: 10, last: 20 }), ..VrrpSettings::default() },
    ];
    for vrrp in wishes {
        let mut cluster = cluster_of_two_pools(3, 3);
        for node in ["n1", "n2", "n3"] {
            cluster.give_key(node, 7);
        }
        cluster.announce("a", spec());
        let before = cluster.plan();
        cluster.announce("a", AnnouncementSpec { vrrp: vrrp.clone(), ..spec() });
        let after = cluster.plan();
        assert!(after.left_behind.is_empty());
        for (vip, name) in &after.routers_by_vip {
            let (was, is) = (&before.routers[&before.routers_by_vip[vip]], &after.routers[name]);
            assert_eq!(was.nodes, is.nodes, "{vip}");
            assert_ne!(was.vrid, is.vrid, "{vip}");
            assert_eq!((is.transport, is.authentication), (vrrp.transport, vrrp.authentication), "{vip}");
            assert!(
                vrrp.vrid_range.is_none_or(|range| (range.first..=range.last).contains(&is.vrid)),
                "{vip}"
            );
        }
        let together = |plan: &PlacementPlan<'_>| -> BTreeSet<Vec<String>> {
            let of = |router: &String| {
                let its = plan.routers_by_vip.iter().filter(|(_, other)| *other == router);
                its.map(|(vip, _)| vip.clone()).collect()
            };
            plan.routers.keys().map(of).collect()
        };
        assert_eq!(together(&after), together(&before), "the VIPs of a router stay together");
    }
}

#[test]
fn a_router_signs_only_once_each_of_its_nodes_has_the_key() {
    let mut cluster = cluster_of_two_pools(3, 3);
    let before = cluster.plan();
    let authentication = Some(Authentication { key_id: 7 });
    let vrrp = VrrpSettings { authentication, ..VrrpSettings::default() };
    cluster.announce("a", AnnouncementSpec { pools: vec!["p".into()], vrrp, ..spec() });
    for having in 0..3 {
        cluster.give_key(&format!("n{}", having + 1), 7);
        let plan = cluster.plan();
        let signs = having == 2;
        assert_eq!(plan.without_key.len(), if signs { 0 } else { 3 }, "{having}");
        assert_eq!(plan.without_key, plan.left_behind, "{having}");
        for vip in &cluster.input.vips {
            let router = &plan.routers[&plan.routers_by_vip[&vip.name_any()]];
            let is_to_sign = vip.spec.pool == "p" && signs;
            assert_eq!(router.authentication, authentication.filter(|_| is_to_sign), "{having}");
        }
        if !signs {
            assert_eq!(plan.routers_by_vip, before.routers_by_vip, "{having}");
        }
    }
    assert_eq!(preferred_nodes(&cluster.plan()), preferred_nodes(&before));
}

#[test]
fn without_a_vrid_for_it_the_vips_stay_as_they_are_and_it_is_said() {
    let mut cluster = Cluster::of(1);
    cluster.vip("192.0.2.100");
    let before = cluster.plan();
    cluster.networks("n1", &[("eth0", &["192.0.2.1/24"])], &[("eth0", 7)]);
    let vrrp = VrrpSettings { vrid_range: Some(VridRange { first: 7, last: 7 }), ..VrrpSettings::default() };
    cluster.announce("a", AnnouncementSpec { vrrp, ..spec() });
    let after = cluster.plan();
    assert_eq!(after.routers_by_vip, before.routers_by_vip);
    assert_eq!(after.left_behind, ["192.0.2.100".parse().expect("an address")].into());
    cluster.vip("192.0.2.101");
    assert_eq!(
        cluster.plan().unplaced["192.0.2.101"].reason(),
        "NoVRID",
        "nothing new is announced otherwise"
    );
    cluster.networks("n1", &[("eth0", &["192.0.2.1/24"])], &[]);
    let after = cluster.plan();
    assert_eq!(
        (after.routers.values().map(|one| one.vrid).collect::<Vec<_>>(), after.left_behind.len()),
        (vec![7], 0)
    );
}

// shows: field-reports F-29
#[test]
fn a_range_that_has_no_vrid_left_for_a_new_vip_says_so() {
    let mut cluster = Cluster::of(1);
    cluster.networks("n1", &[("eth0", &["192.0.2.1/24"])], &[("eth0", 7)]);
    let vrrp = VrrpSettings { vrid_range: Some(VridRange { first: 7, last: 7 }), ..VrrpSettings::default() };
    cluster.announce("a", AnnouncementSpec { vrrp, ..spec() });
    cluster.vip("192.0.2.100");
    assert_eq!(
        cluster.plan().unplaced["192.0.2.100"].to_string(),
        "all VRIDs from 7 to 7, which Announcement \"a\" allows, are in use on segment 192.0.2.0/24: extend \
         its spec.vrrp.vridRange, or free one"
    );
}

// shows: field-reports F-35
#[test]
fn a_node_that_is_left_out_stays_the_last_as_long_as_it_is_active() {
    let mut cluster = Cluster::of(3);
    for node in ["n1", "n2", "n3"] {
        cluster.label(node, "edge", "yes");
    }
    cluster.announce("a", AnnouncementSpec { node_selectors: vec![selector("edge", "yes")], ..spec() });
    cluster.vip("192.0.2.100");
    let router = cluster.router("192.0.2.100").expect("a router");
    let first = names(&cluster.plan(), &router)[0].clone();
    cluster.active.insert(router.clone(), first.clone());
    cluster.plan();
    cluster.label(&first, "edge", "no");
    let plan = cluster.plan();
    assert_eq!(ranking(&plan, &router).last().expect("a node").0, first);
    assert_ne!(preferred(&plan, "192.0.2.100"), first);
    assert_eq!(plan.routers[&router].nodes.len(), 3);
    cluster.active.insert(router.clone(), preferred(&plan, "192.0.2.100").to_owned());
    cluster.plan();
    let plan = cluster.plan();
    assert!(!names(&plan, &router).contains(&first), "another one has taken over");
}

// shows: field-reports F-36
#[test]
fn preferred_nodes_come_first_while_they_are_well_and_share_the_vips() {
    let mut cluster = Cluster::of(4);
    for node in ["n2", "n4"] {
        cluster.label(node, "disk", "fast");
    }
    let preferred_nodes_spec = vec![PreferredNodes { weight: 10, selector: selector("disk", "fast") }];
    for number in 0..8 {
        cluster.vip(&format!("192.0.2.{}", 100 + number));
    }
    cluster.plan();
    cluster.announce("a", AnnouncementSpec { preferred_nodes: preferred_nodes_spec, ..spec() });
    let plan = cluster.plan();
    let count = |plan: &PlacementPlan<'_>| {
        preferred_nodes(plan).into_values().fold(BTreeMap::new(), |mut counts, node| {
            *counts.entry(node).or_insert(0) += 1;
            counts
        })
    };
    let counts = count(&plan);
    assert!(counts.keys().all(|node| ["n2", "n4"].contains(&node.as_str())), "{counts:?}");
    cluster.node("n2", false);
    let counts = count(&cluster.plan());
    assert_eq!(counts, [("n4".to_owned(), 8)].into());
    cluster.node("n4", false);
    let counts = count(&cluster.plan());
    assert!(counts.keys().all(|node| ["n1", "n3"].contains(&node.as_str())), "{counts:?}");
}

// shows: placement P-07
#[test]
fn a_cordoned_node_yields_the_addresses_of_announcements_that_say_so_and_no_others() {
    let mut cluster = cluster_of_two_pools(3, 6);
    let unschedulable_nodes = UnschedulableNodePolicy::Yield;
    cluster.announce("a", AnnouncementSpec { pools: vec!["p".into()], unschedulable_nodes, ..spec() });
    let before = cluster.plan();
    let of = |plan: &PlacementPlan<'_>, pool: &str, node: &str| {
        let of_pool = |vip: &str| vip.starts_with(if pool == "p" { "192.0.2.1" } else { "192.0.2.2" });
        preferred_nodes(plan).iter().filter(|(vip, on)| of_pool(vip) && *on == node).count()
    };
    assert_eq!(["p", "q"].map(|pool| of(&before, pool, "n1")), [2, 2]);
    cluster.cordon("n1", true);
    let cordoned = cluster.plan();
    assert_eq!(["p", "q"].map(|pool| of(&cordoned, pool, "n1")), [0, 2]);
    for router in cordoned.routers.values() {
        let n1 = router.nodes.iter().find(|node| node.name == "n1").expect("n1");
        let is_fair = n1.priority == priorities::fair(0);
        assert_eq!(is_fair, router.announcement.as_deref() == Some("a"), "{router:?}");
    }
    // It gets nothing new of that Announcement, and what it had when it is schedulable again.
    cluster.vip_of("p", "192.0.2.150");
    assert_eq!(of(&cluster.plan(), "p", "n1"), 0);
    cluster.remove_vip("192.0.2.150");
    cluster.cordon("n1", false);
    assert_eq!(cluster.plan(), before);
    // If it is so with all of them, everything is where it was.
    for node in ["n1", "n2", "n3"] {
        cluster.cordon(node, true);
    }
    assert_eq!(preferred_nodes(&cluster.plan()), preferred_nodes(&before));
}

#[test]
fn routers_of_preferred_nodes_alone_are_made_where_the_announcement_is_there_first() {
    let mut cluster = Cluster::of(4);
    for node in ["n2", "n4"] {
        cluster.label(node, "disk", "fast");
    }
    let preferred_nodes_spec = vec![PreferredNodes { weight: 10, selector: selector("disk", "fast") }];
    cluster.announce("a", AnnouncementSpec { preferred_nodes: preferred_nodes_spec, ..spec() });
    for number in 0..8 {
        cluster.vip(&format!("192.0.2.{}", 100 + number));
    }
    let plan = cluster.plan();
    assert_eq!(plan.routers.len(), 6, "three for each of the two");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for node in preferred_nodes(&plan).into_values() {
        *counts.entry(node).or_default() += 1;
    }
    assert_eq!(counts, [("n2".to_owned(), 4), ("n4".to_owned(), 4)].into());
}

#[test]
fn an_interface_that_is_excluded_announces_nothing() {
    let mut cluster = Cluster::new(&[]);
    cluster.node("n1", true);
    cluster.networks("n1", &[("eth0", &["192.0.2.1/24"]), ("docker0", &["172.17.0.1/16"])], &[]);
    cluster.vip("172.17.0.9");
    assert_eq!(cluster.plan().unplaced["172.17.0.9"].reason(), "NoSegment");
    cluster.announce("a", AnnouncementSpec { exclude_interfaces: Vec::new(), ..spec() });
    assert_eq!(cluster.router("172.17.0.9").as_deref(), Some("v4-172.17.0.0-16-64"));
}
