use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const OLD: &str = "2026-01-01T00:00:00Z";
const NEW: &str = "2026-02-01T00:00:00Z";

fn node(name: &str, addresses: &[&str]) -> Arc<Node> {
    let addresses: Vec<_> =
        addresses.iter().map(|address| json!({ "type": "InternalIP", "address": address })).collect();
    let node = json!({ "metadata": { "name": name }, "status": { "addresses": addresses } });
    Arc::new(serde_json::from_value(node).expect("a Node"))
}

fn interface(name: &str, addresses: &[&str], link_local: Option<&str>) -> Value {
    json!({ "name": name, "mac": "02:00:00:00:00:01", "addresses": addresses, "linkLocal": link_local })
}

fn report(name: &str, created: &str, spec: &Value) -> Arc<NodeNetwork> {
    let report = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork",
        "metadata": { "name": name, "creationTimestamp": created }, "spec": spec,
    });
    Arc::new(serde_json::from_value(report).expect("a NodeNetwork"))
}

fn with(name: &str, created: &str, addresses: &[&str]) -> Arc<NodeNetwork> {
    report(name, created, &json!({ "interfaces": [interface("eth0", addresses, None)] }))
}

fn review(nodes: &[Arc<Node>], networks: &[Arc<NodeNetwork>]) -> ReviewedReports {
    ReviewedReports::new(nodes, networks, None, |_, _| false)
}

/// The addresses that are believed to be of `eth0` of a node.
fn addresses(review: &ReviewedReports, node: &str) -> Vec<String> {
    review.get(node).expect("a report").spec.interfaces[0].addresses.clone()
}

/// Every doubt, as `node: sentence`.
fn doubts(review: &ReviewedReports) -> Vec<String> {
    let all = review.doubts.iter();
    all.flat_map(|(node, doubts)| doubts.iter().map(move |doubt| format!("{node}: {doubt}"))).collect()
}

#[test]
fn address_of_another_node_is_not_believed_wherever_it_is_reported() {
    let nodes = [node("n1", &["192.0.2.11"]), node("n3", &["192.0.2.13"])];
    let spec = json!({
        "interfaces": [interface("eth0", &["192.0.2.13/24", "192.0.2.11/24"], None), interface("lo", &["192.0.2.11/32"], None)],
        "primaryAddresses": ["192.0.2.11", "192.0.2.13"],
        "furtherAddresses": ["192.0.2.11"],
    });
    // The oldest report of all, and the owner has not reported yet, or has.
    for owner in [None, Some(with("n1", NEW, &["192.0.2.11/24"]))] {
        let networks: Vec<_> = owner.iter().cloned().chain([report("n3", OLD, &spec)]).collect();
        let review = review(&nodes, &networks);
        let believed = &review.get("n3").expect("a report").spec;
        assert_eq!(addresses(&review, "n3"), ["192.0.2.13/24"]);
        assert_eq!(believed.interfaces[1].addresses, Vec::<String>::new());
        assert_eq!(believed.primary_addresses, ["192.0.2.13".parse::<IpAddr>().expect("an address")]);
        assert_eq!(believed.further_addresses, Vec::<IpAddr>::new());
        assert_eq!(
            doubts(&review),
            ["n3: it reports 192.0.2.11, which is an address of Node n1: remove it from this machine, or \
                 find what else reports under this node's name"]
        );
        if let Some(owner) = owner {
            assert_eq!(review.get("n1"), Some(&owner));
        }
    }
}

#[test]
fn of_two_nodes_with_one_address_one_is_believed() {
    let nodes = [node("n1", &[]), node("n2", &[]), node("n3", &[])];
    let (first, second) = (with("n1", NEW, &["198.51.100.1/24"]), with("n3", OLD, &["198.51.100.1/24"]));
    let both = [first.clone(), second];
    // Who reported for the longest.
    let by_age = review(&nodes, &both);
    assert_eq!(addresses(&by_age, "n1"), Vec::<String>::new());
    assert_eq!(
        doubts(&by_age),
        ["n1: it reports 198.51.100.1, which Windlass takes for an address of node n3, which reports it \
             too: give each machine its own addresses"]
    );
    // Whom a virtual router knows by it, whatever its age.
    let by_router = ReviewedReports::new(&nodes, &both, None, |node, _| node == "n1");
    assert_eq!(addresses(&by_router, "n3"), Vec::<String>::new());
    // Who was believed before, whatever a virtual router says.
    let before = review(&nodes, &[first]);
    let by_memory = ReviewedReports::new(&nodes, &both, Some(&before), |node, _| node == "n3");
    assert_eq!(addresses(&by_memory, "n1"), ["198.51.100.1/24"]);
    assert_eq!(addresses(&by_memory, "n3"), Vec::<String>::new());
    // Both Nodes have it by their status: one of them all the same.
    let nodes = [node("n1", &["198.51.100.1"]), node("n3", &["198.51.100.1"])];
    assert_eq!(doubts(&review(&nodes, &both)).len(), 1);
}

