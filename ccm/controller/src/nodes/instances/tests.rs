use serde_json::{Value, json};

use super::*;

fn node(body: Value) -> Node {
    let mut node = json!({ "metadata": { "name": "n1", "creationTimestamp": "2026-01-03T00:00:00Z" } });
    let Value::Object(body) = body else { panic!("an object") };
    for (key, value) in body {
        match (key.as_str(), value) {
            ("annotations", value) => node["metadata"]["annotations"] = value,
            (key, value) => node[key] = value,
        }
    }
    serde_json::from_value(node).expect("a Node")
}

fn network(interfaces: &[&[&str]]) -> NodeNetwork {
    let interfaces: Vec<_> = interfaces
        .iter()
        .enumerate()
        .map(|(index, addresses)| {
            json!({ "name": format!("eth{index}"), "mac": "02:00:00:00:00:01", "addresses": addresses })
        })
        .collect();
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork", "metadata": { "name": "n1" },
        "spec": { "interfaces": interfaces },
    }))
    .expect("a NodeNetwork")
}

/// 192.0.2.200 and 192.0.2.201 are VIPs, one older than the node, the other younger; 192.0.2.128/25 is in a pool.
fn found(node: &Node, network: Option<&NodeNetwork>) -> Result<InstanceMetadata, String> {
    let octet = |address: IpAddr| match address {
        IpAddr::V4(v4) if v4.octets()[..3] == [192, 0, 2] => v4.octets()[3],
        IpAddr::V4(_) | IpAddr::V6(_) => 0,
    };
    let vip = |address| {
        let since = match octet(address) {
            200 => "2026-01-02T00:00:00Z",
            201 => "2026-01-04T00:00:00Z",
            _ => return None,
        };
        Some(Vip { service: "default/web".to_owned(), since: since.parse().ok() })
    };
    metadata(node, network, vip, |address| octet(address) >= 128)
}

fn known(node: &Node, network: Option<&NodeNetwork>) -> Option<(String, Vec<String>)> {
    let found = found(node, network).ok()?;
    let addresses = found.addresses.iter().map(|one| format!("{} {}", one.type_, one.address)).collect();
    Some((found.provider_id, addresses))
}

