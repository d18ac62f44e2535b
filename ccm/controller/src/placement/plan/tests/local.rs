//! VIPs whose Services have `externalTrafficPolicy: Local`.

use windlass_api::LoadSharing;

use super::*;

const WEB: &str = "192.0.2.100";

use EndpointState::{JustReady, Ready, Terminating};

/// What each node has.
type Pods<'a> = &'a [(&'a str, EndpointState)];

/// One node serves each address.
fn one_serves(mut cluster: Cluster) -> Cluster {
    cluster.announce("a", one_server());
    cluster
}

fn one_server() -> AnnouncementSpec {
    AnnouncementSpec { load_sharing: LoadSharing::None, ..AnnouncementSpec::default() }
}

// shows: allocation 88 to 91
#[test]
fn a_local_vip_has_a_router_of_its_own_whose_node_has_an_endpoint() {
    let mut cluster = one_serves(Cluster::of(4));
    for last in 100..104 {
        cluster.vip(&format!("192.0.2.{last}"));
    }
    cluster.endpoints(WEB, &[("n3", Ready)]);
    let plan = cluster.plan();
    assert_eq!(preferred(&plan, WEB), "n3");
    let router = &plan.routers[&plan.routers_by_vip[WEB]];
    assert_eq!(router.external_traffic_policy, ExternalTrafficPolicy::Local);
    assert_eq!(plan.routers_by_vip.values().filter(|name| **name == plan.routers_by_vip[WEB]).count(), 1);
    let mut others: Vec<u8> = ranking(&plan, &plan.routers_by_vip[WEB])
        .into_iter()
        .filter(|(name, _)| name != "n3")
        .map(|(_, priority)| priority)
        .collect();
    others.sort_unstable();
    assert_eq!(others, [27, 28, 29], "the others still serve if nobody is left");
}

// shows: placement P-21
#[test]
fn it_follows_a_pod_from_node_to_node_once_kube_proxy_serves_it_there_and_never_goes_back_by_itself() {
    let mut cluster = one_serves(Cluster::of(3));
    cluster.vip(WEB);
    let rows: [(&str, Pods<'_>, &str); 10] = [
        ("one pod", &[("n2", Ready)], "n2"),
        ("a second one comes", &[("n2", Ready), ("n3", JustReady)], "n2"),
        ("the first ends, before the second is served", &[("n2", Terminating), ("n3", JustReady)], "n2"),
        ("the second is served", &[("n2", Terminating), ("n3", Ready)], "n3"),
        ("the first is gone", &[("n3", Ready)], "n3"),
        ("the first node has one again", &[("n2", Ready), ("n3", Ready)], "n3"),
        ("nobody has one", &[], "n3"),
        ("one that is not served yet is better than none", &[("n1", JustReady)], "n1"),
        (
            "one that ends is better than one that is not served yet",
            &[("n1", JustReady), ("n2", Terminating)],
            "n2",
        ),
        ("both are served", &[("n1", Ready), ("n2", Ready)], "n2"),
    ];
    for (what, nodes, expected) in rows {
        cluster.endpoints(WEB, nodes);
        assert_eq!(preferred(&cluster.plan(), WEB), expected, "{what}");
    }
}

#[test]
fn a_drained_node_with_an_endpoint_is_better_than_a_healthy_one_without() {
    let mut cluster = one_serves(Cluster::of(2));
    cluster.vip(WEB);
    cluster.node("n1", false);
    cluster.endpoints(WEB, &[("n1", Ready)]);
    assert_eq!(preferred(&cluster.plan(), WEB), "n1");
    cluster.endpoints(WEB, &[("n1", Ready), ("n2", Ready)]);
    assert_eq!(preferred(&cluster.plan(), WEB), "n2");
}

// shows: allocation 88 to 91
#[test]
fn of_the_nodes_that_may_take_over_the_one_with_the_most_endpoints_is_next() {
    let mut cluster = one_serves(Cluster::of(4));
    cluster.vip(WEB);
    cluster.endpoints(WEB, &[("n1", Ready)]);
    cluster.plan();
    let ready = |ready| NodeEndpoints { state: Ready, ready };
    let nodes =
        [("n1", 1), ("n2", 2), ("n3", 5), ("n4", 3)].map(|(name, count)| (name.to_owned(), ready(count)));
    cluster.input.serving.insert(WEB.parse().expect("an address"), nodes.into());
    let mut order = ranking(&cluster.plan(), "v4-192.0.2.0-24-64");
    order.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority));
    let order: Vec<_> = order.into_iter().map(|(name, _)| name).collect();
    assert_eq!(order, ["n1", "n3", "n4", "n2"], "more endpoints elsewhere are no reason to move");
}

#[test]
fn a_service_that_changes_its_policy_keeps_its_node_if_that_has_an_endpoint() {
    for number in 1..=3 {
        let mut cluster = one_serves(Cluster::of(3));
        cluster.vip(WEB);
        let plan = cluster.plan();
        let node = names(&plan, &plan.routers_by_vip[WEB])[0].clone();
        let pods = [("n1", Ready), ("n2", Ready), ("n3", Ready)];
        let elsewhere = format!("n{number}");
        // Everywhere, or at one node.
        cluster.endpoints(WEB, if elsewhere == node { &pods } else { &pods[number - 1..number] });
        let local = cluster.plan();
        assert_eq!(preferred(&local, WEB), elsewhere, "it was on {node}");
        assert_ne!(local.routers_by_vip[WEB], plan.routers_by_vip[WEB]);
        cluster.policy(WEB, ExternalTrafficPolicy::Cluster);
        let back = cluster.plan();
        assert!(back.routers[&back.routers_by_vip[WEB]].external_traffic_policy.is_cluster());
    }
}

#[test]
fn hundreds_of_local_vips_with_all_sorts_of_nodes_fit_into_the_vrids() {
    let mut cluster = one_serves(Cluster::of(9));
    let nodes = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"];
    for number in 0..240_usize {
        let address = format!("192.0.2.{}", 10 + number);
        cluster.vip(&address);
        let some = [nodes[number % 9], nodes[(number / 9) % 9], nodes[(number / 81) % 9]];
        cluster.endpoints(&address, &some.map(|node| (node, Ready)));
    }
    let plan = cluster.plan();
    assert!(plan.unplaced.is_empty(), "{:?}", plan.unplaced);
    assert!(plan.routers.len() <= 200, "{}", plan.routers.len());
    for vip in &cluster.input.vips {
        let address = vip.spec.address;
        let node = preferred(&plan, &address.to_string());
        assert!(cluster.input.serving[&address].contains_key(node), "{address} on {node}");
    }
}

#[test]
fn sharers_part_when_no_node_serves_both_and_stay_together_if_there_is_no_vrid() {
    for (last_free, parts) in [(80, true), (64, false)] {
        let mut cluster = one_serves(Cluster::of(3));
        let both = ["192.0.2.100", "192.0.2.101"];
        for address in both {
            cluster.vip(address);
            cluster.endpoints(address, &[("n2", Ready), ("n3", Ready)]);
        }
        // All but those up to the last one are taken.
        let vrid_range = Some(windlass_api::VridRange { first: 64, last: 144 });
        let vrrp = windlass_api::VrrpSettings { vrid_range, ..windlass_api::VrrpSettings::default() };
        cluster.announce("a", AnnouncementSpec { vrrp, ..one_server() });
        let foreign: Vec<_> = (last_free + 1..=144).map(|vrid| ("eth0", vrid)).collect();
        cluster.networks("n1", &[("eth0", &["192.0.2.1/24"])], &foreign);
        assert_eq!(cluster.plan().routers.len(), 1, "they share it");
        cluster.endpoints(both[0], &[("n2", Ready)]);
        assert_eq!(preferred(&cluster.plan(), both[0]), "n2");
        cluster.endpoints(both[1], &[("n3", Ready)]);
        let plan = cluster.plan();
        assert_eq!(plan.routers_by_vip.len(), 2, "an address that works is not taken away");
        assert_eq!(plan.routers.len(), if parts { 2 } else { 1 });
        assert_eq!(preferred(&plan, both[1]) == "n3", parts);
    }
}

#[test]
fn in_a_large_cluster_a_node_that_gets_an_endpoint_finds_its_place() {
    let mut cluster = one_serves(Cluster::of(200));
    cluster.vip("192.0.2.250");
    cluster.endpoints("192.0.2.250", &[("n7", Ready)]);
    let plan = cluster.plan();
    let before = names(&plan, "v4-192.0.2.0-24-64");
    assert_eq!(before.len(), 30);
    let stranger =
        (1..=200).map(|number| format!("n{number}")).find(|name| !before.contains(name)).expect("one");
    cluster.endpoints("192.0.2.250", &[("n7", Terminating), (&stranger, JustReady)]);
    assert_eq!(preferred(&cluster.plan(), "192.0.2.250"), "n7");
    cluster.endpoints("192.0.2.250", &[("n7", Terminating), (&stranger, Ready)]);
    assert_eq!(preferred(&cluster.plan(), "192.0.2.250"), stranger);
}

#[test]
fn the_vips_of_one_local_service_are_on_different_nodes() {
    let mut cluster = one_serves(Cluster::of(3));
    let all = ["192.0.2.100", "192.0.2.101", "192.0.2.102"];
    for address in all {
        cluster.vip_for("p", address, &["web"]);
        cluster.endpoints(address, &[("n1", Ready), ("n2", Ready), ("n3", Ready)]);
    }
    let plan = cluster.plan();
    let nodes: BTreeSet<_> = all.iter().map(|address| preferred(&plan, address)).collect();
    assert_eq!(nodes.len(), 3);
}

#[test]
fn a_router_that_is_left_is_used_again() {
    let mut cluster = one_serves(Cluster::of(2));
    cluster.vip(WEB);
    cluster.endpoints(WEB, &[("n1", Ready)]);
    cluster.plan();
    cluster.remove_vip(WEB);
    cluster.vip("192.0.2.101");
    cluster.endpoints("192.0.2.101", &[("n2", Ready)]);
    let plan = cluster.plan();
    assert_eq!(plan.routers.len(), 1);
    assert_eq!(preferred(&plan, "192.0.2.101"), "n2");
}

// shows: field-reports F-42
#[test]
fn where_no_node_that_may_announce_it_has_a_pod_the_vip_says_which_do_and_which_may() {
    let mut cluster = one_serves(Cluster::of(3));
    cluster.vip(WEB);
    for node in ["n1", "n2"] {
        cluster.label(node, "edge", "yes");
    }
    let edge = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
        match_labels: Some([("edge".to_owned(), "yes".to_owned())].into()),
        ..Default::default()
    };
    cluster.announce("a", AnnouncementSpec { node_selectors: vec![edge], ..one_server() });
    let says = |cluster: &mut Cluster| {
        let plan = cluster.plan();
        plan.flaws(&cluster.input()).into_values().next().map(|flaw| flaw.message)
    };
    for pods in [&[][..], &[("n2", Ready), ("n3", Ready)], &[("n1", Terminating)]] {
        cluster.endpoints(WEB, pods);
        assert_eq!(says(&mut cluster), None, "{pods:?}");
    }
    cluster.endpoints(WEB, &[("n3", Ready)]);
    assert_eq!(
        says(&mut cluster).expect("a message"),
        "traffic to 192.0.2.100 is dropped (externalTrafficPolicy: Local): its pods run on n3, but only n1, \
         n2 may announce it. Run pods there, let the Announcement select the pods' nodes, or use \
         externalTrafficPolicy: Cluster"
    );
    cluster.policy(WEB, ExternalTrafficPolicy::Cluster);
    assert_eq!(says(&mut cluster), None);
}