#[test]
fn addresses_that_many_nodes_have_on_purpose_are_no_reason_for_doubt() {
    let nodes = [node("n1", &[]), node("n2", &[])];
    let spec = json!({
        "interfaces": [
            interface("docker0", &["172.17.0.1/16"], Some("fe80::1")),
            interface("dummy0", &["203.0.113.1/32", "2001:db8::1/128"], Some("fe80::2")),
            interface("eth1", &["fe80::3/64"], Some("fe80::3")),
        ],
        "furtherAddresses": ["203.0.113.2"],
    });
    let networks = [report("n1", OLD, &spec), report("n2", OLD, &spec)];
    let review = review(&nodes, &networks);
    assert_eq!(doubts(&review), Vec::<String>::new());
    assert!(networks.iter().zip(review.iter()).all(|(is, believed)| Arc::ptr_eq(is, believed)));
}

#[test]
fn link_local_address_is_one_nodes_on_one_link() {
    let nodes = [node("n1", &[]), node("n2", &[]), node("n3", &[])];
    let on = |subnet: &str, host: u8| {
        let address = format!("{subnet}::{host}/64");
        json!({ "interfaces": [interface("eth0", &[&*address], Some("fe80::11"))] })
    };
    let networks = [
        report("n1", OLD, &on("2001:db8:1", 1)),
        report("n2", OLD, &on("2001:db8:2", 2)),
        report("n3", NEW, &on("2001:db8:1", 3)),
    ];
    let review = review(&nodes, &networks);
    let link_local = |node| review.get(node).expect("a report").spec.interfaces[0].link_local;
    assert!(link_local("n1").is_some() && link_local("n2").is_some(), "another link is another address");
    assert_eq!(link_local("n3"), None);
    assert_eq!(addresses(&review, "n3"), ["2001:db8:1::3/64"], "its other address is its own");
}

#[test]
fn what_one_node_alone_hears_and_sees_counts_up_to_a_number() {
    let nodes = [node("n1", &[]), node("n3", &[])];
    let heard = |vrids: std::ops::RangeInclusive<u8>| -> Vec<Value> {
        let router =
            |vrid| json!({ "interface": "eth0", "vrid": vrid, "source": "192.0.2.99", "version": 3 });
        vrids.map(router).collect()
    };
    let seen: Vec<_> = (1..=40)
        .map(
            |n| json!({ "interface": "eth0", "address": format!("192.0.2.{n}"), "mac": "02:00:00:00:00:99" }),
        )
        .collect();
    let networks = [
        report("n1", OLD, &json!({ "interfaces": [], "foreignRouters": heard(200..=255) })),
        report("n3", OLD, &json!({ "interfaces": [], "foreignRouters": heard(1..=255), "duplicates": seen })),
    ];
    let review = review(&nodes, &networks);
    let believed = &review.get("n3").expect("a report").spec;
    let vrids: Vec<u8> = believed.foreign_routers.iter().map(|router| router.vrid).collect();
    assert_eq!(vrids, (1..=64).chain(200..=255).collect::<Vec<u8>>());
    assert_eq!(believed.duplicates.len(), MAX_DUPLICATES);
    let said = doubts(&review);
    assert!(
        said[0].contains(
            "it alone reports more than 64 VRIDs of foreign routers, and Windlass ignores 135 of them"
        ),
        "{said:?}"
    );
    assert!(
        said[1].contains("more than 16 virtual IPs at other hosts, and Windlass ignores 24 of them"),
        "{said:?}"
    );
}

#[test]
fn report_without_a_node_takes_no_address_and_concerns_no_pool() {
    let networks = [with("n1", NEW, &["192.0.2.11/24"]), with("ghost", OLD, &["192.0.2.11/24"])];
    let review = review(&[node("n1", &[])], &networks);
    assert_eq!(addresses(&review, "n1"), ["192.0.2.11/24"]);
    let names: Vec<_> = review.of_nodes().map(|network| network.name_any()).collect();
    assert_eq!(names, ["n1"]);
    assert_eq!(
        doubts(&review),
        ["ghost: it reports a network, but the cluster has no Node of that name: delete its NodeNetwork"]
    );
}

