use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_ipam::{Families, Family, Port, Protocol, Sharing, TrafficPolicy};

use super::*;

const COMPAT: Settings =
    Settings { classless_services: true, compat_annotations: true, settling: Duration::ZERO };

fn service(spec: &Value, annotations: &Value) -> Service {
    serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": "web", "uid": "u", "annotations": annotations },
        "spec": spec,
    }))
    .expect("a Service")
}

fn ask(spec: &Value, annotations: &Value, settings: Settings) -> Result<Request, RequestError> {
    request(&service(spec, annotations), &Labels::new(), settings)
}

fn ips(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|text| text.parse().expect(text)).collect()
}

const V4: Families = Families::Single(Family::V4);
const V6: Families = Families::Single(Family::V6);

/// What is said by a Service of both families that needs only one.
fn prefer() -> Value {
    json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack" })
}

fn require() -> Value {
    json!({ "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack" })
}

// shows: allocation 41, 45, 46, 63
#[test]
fn the_families_are_those_that_the_api_server_resolved_45_46() {
    let rows = [
        (json!({}), V4),
        (json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack" }), V4),
        (json!({ "ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack" }), V6),
        (json!({ "ipFamilies": ["IPv6"] }), V6),
        // A cluster of one family resolves PreferDualStack to it.
        (json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack" }), V4),
        (json!({ "ipFamilies": ["IPv6"], "ipFamilyPolicy": "PreferDualStack" }), V6),
        (json!({ "ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "SingleStack" }), V6),
        (json!({ "ipFamilies": ["IPv6", "IPv4"] }), Families::Prefer([Family::V6, Family::V4])),
        (prefer(), Families::Prefer([Family::V4, Family::V6])),
        (require(), Families::Require([Family::V6, Family::V4])),
        (json!({ "clusterIPs": ["2001:db8::1"] }), V6),
        (json!({ "clusterIPs": ["None"] }), V4),
        (
            json!({ "clusterIPs": ["2001:db8::1", "10.0.0.1"], "ipFamilyPolicy": "RequireDualStack" }),
            Families::Require([Family::V6, Family::V4]),
        ),
    ];
    for (spec, families) in rows {
        let request = ask(&spec, &json!({}), Settings::default()).expect("a request");
        assert_eq!(request, Request::any(families, "ns"), "{spec}");
    }
}

// shows: allocation 51, 59, 60
#[test]
fn a_service_asks_for_addresses_a_pool_a_number_or_nothing_51_59_60() {
    let rows = [
        (json!({}), json!({}), V4, &[][..], None, 1),
        (json!({ "loadBalancerIP": "192.0.2.1" }), json!({}), V4, &["192.0.2.1"][..], None, 1),
        (json!({ "loadBalancerIP": " " }), json!({ "windlass.dev/pool": " " }), V4, &[], None, 1),
        (json!({}), json!({ "windlass.dev/addresses": " 192.0.2.1 " }), V4, &["192.0.2.1"], None, 1),
        (json!({}), json!({ "windlass.dev/address-count": "3" }), V4, &[], None, 3),
        (json!({}), json!({ "windlass.dev/address-count": "08" }), V4, &[], None, 8),
        (json!({}), json!({ "windlass.dev/pool": "lan.example" }), V4, &[], Some("lan.example"), 1),
        // Field and annotation may say the same.
        (
            json!({ "loadBalancerIP": "192.0.2.1" }),
            json!({ "windlass.dev/addresses": "192.0.2.1", "windlass.dev/pool": "lan" }),
            V4,
            &["192.0.2.1"],
            Some("lan"),
            1,
        ),
        // The field names one of them.
        (
            json!({ "loadBalancerIP": "192.0.2.1" }),
            json!({ "windlass.dev/addresses": "192.0.2.2,192.0.2.1", "windlass.dev/address-count": "2" }),
            V4,
            &["192.0.2.2", "192.0.2.1"],
            None,
            2,
        ),
        // Of both families, in the order given; of one only, if both are not required.
        (
            require(),
            json!({ "windlass.dev/addresses": "192.0.2.1, 2001:DB8:0::1" }),
            Families::Require([Family::V6, Family::V4]),
            &["192.0.2.1", "2001:db8::1"],
            None,
            1,
        ),
        (
            prefer(),
            json!({ "windlass.dev/addresses": "2001:db8::1" }),
            Families::Prefer([Family::V4, Family::V6]),
            &["2001:db8::1"],
            None,
            1,
        ),
        // Two of one family, which MetalLB refuses.
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.1,192.0.2.2" }),
            V4,
            &["192.0.2.1", "192.0.2.2"],
            None,
            1,
        ),
    ];
    for (spec, annotations, families, addresses, pool, count) in rows {
        let expected = Request {
            addresses: ips(addresses),
            pool: pool.map(str::to_owned),
            count,
            ..Request::any(families, "ns")
        };
        assert_eq!(ask(&spec, &annotations, Settings::default()), Ok(expected), "{spec} {annotations}");
    }
}

#[test]
fn labels_and_what_the_status_shows_are_part_of_the_request() {
    let service: Service = serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": "web", "uid": "u", "labels": { "app": "web" } },
        "status": { "loadBalancer": { "ingress": [
            { "ip": "192.0.2.7" }, { "hostname": "example.org" }, { "ip": "2001:db8::7" } ] } },
    }))
    .expect("a Service");
    let namespace_labels: Labels = [("team".to_owned(), "a".to_owned())].into();
    let request = request(&service, &namespace_labels, Settings::default()).expect("a request");
    assert_eq!(request.preferred, ips(&["192.0.2.7", "2001:db8::7"]));
    assert_eq!(request.requester.labels, [("app".to_owned(), "web".to_owned())].into());
    assert_eq!(request.requester.namespace_labels, namespace_labels);
    assert_eq!(request.requester.namespace, "ns");
}

#[test]
fn terms_are_ports_traffic_and_sharing() {
    let port = |protocol, number| Port { protocol, number };
    let spec = json!({
        "ports": [
            { "port": 80 }, { "port": 80, "protocol": "UDP" }, { "port": 443, "protocol": "TCP" },
            { "port": 36412, "protocol": "SCTP" } ],
        "selector": { "tier": "b", "app": "a" },
    });
    let keyed = json!({ "windlass.dev/sharing-key": " k/1 ", "windlass.dev/share-with": "b, a ,ns" });
    let read = terms(&service(&spec, &keyed), Settings::default()).expect("terms");
    let ports = [
        port(Protocol::Tcp, 80),
        port(Protocol::Udp, 80),
        port(Protocol::Tcp, 443),
        port(Protocol::Sctp, 36412),
    ];
    assert_eq!(read.ports, ports.into());
    assert_eq!(read.traffic, TrafficPolicy::Cluster, "the selector does not count for Cluster");
    let with: BTreeSet<String> = ["a".to_owned(), "b".to_owned()].into();
    assert_eq!(
        read.sharing,
        Some(Sharing { key: "k/1".to_owned(), with }),
        "its own namespace goes without saying"
    );

    let local = |namespace: &str, name: &str, selector: Value| {
        let service = serde_json::from_value(json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": { "externalTrafficPolicy": "Local", "selector": selector } }));
        terms(&service.expect("a Service"), Settings::default()).expect("terms").traffic
    };
    let one = local("ns", "a", json!({ "x": "1", "y": "2" }));
    assert_eq!(one, local("ns", "b", json!({ "y": "2", "x": "1" })));
    assert_ne!(one, local("ns", "b", json!({ "x": "1" })));
    assert_ne!(one, local("other", "a", json!({ "x": "1", "y": "2" })), "other pods");
    assert_ne!(local("ns", "a", json!({})), local("ns", "b", json!({})), "endpoints made by hand");
}

#[test]
fn annotations_of_others_are_read_only_if_the_admin_lets_them() {
    let rows = [
        (json!({ "metallb.io/loadBalancerIPs": "192.0.2.1" }), &["192.0.2.1"][..], None, None),
        (json!({ "metallb.universe.tf/loadBalancerIPs": "192.0.2.1" }), &["192.0.2.1"], None, None),
        (json!({ "kube-vip.io/loadbalancerIPs": "192.0.2.1" }), &["192.0.2.1"], None, None),
        // MetalLB's name hides its older form, even when it is empty.
        (
            json!({ "metallb.io/loadBalancerIPs": "192.0.2.1", "metallb.universe.tf/loadBalancerIPs": "192.0.2.9" }),
            &["192.0.2.1"],
            None,
            None,
        ),
        (
            json!({ "metallb.io/address-pool": "", "metallb.universe.tf/address-pool": "old" }),
            &[],
            None,
            None,
        ),
        (json!({ "metallb.io/address-pool": "lan" }), &[], Some("lan"), None),
        (json!({ "metallb.universe.tf/address-pool": "lan" }), &[], Some("lan"), None),
        (json!({ "metallb.io/allow-shared-ip": "true" }), &[], None, Some("true")),
        (json!({ "metallb.universe.tf/allow-shared-ip": "k" }), &[], None, Some("k")),
        // Two that agree, in whatever order.
        (
            json!({ "metallb.io/loadBalancerIPs": "192.0.2.1,192.0.2.2",
                    "kube-vip.io/loadbalancerIPs": "192.0.2.2, 192.0.2.1" }),
            &["192.0.2.1", "192.0.2.2"],
            None,
            None,
        ),
        // Ours win, and theirs may be anything.
        (
            json!({ "windlass.dev/addresses": "192.0.2.5", "windlass.dev/pool": "ours",
                    "windlass.dev/sharing-key": "our-key", "metallb.io/address-pool": "theirs",
                    "metallb.io/allow-shared-ip": "their key", "metallb.io/loadBalancerIPs": "garbage",
                    "kube-vip.io/loadbalancerIPs": "0.0.0.0" }),
            &["192.0.2.5"],
            Some("ours"),
            Some("our-key"),
        ),
    ];
    let key = |request: &Request| request.terms.sharing.as_ref().map(|sharing| sharing.key.clone());
    for (annotations, addresses, pool, shared) in rows {
        let request = ask(&json!({}), &annotations, COMPAT).expect("a request");
        assert_eq!(request.addresses, ips(addresses), "{annotations}");
        assert_eq!(request.pool.as_deref(), pool, "{annotations}");
        assert_eq!(key(&request).as_deref(), shared, "{annotations}");
        if annotations.get("windlass.dev/pool").is_none() {
            let without = ask(&json!({}), &annotations, Settings::default()).expect("a request");
            assert_eq!(without, Request::any(V4, "ns"), "{annotations}");
        }
    }
    // Theirs never share across namespaces by themselves; our annotation adds it.
    let mixed = json!({ "metallb.io/allow-shared-ip": "k", "windlass.dev/share-with": "b" });
    let sharing = ask(&json!({}), &mixed, COMPAT).expect("a request").terms.sharing.expect("shared");
    assert_eq!(sharing.with, ["b".to_owned()].into());
}

/// Nine IPv4 addresses.
const NINE: &str =
    "192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4,192.0.2.5,192.0.2.6,192.0.2.7,192.0.2.8,192.0.2.9";

// shows: allocation 41, 51, 52, 59
#[test]
fn what_is_malformed_is_refused_with_place_value_reason_and_remedy_41_51_52_59() {
    let long_key = "k".repeat(254);
    let rows = [
        (
            json!({ "loadBalancerIP": "example.org" }),
            json!({}),
            "spec.loadBalancerIP: \"example.org\" is not an IP address: write one, as 192.0.2.10 or 2001:db8::10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.300" }),
            "windlass.dev/addresses: \"192.0.2.300\" is not an IP address: write one, as 192.0.2.10 or 2001:db8::10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.1," }),
            "windlass.dev/addresses: \"\" is not an IP address: write one, as 192.0.2.10 or 2001:db8::10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.0/24" }),
            "windlass.dev/addresses: \"192.0.2.0/24\" is not an IP address: write one, as 192.0.2.10 or 2001:db8::10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.1, 192.0.2.1" }),
            "windlass.dev/addresses: 192.0.2.1 is named twice: name it once",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "::ffff:192.0.2.1" }),
            "windlass.dev/addresses: ::ffff:192.0.2.1 is an IPv4 address mapped into IPv6: write 192.0.2.1",
        ),
        (
            json!({ "loadBalancerIP": "127.0.0.1" }),
            json!({}),
            "spec.loadBalancerIP: 127.0.0.1 is a loopback address, which no Service can have: name one of a pool",
        ),
        (
            json!({ "loadBalancerIP": "255.255.255.255" }),
            json!({}),
            "spec.loadBalancerIP: 255.255.255.255 is the broadcast address, which no Service can have: name one of a \
             pool",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "ff02::1" }),
            "windlass.dev/addresses: ff02::1 is a multicast address, which no Service can have: name one of a pool",
        ),
        (
            json!({}),
            json!({ "metallb.io/loadBalancerIPs": "::" }),
            "metallb.io/loadBalancerIPs: :: is the unspecified address, which no Service can have: name one of a pool",
        ),
        (
            json!({}),
            json!({ "kube-vip.io/loadbalancerIPs": "0.0.0.0" }),
            "kube-vip.io/loadbalancerIPs: 0.0.0.0 asks for an address by DHCP, which is not supported: name an address \
             of a pool, or remove the annotation to be given one",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": NINE }),
            "windlass.dev/addresses: 9 IPv4 addresses are named: name at most 8",
        ),
        (
            json!({ "loadBalancerIP": "192.0.2.1" }),
            json!({ "windlass.dev/addresses": "192.0.2.2, 192.0.2.3" }),
            "spec.loadBalancerIP is 192.0.2.1, but windlass.dev/addresses is 192.0.2.2, 192.0.2.3: remove \
             one of them",
        ),
        (
            json!({ "loadBalancerIP": "192.0.2.1" }),
            json!({ "metallb.universe.tf/loadBalancerIPs": "192.0.2.2" }),
            "spec.loadBalancerIP is 192.0.2.1, but metallb.universe.tf/loadBalancerIPs is 192.0.2.2: remove \
             one of them",
        ),
        (
            json!({}),
            json!({ "metallb.io/loadBalancerIPs": "192.0.2.1", "kube-vip.io/loadbalancerIPs": "192.0.2.2" }),
            "metallb.io/loadBalancerIPs is 192.0.2.1, but kube-vip.io/loadbalancerIPs is 192.0.2.2: remove \
             one of them",
        ),
        (
            json!({ "ipFamilies": ["IPv6"], "loadBalancerIP": "192.0.2.1" }),
            json!({}),
            "spec.loadBalancerIP: 192.0.2.1 is named, and the Service has no IPv4: name one of its own families, or add IPv4 to \
             spec.ipFamilies",
        ),
        (
            json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack" }),
            json!({ "windlass.dev/addresses": "192.0.2.1, 2001:db8::1" }),
            "windlass.dev/addresses: 2001:db8::1 is named, and the Service has no IPv6: name one of its own families, or add IPv6 to \
             spec.ipFamilies",
        ),
        (
            {
                let mut spec = require();
                spec["loadBalancerIP"] = json!("192.0.2.1");
                spec
            },
            json!({}),
            "spec.loadBalancerIP names no IPv6 address, and spec.ipFamilyPolicy is RequireDualStack: name one of each \
             family, or none",
        ),
        (
            require(),
            json!({ "windlass.dev/addresses": "2001:db8::1" }),
            "windlass.dev/addresses names no IPv4 address, and spec.ipFamilyPolicy is RequireDualStack: name one of \
             each family, or none",
        ),
        (
            json!({}),
            json!({ "windlass.dev/address-count": "0" }),
            "windlass.dev/address-count: \"0\" is not a number from 1 to 8: write how many addresses of each family \
             the Service is to have",
        ),
        (
            json!({}),
            json!({ "windlass.dev/address-count": "+3" }),
            "windlass.dev/address-count: \"+3\" is not a number from 1 to 8: write how many addresses of each family \
             the Service is to have",
        ),
        (
            json!({}),
            json!({ "windlass.dev/address-count": "9" }),
            "windlass.dev/address-count: \"9\" is not a number from 1 to 8: write how many addresses of each family \
             the Service is to have",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.1", "windlass.dev/address-count": "2" }),
            "windlass.dev/address-count says 2, and windlass.dev/addresses names 1 of IPv4: name 2, or remove the count",
        ),
        (
            json!({}),
            json!({ "windlass.dev/pool": "a, b" }),
            "windlass.dev/pool: \"a, b\" is not the name of a VirtualIPPool: name one pool",
        ),
        (
            json!({}),
            json!({ "metallb.io/address-pool": "Lan" }),
            "metallb.io/address-pool: \"Lan\" is not the name of a VirtualIPPool: name one pool",
        ),
        (
            json!({}),
            json!({ "windlass.dev/pool": too_long(240_000, 2560) }),
            "windlass.dev/pool: (too long: 240000 bytes; write at most 2560)",
        ),
        (
            json!({}),
            // By whom it may be: a condition takes no more than 32 KiB.
            json!({ "windlass.dev/pool": format!("(too long: {}", "x".repeat(100)) }),
            &*format!("windlass.dev/pool: (too long: {}…", "x".repeat(53)),
        ),
        (
            json!({}),
            json!({ "windlass.dev/sharing-key": long_key }),
            "windlass.dev/sharing-key: the key has 254 bytes: write at most 253",
        ),
        (
            json!({}),
            json!({ "metallb.io/allow-shared-ip": "my key" }),
            "metallb.io/allow-shared-ip: ' ' is in the key: write printable ASCII characters without spaces",
        ),
        (
            json!({}),
            json!({ "windlass.dev/share-with": "b" }),
            "windlass.dev/share-with is set without windlass.dev/sharing-key: set the key too, or remove it",
        ),
        (
            json!({}),
            json!({ "windlass.dev/sharing-key": "k", "windlass.dev/share-with": "b,*" }),
            "windlass.dev/share-with: \"*\" is not the name of a namespace: write names as in \"a, b\"",
        ),
        (
            json!({ "ipFamilies": ["IPv5"] }),
            json!({}),
            "spec.ipFamilies: \"IPv5\" is neither IPv4 nor IPv6: write one of them",
        ),
        (
            json!({ "ipFamilies": ["IPv4", "IPv4"] }),
            json!({}),
            "spec.ipFamilies: IPv4 is there twice: write it once",
        ),
        (
            json!({ "ipFamilyPolicy": "Dual" }),
            json!({}),
            "spec.ipFamilyPolicy: \"Dual\" is not known: write SingleStack, PreferDualStack or RequireDualStack",
        ),
        (
            json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "RequireDualStack" }),
            json!({}),
            "spec.ipFamilyPolicy is RequireDualStack, and the Service has IPv4 only: write PreferDualStack, or give \
             the cluster a Service range of the other family",
        ),
        (
            json!({ "ports": [ { "port": 80, "protocol": "ICMP" } ] }),
            json!({}),
            "spec.ports: protocol \"ICMP\" is not known: write TCP, UDP or SCTP",
        ),
        (
            json!({ "ports": [ { "port": 65536 } ] }),
            json!({}),
            "spec.ports: 65536 is not a port: write a number from 1 to 65535",
        ),
        (
            json!({ "ports": [ { "port": 0 } ] }),
            json!({}),
            "spec.ports: 0 is not a port: write a number from 1 to 65535",
        ),
    ];
    for (spec, annotations, message) in rows {
        let error = ask(&spec, &annotations, COMPAT).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn sixty_five_namespaces_are_too_many_and_a_long_value_is_shown_by_its_beginning() {
    let many: Vec<_> = (0..65).map(|number| format!("n{number}")).collect();
    let annotations = json!({ "windlass.dev/sharing-key": "k", "windlass.dev/share-with": many.join(",") });
    let error = ask(&json!({}), &annotations, Settings::default()).expect_err("too many");
    assert_eq!(error.to_string(), "windlass.dev/share-with: 65 namespaces are named: name at most 64");
    let annotations = json!({ "windlass.dev/pool": "ä".repeat(100_000) });
    let error = ask(&json!({}), &annotations, Settings::default()).expect_err("no name");
    assert_eq!(
        error,
        RequestError::PoolName { annotation: "windlass.dev/pool", value: format!("{}…", "ä".repeat(64)) }
    );
}

/// Text such as users write, and some that they do not.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "192.0.2.1",
        "2001:db8::1",
        "::",
        "0.0.0.0",
        ",",
        ", ",
        " ",
        "a",
        "A",
        "1",
        "8",
        "9",
        "-",
        "/",
        "é",
        "\u{0}",
        "::ffff:1.2.3.4",
        "999999999999999999999",
        "%eth0",
    ]);
    prop_oneof![prop::collection::vec(pieces, 0..6).prop_map(|pieces| pieces.concat()), any::<String>(),]
}

