use super::{List, addresses, decided, fresh, machine, node_ip, shown};
use crate::node::addresses::wanted_addresses;
use crate::node::decide::decide;
use crate::provider::InstanceMetadata;
use crate::testing::{node, node_object, with};
use serde_json::json;

// shows: ccm-contract 168
#[test]
fn kubelets_host_name_stays_if_the_provider_has_none_168() {
    let change = decided(fresh("n1"), &machine(&[("InternalIP", "192.0.2.11")]));
    let list = change.addresses.expect("addresses");
    assert_eq!(shown(&list), [("InternalIP", "192.0.2.11"), ("Hostname", "n1")]);
}

#[test]
fn an_empty_list_from_the_provider_keeps_the_addresses() {
    let has = [("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1"), ("Hostname", "n1")];
    let has = with(node("n1"), &json!({ "status": { "addresses": addresses(&has) } }));
    assert_eq!(decided(has, &machine(&[])).addresses, None);
    let change = decided(fresh("n1"), &machine(&[]));
    assert_eq!(change.addresses, None);
    assert!(change.initialize.is_some());
}

// shows: ccm-contract 192 to 196, N-12, N-13
#[test]
fn addresses_are_compared_in_order_192_to_196_and_n_13() {
    let current = [("InternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11"), ("Hostname", "n1")];
    let node = with(node("n1"), &json!({ "status": { "addresses": addresses(&current) } }));
    let rows: [(&str, List<'_>, bool); 6] = [
        ("192 equal, dual-stack", &current, false),
        (
            "193 another value",
            &[("InternalIP", "192.0.2.12"), ("InternalIP", "2001:db8::11"), ("Hostname", "n1")],
            true,
        ),
        (
            "194 one more",
            &[
                ("InternalIP", "192.0.2.11"),
                ("InternalIP", "2001:db8::11"),
                ("ExternalIP", "203.0.113.1"),
                ("Hostname", "n1"),
            ],
            true,
        ),
        ("195 one less", &[("InternalIP", "192.0.2.11"), ("Hostname", "n1")], true),
        (
            "N-13 another order",
            &[("InternalIP", "2001:db8::11"), ("InternalIP", "192.0.2.11"), ("Hostname", "n1")],
            true,
        ),
        (
            "196 types swapped",
            &[("ExternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11"), ("Hostname", "n1")],
            true,
        ),
    ];
    for (what, provided, differs) in rows {
        assert_eq!(decided(node.clone(), &machine(provided)).addresses.is_some(), differs, "{what}");
    }
}

// shows: ccm-contract 174, 184, 235 to 239, 241, 243 to 248, N-05, N-11
#[test]
fn the_node_ip_annotation_orders_and_filters_174_and_235_to_248() {
    let rows: [(&str, &str, List<'_>, List<'_>); 13] = [
        (
            "174, 235 one internal",
            "192.0.2.11",
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1")],
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1")],
        ),
        (
            "236 the external one",
            "203.0.113.1",
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1")],
            &[("ExternalIP", "203.0.113.1"), ("InternalIP", "192.0.2.11")],
        ),
        (
            "237 two types match",
            "192.0.2.11",
            &[
                ("InternalIP", "192.0.2.11"),
                ("InternalIP", "192.0.2.12"),
                ("ExternalIP", "192.0.2.11"),
                ("ExternalIP", "203.0.113.1"),
            ],
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "192.0.2.11")],
        ),
        (
            "238 another type is kept, in its order",
            "192.0.2.11",
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1"), ("InternalDNS", "n1.example.org")],
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1"), ("InternalDNS", "n1.example.org")],
        ),
        (
            "239 several internal",
            "192.0.2.12",
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "192.0.2.12"), ("ExternalIP", "203.0.113.1")],
            &[("InternalIP", "192.0.2.12"), ("ExternalIP", "203.0.113.1")],
        ),
        (
            "241 the provider's spelling stays; a space in the list",
            "192.0.2.11, 2001:db8::11",
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "2001:DB8:0::11"), ("InternalIP", "192.0.2.12")],
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "2001:DB8:0::11")],
        ),
        (
            "241 IPv6 spelt differently",
            "2001:db8:0::11",
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11")],
            &[("InternalIP", "2001:db8::11")],
        ),
        (
            "243 both families, annotation order",
            "2001:db8::11,192.0.2.11",
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11")],
            &[("InternalIP", "2001:db8::11"), ("InternalIP", "192.0.2.11")],
        ),
        (
            "244 whatever the provider's order",
            "192.0.2.11,2001:db8::11",
            &[("InternalIP", "2001:db8::11"), ("InternalIP", "192.0.2.11")],
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11")],
        ),
        (
            "245 several per family",
            "192.0.2.12,2001:db8::12",
            &[
                ("InternalIP", "192.0.2.11"),
                ("InternalIP", "192.0.2.12"),
                ("InternalIP", "2001:db8::11"),
                ("InternalIP", "2001:db8::12"),
            ],
            &[("InternalIP", "192.0.2.12"), ("InternalIP", "2001:db8::12")],
        ),
        (
            "246 both families, an external one besides",
            "192.0.2.11,2001:db8::11",
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11"), ("ExternalIP", "203.0.113.1")],
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11"), ("ExternalIP", "203.0.113.1")],
        ),
        (
            "247 externals stay",
            "192.0.2.11",
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1"), ("ExternalIP", "203.0.113.2")],
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1"), ("ExternalIP", "203.0.113.2")],
        ),
        (
            "248 one internal, one external",
            "192.0.2.11,2001:db8::11",
            &[
                ("InternalIP", "2001:db8::12"),
                ("InternalIP", "192.0.2.12"),
                ("ExternalIP", "192.0.2.11"),
                ("InternalIP", "2001:db8::11"),
            ],
            &[("ExternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11")],
        ),
    ];
    for (what, annotation, provided, expected) in rows {
        let node = node_object(with(fresh("n1"), &node_ip(annotation)));
        let list = wanted_addresses(&node, &machine(provided)).expect(what);
        let expected: Vec<_> = expected.iter().copied().chain([("Hostname", "n1")]).collect();
        assert_eq!(shown(&list), expected, "{what}");
    }
}