// shows: ccm-contract A-01
#[test]
fn addresses_come_from_the_annotation_else_the_node_else_its_agent() {
    let annotated = |ips: &str| json!({ "annotations": { ANNOTATION_PROVIDED_NODE_IP: ips } });
    let listed = |list: &[(&str, &str)]| {
        let list: Vec<_> = list.iter().map(|(kind, ip)| json!({ "type": kind, "address": ip })).collect();
        json!({ "status": { "addresses": list } })
    };
    let rows: [(Value, Option<NodeNetwork>, &[&str]); 10] = [
        (annotated("192.0.2.11"), Some(network(&[&["203.0.113.1/24"]])), &["InternalIP 192.0.2.11"]),
        (
            annotated("192.0.2.130, 2001:db8:0::11"),
            None,
            &["InternalIP 192.0.2.130", "InternalIP 2001:db8::11"],
        ),
        (
            listed(&[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.9"), ("Hostname", "n1")]),
            None,
            &["InternalIP 192.0.2.11", "ExternalIP 203.0.113.9"],
        ),
        // A VIP that somebody took for the node's address is none.
        (
            listed(&[("InternalIP", "192.0.2.200"), ("InternalIP", "192.0.2.11")]),
            None,
            &["InternalIP 192.0.2.11"],
        ),
        (listed(&[("Hostname", "n1")]), Some(network(&[&["192.0.2.11/24"]])), &["InternalIP 192.0.2.11"]),
        (
            json!({}),
            Some(network(&[&["192.0.2.11/24", "2001:db8::11/64"]])),
            &["InternalIP 192.0.2.11", "InternalIP 2001:db8::11"],
        ),
        // The second address of an interface is not primary, link-local ones are no node's.
        (
            json!({}),
            Some(network(&[&["192.0.2.11/24", "192.0.2.12/24", "fe80::1/64"], &["198.51.100.1/24"]])),
            &["InternalIP 192.0.2.11"],
        ),
        (json!({}), Some(network(&[&["192.0.2.200/32"], &["192.0.2.12/24"]])), &["InternalIP 192.0.2.12"]),
        // One outside the pools is better, but a pool over the nodes' own subnet keeps no node out.
        (
            json!({}),
            Some(network(&[&["192.0.2.130/24"], &["198.51.100.1/24"]])),
            &["InternalIP 198.51.100.1"],
        ),
        (json!({}), Some(network(&[&["192.0.2.130/24"]])), &["InternalIP 192.0.2.130"]),
    ];
    for (body, network, expected) in rows {
        let mut expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
        expected.push("Hostname n1".into());
        let found = known(&node(body.clone()), network.as_ref());
        assert_eq!(found, Some(("windlass://n1".into(), expected)), "{body}");
    }
}

#[test]
fn nothing_is_claimed_of_a_node_of_which_no_address_is_known() {
    assert_eq!(known(&node(json!({})), None), None);
    assert_eq!(known(&node(json!({})), Some(&network(&[&["fe80::1/64"], &["nonsense"]]))), None);
}

/// A Node and its report, with an address as text on each interface, the primary ones and the further ones.
fn report(interfaces: &[&[&str]], primary: &[&str], further: &[&str]) -> NodeNetwork {
    let parsed = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect();
    let mut network = network(interfaces);
    network.spec.primary_addresses = parsed(primary);
    network.spec.further_addresses = parsed(further);
    network
}

// shows: ccm-contract N-05
#[test]
fn a_vip_that_kubelet_names_is_refused_and_the_node_has_its_other_addresses() {
    let body = |ips: &str, existing: &[&str]| {
        let list: Vec<_> = existing.iter().map(|ip| json!({ "type": "InternalIP", "address": ip })).collect();
        json!({ "annotations": { ANNOTATION_PROVIDED_NODE_IP: ips }, "status": { "addresses": list } })
    };
    let reported = || Some(network(&[&["192.0.2.200/32", "192.0.2.11/24", "2001:db8::11/64"]]));
    let v4_and_v6: &[&str] = &["192.0.2.11", "2001:db8::11"];
    let rows = [
        ("what the agent reports", body("192.0.2.200", &[]), reported(), v4_and_v6),
        (
            "also if kubelet wrote it to the Node",
            body("192.0.2.200", &["192.0.2.200"]),
            reported(),
            v4_and_v6,
        ),
        ("what the node has", body("192.0.2.200", &["192.0.2.7"]), None, &["192.0.2.7"]),
        (
            "its other family stays",
            body("2001:db8::9,192.0.2.200", &[]),
            reported(),
            &["2001:db8::9", "192.0.2.11"],
        ),
        (
            "and is not had twice",
            body("192.0.2.200,2001:db8::9", &["192.0.2.7", "2001:db8::7"]),
            None,
            &["2001:db8::9", "192.0.2.7"],
        ),
        // A VIP that is younger than the Node, which does not have it.
        ("it came later", body("192.0.2.201", &["192.0.2.11"]), None, &["192.0.2.11"]),
    ];
    for (what, body, network, expected) in rows {
        let found = found(&node(body), network.as_ref()).expect(what);
        let addresses = found.addresses.iter().filter(|one| one.type_ == "InternalIP");
        assert_eq!(addresses.map(|one| one.address.as_str()).collect::<Vec<_>>(), expected, "{what}");
        let refused = found.node_ip_refused.expect(what);
        for word in ["192.0.2.20", "node n1", "Service default/web", "set --node-ip"] {
            assert!(refused.contains(word), "{what}: {refused}");
        }
    }
    let why = found(&node(body("192.0.2.200", &["192.0.2.200"])), None).expect_err("nothing is known");
    assert!(
        why.contains("no address of node n1 is known: 192.0.2.200, which") && why.contains("any yet"),
        "{why}"
    );
}

// shows: ccm-contract N-05
#[test]
fn an_address_that_a_node_had_before_a_service_got_it_stays_the_nodes() {
    for annotations in [json!({}), json!({ ANNOTATION_PROVIDED_NODE_IP: "192.0.2.201" })] {
        let body = json!({
            "annotations": annotations,
            "status": { "addresses": [{ "type": "InternalIP", "address": "192.0.2.201" }] },
        });
        let found = found(&node(body), Some(&network(&[&["192.0.2.201/24"], &["198.51.100.1/24"]])));
        let found = found.expect("addresses");
        assert_eq!(found.addresses[0].address, "192.0.2.201");
        assert_eq!(found.node_ip_refused, None);
    }
}

// shows: ccm-contract A-01
#[test]
fn of_several_interfaces_that_of_the_default_route_gives_the_address() {
    let two: &[&[&str]] = &[&["198.51.100.1/24", "2001:db8:9::1/64"], &["192.0.2.11/24", "2001:db8::11/64"]];
    let rows = [
        (
            "both families",
            report(two, &["192.0.2.11", "2001:db8::11"], &[]),
            vec!["192.0.2.11", "2001:db8::11"],
        ),
        ("each by itself", report(two, &["192.0.2.11"], &[]), vec!["192.0.2.11", "2001:db8:9::1"]),
        ("by name, if there is no way out", report(two, &[], &[]), vec!["198.51.100.1", "2001:db8:9::1"]),
        (
            "on the loopback interface",
            report(two, &["192.0.2.1"], &["192.0.2.1"]),
            vec!["192.0.2.1", "2001:db8:9::1"],
        ),
        ("no VIP", report(two, &["192.0.2.200"], &[]), vec!["198.51.100.1", "2001:db8:9::1"]),
        (
            "none of a pool, if there is another",
            report(two, &["192.0.2.130"], &[]),
            vec!["198.51.100.1", "2001:db8:9::1"],
        ),
        (
            "one of a subnet before those that are bound beside it",
            report(&[&["192.0.2.5/32", "192.0.2.11/24", "2001:db8::5/128", "2001:db8::11/64"]], &[], &[]),
            vec!["192.0.2.11", "2001:db8::11"],
        ),
        ("which a machine may have alone", report(&[&["192.0.2.5/32"]], &[], &[]), vec!["192.0.2.5"]),
    ];
    for (what, network, expected) in rows {
        let found = found(&node(json!({})), Some(&network)).expect(what);
        let addresses = found.addresses.iter().filter(|one| one.type_ == "InternalIP");
        assert_eq!(addresses.map(|one| one.address.as_str()).collect::<Vec<_>>(), expected, "{what}");
    }
}

// shows: ccm-contract A-01
#[test]
fn an_address_that_is_still_on_the_machine_stays_the_nodes() {
    let two: &[&[&str]] = &[&["192.0.2.11/24"], &["198.51.100.1/24"]];
    let rows = [
        (
            "on the interface that is not of the default route",
            "198.51.100.1",
            report(two, &["192.0.2.11"], &[]),
            true,
        ),
        (
            "on the loopback interface, or a tunnel",
            "192.0.2.1",
            report(two, &["192.0.2.11"], &["192.0.2.1"]),
            true,
        ),
        ("gone", "192.0.2.1", report(two, &["192.0.2.11"], &["192.0.2.2"]), false),
    ];
    for (what, address, network, stays) in rows {
        let body = json!({
            "spec": { "providerID": "windlass://n1" },
            "status": { "addresses": [{ "type": "InternalIP", "address": address }] },
        });
        let found = found(&node(body), Some(&network)).expect(what);
        let expected = if stays { address } else { "192.0.2.11" };
        assert_eq!(found.addresses[0].address, expected, "{what}");
    }
}

#[test]
fn the_bridge_of_containers_gives_a_node_no_address_and_keeps_it_none() {
    let with_bridge = |others: &[&[&str]]| {
        let mut network = network(&[&[&["172.17.0.1/16", "2001:db8:9::1/64"][..]], others].concat());
        network.spec.interfaces[0].name = "docker0".to_owned();
        network
    };
    let lan: &[&[&str]] = &[&["192.0.2.11/24"]];
    let has = json!({
        "spec": { "providerID": "windlass://n1" },
        "status": { "addresses": [{ "type": "InternalIP", "address": "172.17.0.1" }] },
    });
    let rows = [
        ("of two interfaces the other's", json!({}), lan, Some("192.0.2.11")),
        ("rather none", json!({}), &[], None),
        ("one that somebody took for the node's", has.clone(), lan, Some("192.0.2.11")),
        ("which stays where there is no other", has, &[], Some("172.17.0.1")),
    ];
    for (what, body, others, expected) in rows {
        let known = known(&node(body), Some(&with_bridge(others))).map(|(_, addresses)| addresses);
        let expected =
            expected.map(|address| vec![format!("InternalIP {address}"), "Hostname n1".to_owned()]);
        assert_eq!(known, expected, "{what}");
    }
}

#[test]
fn a_provider_id_and_a_host_name_that_are_there_are_kept() {
    let body = json!({
        "spec": { "providerID": "metal3://host-7" },
        "status": { "addresses": [
            { "type": "InternalIP", "address": "192.0.2.11" }, { "type": "Hostname", "address": "n1.example.org" } ] },
    });
    let addresses = vec!["InternalIP 192.0.2.11".to_owned(), "Hostname n1.example.org".to_owned()];
    assert_eq!(known(&node(body), None), Some(("metal3://host-7".into(), addresses)));
}

/// Provider ID and addresses of the Node, addresses of each interface, addresses that the Node is to have.
type Moved<'a> = (&'a str, &'a [&'a str], &'a [&'a [&'a str]], &'a [&'a str]);

#[test]
fn a_machine_that_moved_gets_its_new_address_where_we_are_who_writes_it() {
    let listed = |id: &str, list: &[&str]| {
        let list: Vec<_> = list
            .iter()
            .map(|text| text.split_once(' ').expect("type and address"))
            .map(|(kind, ip)| json!({ "type": kind, "address": ip }))
            .collect();
        json!({ "spec": { "providerID": id }, "status": { "addresses": list } })
    };
    let ours = "windlass://n1";
    let dual = ["InternalIP 192.0.2.11", "InternalIP 2001:db8::11"];
    let rows: [Moved<'_>; 12] = [
        // Nothing changed, whatever else there is.
        (ours, &dual, &[&["192.0.2.11/24", "192.0.2.12/24", "2001:db8::11/64"]], &dual),
        (
            ours,
            &["InternalIP 192.0.2.12"],
            &[&["192.0.2.11/24", "192.0.2.12/24"]],
            &["InternalIP 192.0.2.12"],
        ),
        // One family moved, or both; in place.
        (
            ours,
            &dual,
            &[&["192.0.2.21/24", "2001:db8::11/64"]],
            &["InternalIP 192.0.2.21", "InternalIP 2001:db8::11"],
        ),
        (
            ours,
            &["InternalIP 2001:db8::11", "InternalIP 192.0.2.11"],
            &[&["192.0.2.21/24", "2001:db8::21/64"]],
            &["InternalIP 2001:db8::21", "InternalIP 192.0.2.21"],
        ),
        // To the address of the same network, not to that of the first interface.
        (
            ours,
            &["InternalIP 198.51.100.1"],
            &[&["192.0.2.11/24"], &["198.51.100.7/24"]],
            &["InternalIP 198.51.100.7"],
        ),
        // An address that is gone without another stays, so does one from outside.
        (ours, &dual, &[&["192.0.2.11/24"]], &dual),
        (
            ours,
            &["InternalIP 192.0.2.11", "ExternalIP 203.0.113.9"],
            &[&["192.0.2.21/24"]],
            &["InternalIP 192.0.2.21", "ExternalIP 203.0.113.9"],
        ),
        // Never to a VIP, and to one of a pool only if there is no other.
        (
            ours,
            &["InternalIP 192.0.2.11"],
            &[&["192.0.2.200/32"], &["192.0.2.21/24"]],
            &["InternalIP 192.0.2.21"],
        ),
        (
            ours,
            &["InternalIP 192.0.2.11"],
            &[&["192.0.2.130/24"], &["192.0.2.21/24"]],
            &["InternalIP 192.0.2.21"],
        ),
        // What is bound on the interface first may be a VIP.
        (
            ours,
            &["InternalIP 192.0.2.11"],
            &[&["192.0.2.200/32", "192.0.2.21/24"]],
            &["InternalIP 192.0.2.21"],
        ),
        // A family that came later.
        (ours, &["InternalIP 192.0.2.11"], &[&["192.0.2.11/24", "2001:db8::11/64"]], &dual),
        // Somebody else may be writing them.
        ("metal3://host-7", &["InternalIP 192.0.2.11"], &[&["192.0.2.21/24"]], &["InternalIP 192.0.2.11"]),
    ];
    for (id, existing, interfaces, expected) in rows {
        let mut expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
        expected.push("Hostname n1".into());
        let found = known(&node(listed(id, existing)), Some(&network(interfaces)));
        assert_eq!(found.map(|(_, addresses)| addresses), Some(expected), "{existing:?} {interfaces:?}");
    }
    // Without a report nothing is known to have changed; a kubelet that is no external one writes its own.
    let alone = node(listed(ours, &dual));
    assert_eq!(known(&alone, None).map(|(_, addresses)| addresses.len()), Some(3));
    let unowned = node(listed("", &["InternalIP 192.0.2.11"]));
    let found = known(&unowned, Some(&network(&[&["192.0.2.21/24"]])));
    assert_eq!(found.map(|(_, addresses)| addresses[0].clone()), Some("InternalIP 192.0.2.11".into()));
}