const NAMES: [&str; 12] = [
    "windlass.dev/addresses",
    "windlass.dev/pool",
    "windlass.dev/address-count",
    "windlass.dev/sharing-key",
    "windlass.dev/share-with",
    "metallb.io/loadBalancerIPs",
    "metallb.io/address-pool",
    "metallb.io/allow-shared-ip",
    "metallb.universe.tf/loadBalancerIPs",
    "metallb.universe.tf/address-pool",
    "metallb.universe.tf/allow-shared-ip",
    "kube-vip.io/loadbalancerIPs",
];

proptest! {
    #[test]
    fn no_text_of_a_field_or_an_annotation_panics_and_what_is_asked_for_is_sound(
        annotations in prop::collection::btree_map(prop::sample::select(&NAMES[..]), text(), 0..5),
        address in prop::option::of(text()),
        families in prop::option::of(prop::collection::vec(prop::sample::select(vec!["IPv4", "IPv6", "x"]), 0..3)),
        policy in prop::option::of(prop::sample::select(vec!["SingleStack", "PreferDualStack", "RequireDualStack", ""])),
        port in any::<i32>(),
        compat_annotations: bool,
    ) {
        let mut spec = json!({ "ports": [{ "port": port }] });
        for (field, value) in [("loadBalancerIP", json!(address)), ("ipFamilies", json!(families)), ("ipFamilyPolicy", json!(policy))] {
            if !value.is_null() {
                spec[field] = value;
            }
        }
        let settings = Settings { compat_annotations, ..Settings::default() };
        match ask(&spec, &json!(annotations), settings) {
            Ok(request) => {
                let families = families::list(request.families);
                prop_assert!((1..=limits::MOST_OF_A_FAMILY).contains(&request.count));
                prop_assert!(request.addresses.iter().all(|address| families.contains(&Family::of(*address))));
                let distinct: BTreeSet<_> = request.addresses.iter().collect();
                prop_assert_eq!(distinct.len(), request.addresses.len());
            }
            Err(error) => prop_assert!(error.to_string().contains(": "), "no remedy: {}", error),
        }
    }
}

