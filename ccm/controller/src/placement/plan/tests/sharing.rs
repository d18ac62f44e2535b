//! VIPs that several nodes serve together.

use windlass_api::{LoadSharing, VrrpSettings, load_shared};

use super::*;

const WEB: &str = "192.0.2.100";
const SHARES: [Capability; 2] = [Capability::SourceRanges, Capability::LoadSharing];

use EndpointState::{JustReady, Ready, Terminating};

fn announced(load_sharing: LoadSharing) -> AnnouncementSpec {
    AnnouncementSpec { load_sharing, ..AnnouncementSpec::default() }
}

/// Four nodes, and a VIP with endpoints on some of them.
fn cluster(load_sharing: LoadSharing, endpoints: &[(&str, EndpointState)]) -> Cluster {
    let mut cluster = Cluster::of(4);
    cluster.announce("a", announced(load_sharing));
    cluster.vip(WEB);
    cluster.endpoints(WEB, endpoints);
    cluster
}

/// Number of lots of each node.
fn lots(plan: &PlacementPlan<'_>) -> Vec<(String, usize)> {
    let shared = plan.shared_loads.get(&WEB.parse().expect("an address"));
    let counts = shared.into_iter().flat_map(|shared| {
        let count = |key: char| shared.lots.chars().filter(|one| *one == key).count();
        shared.nodes.iter().map(move |node| (node.name.clone(), count(node.key)))
    });
    let mut counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
    counts.sort();
    counts
}

fn counts(of: &[(&str, usize)]) -> Vec<(String, usize)> {
    of.iter().map(|(node, count)| ((*node).to_owned(), *count)).collect()
}

fn has_history(plan: &PlacementPlan<'_>) -> bool {
    plan.shared_loads.values().any(|shared| !shared.former_lots.is_empty())
}

fn router<'a>(plan: &'a PlacementPlan<'_>) -> &'a VirtualRouterSpec {
    &plan.routers[&plan.routers_by_vip[WEB]]
}