#[test]
fn doubts_are_told_once_and_what_changes_not_too_often() {
    let doubt = |address: &str| Doubt::TwoNodes {
        address: address.parse().expect("an address"),
        believed: "n1".to_owned(),
    };
    let of = |doubts: &[Doubt]| BTreeMap::from([("n3".to_owned(), doubts.iter().cloned().collect())]);
    let (mut told, start) = (ToldDoubts::default(), Instant::now());
    let many: Vec<_> = (1..=5).map(|n| doubt(&format!("192.0.2.{n}"))).collect();
    let news = told.news(&of(&many), start);
    assert_eq!(news.len(), 1);
    assert!(
        news[0]
            .1
            .starts_with("Windlass does not act on part of the report of node n3: it reports 192.0.2.1,"),
        "{news:?}"
    );
    assert!(news[0].1.ends_with("; and 2 more"), "{news:?}");
    assert_eq!(told.news(&of(&many), start + 2 * TELL_EVERY), []);
    // It comes and goes: once in ten minutes.
    let (soon, later) = (start + Duration::from_secs(1), start + TELL_EVERY);
    assert_eq!(told.news(&BTreeMap::new(), soon), []);
    assert_eq!(told.news(&of(&many[..1]), soon), []);
    assert_eq!(told.news(&of(&many[..1]), later).len(), 1);
}

/// Any report of a node that is called `n3`, with the addresses of others among its own.
fn any_report() -> impl Strategy<Value = Value> {
    let address = (0..40u8, prop_oneof![Just(24), Just(25), Just(32)])
        .prop_map(|(n, len)| format!("192.0.2.{n}/{len}"));
    let v6 = (0..6u8).prop_map(|n| format!("2001:db8::{n:x}/64"));
    let listed = prop::collection::vec(prop_oneof![address, v6], 0..30);
    let name = prop_oneof![Just("eth0"), Just("docker0"), Just("eth1")];
    let link_local = prop::option::of((1..6u8).prop_map(|n| format!("fe80::{n:x}")));
    let interfaces = prop::collection::vec((name, listed, link_local), 0..3);
    let primary = prop::collection::vec((0..40u8).prop_map(|n| format!("192.0.2.{n}")), 0..3);
    let heard = prop::collection::vec(any::<u8>(), 0..256);
    (interfaces, primary, heard).prop_map(|(interfaces, primary, heard)| {
        let interfaces: Vec<_> = interfaces
            .iter()
            .map(|(name, addresses, link_local)| {
                let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
                interface(name, &addresses, link_local.as_deref())
            })
            .collect();
        let heard: Vec<_> = heard
            .iter()
            .map(|vrid| json!({ "interface": "eth0", "vrid": vrid, "source": "192.0.2.99", "version": 3 }))
            .collect();
        json!({ "interfaces": interfaces, "primaryAddresses": primary, "furtherAddresses": primary, "foreignRouters": heard })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))] // 1.9 ms each

    // shows: threats T-13
    /// Whatever a captured node reports, what is believed of the others stays as it was, and no address is believed of two.
    #[test]
    fn no_report_changes_what_is_believed_of_another_node(forged in any_report(), early in any::<bool>()) {
        let nodes = [node("n1", &["192.0.2.1", "2001:db8::1"]), node("n2", &["192.0.2.2"]), node("n3", &[])];
        let honest = |name: &str, host: u8| {
            let (v4, v6) = (format!("192.0.2.{host}/24"), format!("2001:db8::{host}/64"));
            let link_local = format!("fe80::{host}");
            report(name, NEW, &json!({ "interfaces": [interface("eth0", &[&*v4, &*v6], Some(&*link_local))] }))
        };
        let others = [honest("n1", 1), honest("n2", 2)];
        let before = review(&nodes, &others);
        let mut all = others.to_vec();
        all.push(report("n3", if early { OLD } else { NEW }, &forged));
        let after = ReviewedReports::new(&nodes, &all, Some(&before), |_, _| false);
        for other in ["n1", "n2"] {
            prop_assert_eq!(after.get(other), before.get(other));
            prop_assert!(!after.doubts.contains_key(other));
        }
        let believed = claims(after.get("n3").expect("a report"));
        for other in &others {
            for claim in claims(other).keys() {
                prop_assert!(!believed.contains_key(claim), "{claim:?}");
            }
        }
        // And once more the same.
        let again = ReviewedReports::new(&nodes, &all, Some(&after), |_, _| false);
        prop_assert_eq!(again, after);
    }
}