#[test]
fn only_load_balancers_of_a_served_class_want_an_address_65() {
    let rows = [
        (json!({ "type": "LoadBalancer" }), true),
        (json!({ "type": "LoadBalancer", "loadBalancerClass": "windlass.dev/windlass" }), true),
        (json!({ "type": "LoadBalancer", "loadBalancerClass": "example.org/x" }), false),
        (json!({ "type": "ClusterIP" }), false),
        (json!({}), false),
    ];
    for (spec, wants) in rows {
        assert_eq!(wants_address(&service(&spec, &json!({})), Settings::default()), wants, "{spec}");
    }
    let classed_only = Settings { classless_services: false, ..Settings::default() };
    assert!(!wants_address(&service(&json!({ "type": "LoadBalancer" }), &json!({})), classed_only));
}

#[test]
fn what_the_pools_and_the_sharing_look_at_is_asked_for_and_a_status_is_not() {
    let local = json!({ "externalTrafficPolicy": "Local", "selector": { "app": "a" } });
    let sharing = json!({ "windlass.dev/sharing-key": "k" });
    let before = service(&local, &sharing);
    let mut relabelled = before.clone();
    relabelled.metadata.labels = Some([("tier".to_owned(), "web".to_owned())].into());
    let reselected =
        service(&json!({ "externalTrafficPolicy": "Local", "selector": { "app": "b" } }), &sharing);
    let mut served = before.clone();
    served.status = serde_json::from_value(
        json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] }, "conditions": [] }),
    )
    .expect("a status");
    let [v4_first, v6_first] = [["IPv4", "IPv6"], ["IPv6", "IPv4"]].map(|families| {
        service(&json!({ "ipFamilies": families, "ipFamilyPolicy": "PreferDualStack" }), &json!({}))
    });
    for (old, new, otherwise) in [
        (&before, &relabelled, true),
        (&before, &reselected, true),
        (&before, &served, false),
        (&v4_first, &v6_first, true),
        (&before, &before, false),
    ] {
        assert_eq!(asks_otherwise(old, new, Settings::default()), otherwise, "{old:?} {new:?}");
    }
}