/// The reason that the VIP is not shared.
fn reason(plan: &PlacementPlan<'_>) -> Option<&'static str> {
    plan.not_shared.get(&WEB.parse().expect("an address")).copied()
}

fn pass(cluster: &mut Cluster, seconds: i64) {
    cluster.input.now += jiff::SignedDuration::from_secs(seconds);
}

#[test]
fn a_vip_is_shared_if_its_announcement_says_so_and_two_nodes_can_serve_it() {
    type Change = fn(&mut Cluster);
    /// The reason that it is not shared, or the lots of each node.
    type Expected<'a> = Result<&'a [(&'a str, usize)], Option<&'a str>>;
    type Row<'a> = (&'a str, LoadSharing, &'a [(&'a str, EndpointState)], Change, Expected<'a>);
    let (local, all, none) = (LoadSharing::Local, LoadSharing::All, LoadSharing::None);
    let nothing: Change = |_| {};
    let to_cluster: Change = |cluster| cluster.policy(WEB, ExternalTrafficPolicy::Cluster);
    let rows: [Row<'_>; 16] = [
        ("two", local, &[("n1", Ready), ("n3", Ready)], nothing, Ok(&[("n1", 60), ("n3", 60)])),
        ("not to be", none, &[("n1", Ready), ("n3", Ready)], nothing, Err(None)),
        ("one", local, &[("n1", Ready)], nothing, Err(Some(load_shared::ONE_SERVER))),
        ("none", local, &[], nothing, Err(Some(load_shared::NO_SERVER))),
        (
            "one is new",
            local,
            &[("n1", Ready), ("n3", JustReady)],
            nothing,
            Err(Some(load_shared::ONE_SERVER)),
        ),
        (
            "all are new",
            local,
            &[("n1", JustReady), ("n3", JustReady)],
            nothing,
            Ok(&[("n1", 60), ("n3", 60)]),
        ),
        (
            "one ends",
            local,
            &[("n1", Ready), ("n2", Ready), ("n3", Terminating)],
            nothing,
            Ok(&[("n1", 60), ("n2", 60)]),
        ),
        (
            "all end",
            local,
            &[("n1", Terminating), ("n3", Terminating)],
            nothing,
            Ok(&[("n1", 60), ("n3", 60)]),
        ),
        (
            "an old agent",
            local,
            &[("n1", Ready), ("n2", Ready), ("n3", Ready)],
            |cluster| cluster.capabilities("n2", &Capability::ALL),
            Ok(&[("n1", 60), ("n3", 60)]),
        ),
        (
            "old agents",
            local,
            &[("n1", Ready), ("n3", Ready)],
            |cluster| cluster.capabilities("n3", &Capability::ALL),
            Err(Some(load_shared::AGENT_TOO_OLD)),
        ),
        (
            "old agents alone, and one endpoint",
            local,
            &[("n1", Ready)],
            |cluster| {
                for node in ["n1", "n2", "n3", "n4"] {
                    cluster.capabilities(node, &Capability::ALL);
                }
            },
            Err(Some(load_shared::ONE_SERVER)),
        ),
        (
            "no port, and no endpoint",
            local,
            &[],
            |cluster| Arc::make_mut(&mut cluster.input.vips[0]).spec.ports.clear(),
            Err(Some(load_shared::NO_SERVER)),
        ),
        (
            "no port",
            local,
            &[("n1", Ready), ("n3", Ready)],
            |cluster| Arc::make_mut(&mut cluster.input.vips[0]).spec.ports.clear(),
            Err(Some(load_shared::NO_ROOM)),
        ),
        (
            "virtual MAC",
            local,
            &[("n1", Ready), ("n3", Ready)],
            |cluster| {
                let vrrp = VrrpSettings { virtual_mac: true, ..VrrpSettings::default() };
                cluster.announce("a", AnnouncementSpec { vrrp, ..announced(LoadSharing::Local) });
            },
            Err(Some(load_shared::VIRTUAL_MAC_ADDRESS)),
        ),
        ("every node serves", local, &[("n1", Ready)], to_cluster, Err(None)),
        (
            "every node is to",
            all,
            &[("n1", Ready)],
            to_cluster,
            Ok(&[("n1", 30), ("n2", 30), ("n3", 30), ("n4", 30)]),
        ),
    ];
    for (what, load_sharing, endpoints, change, expected) in rows {
        let mut cluster = cluster(load_sharing, endpoints);
        change(&mut cluster);
        let plan = cluster.plan();
        let is_local = cluster.input.vips[0].spec.external_traffic_policy == ExternalTrafficPolicy::Local;
        match expected {
            Ok(expected) => {
                assert_eq!(lots(&plan), counts(expected), "{what}");
                assert!(
                    router(&plan).external_traffic_policy.is_cluster(),
                    "{what}: any node may direct packets"
                );
            }
            Err(expected) => {
                assert_eq!((reason(&plan), lots(&plan)), (expected, Vec::new()), "{what}");
                assert_eq!(router(&plan).external_traffic_policy.is_cluster(), !is_local, "{what}");
            }
        }
    }
}

#[test]
fn shares_are_by_pods_and_of_a_client_by_nodes() {
    let mut cluster = cluster(LoadSharing::Local, &[]);
    let ready = |ready| NodeEndpoints { state: Ready, ready };
    let nodes = [("n1", 3), ("n2", 1)].map(|(name, count)| (name.to_owned(), ready(count)));
    cluster.input.serving.insert(WEB.parse().expect("an address"), nodes.into());
    assert_eq!(lots(&cluster.plan()), counts(&[("n1", 90), ("n2", 30)]));
    cluster.input.by_client.insert(WEB.parse().expect("an address"));
    pass(&mut cluster, 10);
    cluster.plan();
    pass(&mut cluster, 10);
    let plan = cluster.plan();
    assert_eq!(lots(&plan), counts(&[("n1", 60), ("n2", 60)]));
    assert!(plan.shared_loads.values().all(|shared| shared.by == windlass_api::SharedBy::Client));
}

#[test]
fn a_node_that_is_drained_or_fails_serves_no_more_unless_it_is_the_last() {
    let mut cluster = cluster(LoadSharing::Local, &[("n1", Ready), ("n2", Ready), ("n3", Ready)]);
    assert_eq!(lots(&cluster.plan()), counts(&[("n1", 40), ("n2", 40), ("n3", 40)]));
    cluster.node("n1", false);
    assert_eq!(lots(&cluster.plan()), counts(&[("n2", 60), ("n3", 60)]));
    cluster.fails("n2", &["kube-proxy: it is not well"]);
    assert_eq!(lots(&cluster.plan()), counts(&[("n3", 120)]));
    cluster.fails("n3", &["kube-proxy: it is not well"]);
    assert_eq!(lots(&cluster.plan()), counts(&[("n1", 40), ("n2", 40), ("n3", 40)]));
}

#[test]
fn pods_that_are_replaced_move_no_address() {
    let mut cluster = cluster(LoadSharing::Local, &[("n1", Ready), ("n2", Ready)]);
    let before = cluster.plan();
    let rollout: [&[(&str, EndpointState)]; 6] = [
        &[("n1", Ready), ("n2", Terminating), ("n3", JustReady)],
        &[("n1", Terminating)],
        &[],
        &[("n4", JustReady)],
        &[("n4", Ready)],
        &[("n3", Ready), ("n4", Ready)],
    ];
    for endpoints in rollout {
        cluster.endpoints(WEB, endpoints);
        let plan = cluster.plan();
        assert_eq!(
            (&plan.routers, &plan.routers_by_vip),
            (&before.routers, &before.routers_by_vip),
            "{endpoints:?}"
        );
        assert_eq!(reason(&plan), None, "{endpoints:?}");
        pass(&mut cluster, 60);
    }
    assert_eq!(lots(&cluster.plan()), counts(&[("n3", 60), ("n4", 60)]));
}

#[test]
fn an_address_that_one_node_serves_is_placed_at_it_once_no_connection_is_elsewhere() {
    let mut cluster = cluster(LoadSharing::Local, &[("n1", Ready), ("n2", Ready)]);
    cluster.plan();
    cluster.endpoints(WEB, &[("n2", Ready)]);
    let plan = cluster.plan();
    assert_eq!(lots(&plan), counts(&[("n2", 120)]));
    assert!(has_history(&plan) && router(&plan).external_traffic_policy.is_cluster());
    pass(&mut cluster, 3600);
    let plan = cluster.plan();
    assert_eq!((lots(&plan), reason(&plan)), (Vec::new(), Some(load_shared::ONE_SERVER)));
    assert_eq!(
        (router(&plan).external_traffic_policy, preferred(&plan, WEB)),
        (ExternalTrafficPolicy::Local, "n2")
    );
}

#[test]
fn an_address_whose_pods_are_on_nodes_that_cannot_share_alone_is_placed_at_one_of_them() {
    let mut cluster = cluster(LoadSharing::Local, &[("n1", Ready), ("n2", Ready)]);
    cluster.capabilities("n4", &Capability::ALL);
    cluster.plan();
    cluster.endpoints(WEB, &[("n4", Ready)]);
    let plan = cluster.plan();
    assert_eq!((reason(&plan), lots(&plan)), (Some(load_shared::ONE_SERVER), Vec::new()));
    assert_eq!(preferred(&plan, WEB), "n4");
}

#[test]
fn turned_off_all_lots_go_to_the_node_that_gets_the_address_and_the_field_goes_an_hour_later() {
    let mut cluster = cluster(LoadSharing::Local, &[("n1", Ready), ("n2", Ready)]);
    cluster.plan();
    cluster.announce("a", announced(LoadSharing::None));
    let plan = cluster.plan();
    assert_eq!(router(&plan).external_traffic_policy, ExternalTrafficPolicy::Local);
    assert_eq!(lots(&plan), counts(&[(preferred(&plan, WEB), 120)]));
    pass(&mut cluster, 3599);
    assert!(has_history(&cluster.plan()));
    pass(&mut cluster, 1);
    assert_eq!(lots(&cluster.plan()), Vec::new());
}

#[test]
fn a_node_that_the_announcement_leaves_out_serves_its_pods_and_directs_nothing() {
    let mut cluster = cluster(LoadSharing::Local, &[("n1", Ready), ("n2", Ready)]);
    cluster.label("n3", "edge", "yes");
    let selector = k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector {
        match_labels: Some([("edge".to_owned(), "yes".to_owned())].into()),
        ..Default::default()
    };
    cluster
        .announce("a", AnnouncementSpec { node_selectors: vec![selector], ..announced(LoadSharing::Local) });
    let plan = cluster.plan();
    assert_eq!(lots(&plan), counts(&[("n1", 60), ("n2", 60)]));
    assert_eq!(names(&plan, &plan.routers_by_vip[WEB]), ["n3"]);
    assert_eq!(plan.flaws(&cluster.input()), BTreeMap::new(), "its pods get traffic");
}

#[test]
fn a_shared_vip_goes_to_no_router_with_a_node_that_cannot_direct_its_packets() {
    let mut cluster = cluster(LoadSharing::Local, &[("n1", Ready), ("n2", Ready)]);
    for number in 1..4 {
        cluster.capabilities(&format!("n{number}"), &SHARES);
    }
    cluster.capabilities("n4", &Capability::ALL);
    cluster.vip("192.0.2.101");
    let plan = cluster.plan();
    let mut nodes = names(&plan, &plan.routers_by_vip[WEB]);
    nodes.sort();
    assert_eq!(nodes, ["n1", "n2", "n3"]);
    assert_eq!(names(&plan, &plan.routers_by_vip["192.0.2.101"]).len(), 4);
}

#[test]
fn the_nodes_of_shared_lots_have_the_addresses_of_the_segment() {
    let mut cluster = cluster(LoadSharing::Local, &[("n1", Ready), ("n2", Ready)]);
    cluster.plan();
    cluster.network("n2", "eth0", &["192.0.2.22/24"]);
    let plan = cluster.plan();
    let shared = plan.shared_loads.values().next().expect("shared");
    let addresses: Vec<_> =
        shared.nodes.iter().map(|node| format!("{} {}", node.name, node.address)).collect();
    assert_eq!(addresses, ["n1 192.0.2.1", "n2 192.0.2.22"]);
}
