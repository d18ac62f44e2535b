use serde_json::{Value, json};
use windlass_ccm::service::ANNOTATION_SOURCE_RANGES;

use super::*;

fn service(field: &[&str], annotation: Option<&str>, change: &Value) -> Service {
    let mut service = json!({
        "metadata": { "name": "web", "namespace": "ns", "uid": "u", "annotations": { ANNOTATION_SOURCE_RANGES: annotation.unwrap_or("") } },
        "spec": { "type": "LoadBalancer", "loadBalancerSourceRanges": field, "ports": [
            { "port": 443, "protocol": "TCP" }, { "port": 80 }, { "port": 80, "protocol": "UDP" }, { "port": 5, "protocol": "SCTP" },
        ] },
    });
    service = windlass_ccm::testing::with(service, change);
    serde_json::from_value(service).unwrap()
}

/// Who may send, and whether kube-proxy sees to it; `None`: everybody may.
type Found = Option<(Vec<String>, bool)>;

fn found(service: &Service) -> [Found; 2] {
    [true, false].map(|ipv4| {
        let sources = of_service(service, ipv4, Settings::default())?;
        Some((sources.allowed, sources.by_kube_proxy))
    })
}

fn only(ranges: &[&str], by_kube_proxy: bool) -> (Vec<String>, bool) {
    (ranges.iter().map(ToString::to_string).collect(), by_kube_proxy)
}

#[test]
fn who_may_send_follows_from_field_and_annotation_for_each_family() {
    let none = json!({});
    let others = json!({ "metadata": { "labels": { "service.kubernetes.io/service-proxy-name": "x" } } });
    let foreign = json!({ "spec": { "loadBalancerClass": "example.com/other" } });
    let (four, six) = ("10.0.0.0/8", "2001:db8::/32");
    let many: Vec<String> = (0..=1024).map(|n| format!("10.{}.{}.0/24", n / 256, n % 256)).collect();
    let many = many.join(",");
    let table = [
        ("nothing", service(&[], None, &none), [None, None]),
        (
            "a field of one family",
            service(&[four], None, &none),
            [Some(only(&[four], true)), Some(only(&[], false))],
        ),
        (
            "a field of the other",
            service(&[six], None, &none),
            [Some(only(&[], false)), Some(only(&[six], true))],
        ),
        (
            "a field of both",
            service(&[four, six], None, &none),
            [Some(only(&[four], true)), Some(only(&[six], true))],
        ),
        (
            "an annotation",
            service(&[], Some(four), &none),
            [Some(only(&[four], false)), Some(only(&[], false))],
        ),
        (
            "the field hides the annotation",
            service(&[four], Some("x"), &none),
            [Some(only(&[four], true)), Some(only(&[], false))],
        ),
        (
            "everybody of a family",
            service(&["0.0.0.0/0", six], None, &none),
            [None, Some(only(&[six], true))],
        ),
        ("everybody", service(&["0.0.0.0/0", "::/0"], None, &none), [None, None]),
        (
            "a malformed annotation",
            service(&[], Some("10.0.0.1"), &none),
            [Some(only(&[], false)), Some(only(&[], false))],
        ),
        (
            "more than can be told",
            service(&[], Some(&many), &none),
            [Some(only(&[], false)), Some(only(&[], false))],
        ),
        (
            "another proxy's Service",
            service(&[four], None, &others),
            [Some(only(&[four], false)), Some(only(&[], false))],
        ),
        ("another class", service(&[four], None, &foreign), [None, None]),
    ];
    for (what, service, expected) in table {
        assert_eq!(found(&service), expected, "{what}");
    }
}

#[test]
fn every_port_is_named_once_with_its_protocol() {
    let sources = of_service(&service(&["10.0.0.0/8"], None, &json!({})), true, Settings::default()).unwrap();
    let ports = json!([
        { "protocol": "TCP", "port": 80 }, { "protocol": "TCP", "port": 443 }, { "protocol": "UDP", "port": 80 },
        { "protocol": "SCTP", "port": 5 },
    ]);
    assert_eq!(
        serde_json::to_value(sources).unwrap(),
        json!({ "ports": ports, "allowed": ["10.0.0.0/8"], "byKubeProxy": true })
    );
}

#[test]
fn agents_are_to_hear_soon_of_ports_and_of_what_changes_who_may_send() {
    let none = json!({});
    let other_port = json!({ "spec": { "ports": [{ "port": 81 }] } });
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let four = || service(&["10.0.0.0/8"], None, &none);
    let table = [
        (service(&[], None, &none), service(&[], None, &other_port), true),
        (four(), service(&["10.0.0.0/8"], None, &label), false),
        (four(), service(&["10.0.0.0/8"], None, &other_port), true),
        (four(), service(&[], None, &none), true),
        (service(&[], None, &none), service(&[], Some("nonsense"), &none), true),
        (four(), service(&[], Some("10.0.0.0/8"), &none), true),
    ];
    for (old, new, expected) in table {
        let news = Change { old: Some(old.into()), new: Some(new.into()) };
        assert_eq!(may_differ(&news), expected, "{news:?}");
    }
}
