use serde_json::{Value, json};

use super::*;

fn node(body: Value) -> Node {
    let mut node = json!({ "metadata": { "name": "n1" } });
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

/// 192.0.2.200 is a VIP; 192.0.2.128/25 is in a pool.
fn known(node: &Node, network: Option<&NodeNetwork>) -> Option<(String, Vec<String>)> {
    let octet = |address: IpAddr| match address {
        IpAddr::V4(v4) if v4.octets()[..3] == [192, 0, 2] => v4.octets()[3],
        IpAddr::V4(_) | IpAddr::V6(_) => 0,
    };
    let found = metadata(node, network, |address| octet(address) == 200, |address| octet(address) >= 128)?;
    let addresses = found.addresses.iter().map(|one| format!("{} {}", one.type_, one.address)).collect();
    Some((found.provider_id, addresses))
}

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
            annotated("192.0.2.200, 2001:db8::11"),
            None,
            &["InternalIP 192.0.2.200", "InternalIP 2001:db8::11"],
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