// shows: ccm-contract 175, 176, 240, 242, N-05, N-11
#[test]
fn a_node_ip_that_cannot_be_kept_leaves_the_taint_175_176_240_242() {
    let offered = [("InternalIP", "192.0.2.11")];
    let rows = [
        ("175", "invalid-ip", "\"invalid-ip\" is not an IP address"),
        ("176, 240", "192.0.2.12", "matches ip: 192.0.2.12; it offers InternalIP 192.0.2.11, Hostname n1"),
        ("242", "192.0.2.11,2001:db8::11", "matches ip: 2001:db8::11"),
        ("two of one family", "192.0.2.11,192.0.2.12", "names two addresses of one family"),
        ("three", "192.0.2.11,2001:db8::11,192.0.2.12", "names 3 addresses"),
        ("empty", "", "\"\" is not an IP address"),
    ];
    for (what, annotation, reason) in rows {
        let node = node_object(with(fresh("n1"), &node_ip(annotation)));
        let error = decide(&node, Some(&machine(&offered))).expect_err(what).to_string();
        assert!(error.starts_with("provided node ip for node \"n1\" is not valid: "), "{what}: {error}");
        assert!(error.contains(reason), "{what}: {error}");
    }
}

// shows: ccm-contract N-05
#[test]
fn a_node_ip_that_the_provider_refuses_binds_nobody() {
    let refused = InstanceMetadata {
        node_ip_refused: Some("192.0.2.200 is a VIP".to_owned()),
        ..machine(&[("InternalIP", "192.0.2.11")])
    };
    for annotation in ["192.0.2.200", "192.0.2.200,2001:db8::11", "nonsense"] {
        let change = decided(with(fresh("n1"), &node_ip(annotation)), &refused);
        let list = change.addresses.expect("addresses");
        assert_eq!(shown(&list), [("InternalIP", "192.0.2.11"), ("Hostname", "n1")], "{annotation}");
        assert!(change.initialize.is_some(), "{annotation}");
    }
}

// shows: ccm-contract 231 to 234
#[test]
fn duplicate_addresses_are_dropped_231_to_234() {
    let (one, other) = (("InternalIP", "192.0.2.11"), ("ExternalIP", "192.0.2.11"));
    let rows: [(&str, List<'_>, List<'_>); 4] = [
        ("231 none", &[], &[("Hostname", "n1")]),
        ("232 one", &[one], &[one, ("Hostname", "n1")]),
        ("233 twice the same", &[one, one], &[one, ("Hostname", "n1")]),
        ("234 the same and another", &[one, other, one], &[one, other, ("Hostname", "n1")]),
    ];
    for (what, provided, expected) in rows {
        let list = wanted_addresses(&node_object(fresh("n1")), &machine(provided)).expect(what);
        assert_eq!(shown(&list), expected, "{what}");
    }
}
