use serde_json::{Value, json};

use super::*;

fn service(spec: &Value, annotations: &Value) -> Service {
    serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": "web", "uid": "u", "annotations": annotations },
        "spec": spec,
    }))
    .expect("a Service")
}

#[test]
fn a_service_asks_for_a_pool_an_address_or_nothing() {
    let ip = |text: &str| Some(text.parse().expect(text));
    let rows = [
        (json!({}), json!({}), None, None),
        (json!({ "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack" }), json!({}), None, None),
        (
            json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack" }),
            json!({}),
            None,
            None,
        ),
        (json!({ "loadBalancerIP": "192.0.2.1" }), json!({}), None, ip("192.0.2.1")),
        (json!({ "loadBalancerIP": "" }), json!({ "windlass.dev/pool": " " }), None, None),
        (json!({}), json!({ "windlass.dev/addresses": " 192.0.2.1 " }), None, ip("192.0.2.1")),
        (
            json!({ "loadBalancerIP": "192.0.2.1" }),
            json!({ "windlass.dev/addresses": "192.0.2.1", "windlass.dev/pool": "lan" }),
            Some("lan"),
            ip("192.0.2.1"),
        ),
    ];
    for (spec, annotations, pool, address) in rows {
        let expected = Request {
            pool: pool.map(str::to_owned),
            addresses: address.into_iter().collect(),
            ..Request::any(Families::Single(Family::V4), "ns")
        };
        assert_eq!(request(&service(&spec, &annotations)), Ok(expected), "{spec} {annotations}");
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_reason_and_remedy() {
    let rows = [
        (
            json!({ "ipFamilies": ["IPv6"] }),
            json!({}),
            "the first of spec.ipFamilies is IPv6: this version announces IPv4 only; set ipFamilyPolicy SingleStack \
             or PreferDualStack, with IPv4 first in ipFamilies",
        ),
        (
            json!({ "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack" }),
            json!({}),
            "spec.ipFamilyPolicy is RequireDualStack: this version announces IPv4 only; set ipFamilyPolicy \
             SingleStack or PreferDualStack, with IPv4 first in ipFamilies",
        ),
        (
            json!({ "loadBalancerIP": "example.org" }),
            json!({}),
            "spec.loadBalancerIP \"example.org\" is not an IP address: write one, as 192.0.2.10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.300" }),
            "windlass.dev/addresses \"192.0.2.300\" is not an IP address: write one, as 192.0.2.10",
        ),
        (
            json!({}),
            json!({ "windlass.dev/addresses": "192.0.2.1, 192.0.2.2" }),
            "annotation windlass.dev/addresses names 2 addresses, and a Service has one in this version: name one",
        ),
        (
            json!({ "loadBalancerIP": "192.0.2.1" }),
            json!({ "windlass.dev/addresses": "192.0.2.2" }),
            "spec.loadBalancerIP says 192.0.2.1 and annotation windlass.dev/addresses says 192.0.2.2: remove one of \
             them",
        ),
    ];
    for (spec, annotations, message) in rows {
        let error = request(&service(&spec, &annotations)).expect_err(message);
        assert_eq!(error.to_string(), message);
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
fn what_the_service_controller_sees_to_is_no_orphan() {
    let finalizer = "service.kubernetes.io/load-balancer-cleanup";
    let rows = [
        ("u", "LoadBalancer", None, false),
        ("u", "LoadBalancer", Some(finalizer), false),
        ("u", "ClusterIP", Some(finalizer), false),
        ("u", "ClusterIP", None, true),
        ("u", "ClusterIP", Some("example.org/other"), true),
        ("made-anew", "LoadBalancer", Some(finalizer), true),
    ];
    let owner = ServiceRef { namespace: "ns".into(), name: "web".into(), uid: "u".into() };
    for (uid, type_, finalizer, orphaned) in rows {
        let mut service = service(&json!({ "type": type_ }), &json!({}));
        service.metadata.uid = Some(uid.into());
        service.metadata.finalizers = finalizer.map(|name| vec![name.to_owned()]);
        assert_eq!(
            is_orphaned(&owner, Some(&service), Settings::default()),
            orphaned,
            "{uid} {type_} {finalizer:?}"
        );
    }
    assert!(is_orphaned(&owner, None, Settings::default()));
}
