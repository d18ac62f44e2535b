use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_ipam::{Families, Family, Port, Protocol, Sharing, TrafficPolicy};

use super::*;

mod refusals;

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
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.27 ms each

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