/// A Node of this machine, whose status lists the addresses.
fn machine(name: &str, uuid: &str, ready: bool, addresses: &[&str]) -> Arc<Node> {
    let mut node = serde_json::to_value(&*node(name, addresses)).expect("JSON");
    node["status"]["conditions"] =
        json!([{ "type": "Ready", "status": if ready { "True" } else { "Unknown" } }]);
    node["status"]["nodeInfo"] = json!({
        "systemUUID": uuid, "machineID": "", "architecture": "", "bootID": "", "containerRuntimeVersion": "",
        "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "operatingSystem": "", "osImage": "",
    });
    Arc::new(serde_json::from_value(node).expect("a Node"))
}

// shows: field-reports F-53
#[test]
fn a_machine_that_joins_again_under_another_name_has_its_addresses_and_the_old_node_is_named() {
    const IP: &str = "192.0.2.11";
    let (old, new) = (with("n1", OLD, &["192.0.2.11/24"]), with("m1", NEW, &["192.0.2.11/24"]));
    let cured = "n1: it is not ready, and its machine joined again as Node m1, which has its addresses \
                 now: delete this Node";
    let another = "m1: it reports 192.0.2.11, which is an address of Node n1: remove it from this machine, \
                   or find what else reports under this node's name";
    let two = "n1: it reports 192.0.2.11, which Windlass takes for an address of node m1, which reports it \
               too: give each machine its own addresses";
    // The machine of the new Node, whether the old one is ready, the addresses of the new Node, who is believed, and what is said.
    let rows: [(&str, bool, &[&str], &str, &str); 5] = [
        ("a", false, &[], "m1", cured),
        ("a", false, &[IP], "m1", cured),
        ("a", true, &[], "n1", another),
        ("b", false, &[], "n1", another),
        ("b", false, &[IP], "m1", two),
    ];
    for (id, ready, listed, believed, says) in rows {
        let nodes = [machine("n1", "a", ready, &[IP]), machine("m1", id, true, listed)];
        let review = review(&nodes, &[old.clone(), new.clone()]);
        let had = |name: &str| !addresses(&review, name).is_empty();
        assert_eq!((had("n1"), had("m1")), (believed == "n1", believed == "m1"), "{id} {ready} {listed:?}");
        assert_eq!(doubts(&review), [says], "{id} {ready} {listed:?}");
    }
}

// shows: field-reports F-50
#[test]
fn a_bridge_without_a_way_out_may_have_one_address_on_all_nodes_unless_the_node_is_known_by_it() {
    let nodes = [node("n1", &["192.0.2.11"]), node("n2", &["192.0.2.12"]), node("n3", &["10.88.0.1"])];
    let bridge = json!({ "name": "br-5ee", "mac": "", "addresses": ["10.88.0.1/16"], "isolated": true });
    let networks = ["n1", "n2"].map(|name| {
        let lan = interface("eth0", &[&format!("192.0.2.1{}/24", &name[1..])], None);
        report(name, OLD, &json!({ "interfaces": [bridge, lan] }))
    });
    assert_eq!(doubts(&review(&nodes[..2], &networks)), Vec::<String>::new());
    let of_n3 = report("n3", NEW, &json!({ "interfaces": [bridge] }));
    let review = review(&nodes, &[networks[0].clone(), of_n3]);
    assert_eq!(doubts(&review), Vec::<String>::new());
    let isolated = |name: &str| review.get(name).expect("a report").spec.interfaces[0].isolated;
    assert_eq!((isolated("n1"), isolated("n3")), (true, false), "n3 is reached by its bridge");
}

#[test]
fn a_prefix_length_that_the_others_do_not_have_is_named_with_what_helps() {
    let nodes = ["n1", "n2", "n3"].map(|name| node(name, &[]));
    let networks = [
        with("n1", OLD, &["192.0.2.11/24"]),
        with("n2", OLD, &["192.0.2.12/24"]),
        with("n3", OLD, &["192.0.2.13/24", "192.0.2.140/25"]),
    ];
    assert_eq!(
        doubts(&review(&nodes, &networks)),
        ["n3: it reports 192.0.2.140/25, but other nodes of its LAN have 192.0.2.0/24, which Windlass \
             uses: give 192.0.2.140 the prefix length 24, or change that of the other nodes"]
    );
    assert_eq!(doubts(&review(&nodes, &networks[..2])), Vec::<String>::new());
}
