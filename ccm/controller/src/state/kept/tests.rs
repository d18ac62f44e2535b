use serde_json::{Value, json};
use windlass_api::SERVICE_ANNOTATIONS;
use windlass_ccm::service::{ANNOTATION_SOURCE_RANGES, SourceRanges};

use super::*;
use crate::Settings;
use crate::allocation::request;

/// Of MetalLB and kube-vip.
const THEIRS: [&str; 7] = [
    "kube-vip.io/loadbalancerIPs",
    "metallb.io/address-pool",
    "metallb.io/allow-shared-ip",
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/address-pool",
    "metallb.universe.tf/allow-shared-ip",
    "metallb.universe.tf/loadBalancerIPs",
];

fn service_with(annotations: &BTreeMap<String, String>) -> Service {
    let body = json!({
        "metadata": {
            "name": "web", "namespace": "ns", "uid": "u", "resourceVersion": "7", "annotations": annotations,
            "labels": { "app": "web" }, "finalizers": ["a/b"],
            "managedFields": [{ "manager": "kubectl", "time": "2026-01-01T00:00:07Z", "fieldsV1": { "f:spec": {} } }],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y" }],
        },
        "spec": { "type": "LoadBalancer", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.2" }] } },
        "unknown": "x".repeat(1000),
    });
    serde_json::from_value(body).expect("a Service")
}

fn size(service: &Service) -> usize {
    serde_json::to_string(service).expect("JSON").len()
}

fn annotated(annotations: impl IntoIterator<Item = (&'static str, String)>) -> BTreeMap<String, String> {
    annotations.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

#[test]
fn of_a_service_what_is_read_is_kept_and_nothing_else() {
    let read = SERVICE_ANNOTATIONS.iter().chain(&THEIRS).chain(&[ANNOTATION_SOURCE_RANGES]);
    let read = annotated(read.map(|name| (*name, "a text".to_owned())));
    let mut all = read.clone();
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
    for foreign in [last_applied, "windlass.dev/unknown", "metallb.io/ip-allocated-from-pool", "note"] {
        all.insert(foreign.to_owned(), "x".repeat(64 * 1024));
    }
    let before = service_with(&all);
    let mut kept = before.clone();
    service(&mut kept);
    assert_eq!(kept.metadata.annotations, Some(read));
    assert_eq!(kept.metadata.owner_references, None);
    assert_eq!(slim::edited(&kept), slim::edited(&before), "when it was edited is read");
    assert_eq!((&kept.spec, &kept.status), (&before.spec, &before.status));
    let (was, is) = (before.metadata, kept.metadata);
    assert_eq!((is.labels, is.finalizers, is.uid), (was.labels, was.finalizers, was.uid));
    assert_eq!((is.name, is.namespace, is.resource_version), (was.name, was.namespace, was.resource_version));
}

// shows: threats T-10
#[test]
fn two_thousand_services_with_as_many_annotations_as_there_may_be_fit_into_a_hundred_megabytes() {
    let all = 256 * 1024;
    let read: Vec<_> =
        SERVICE_ANNOTATIONS.iter().chain(&THEIRS).chain(&[ANNOTATION_SOURCE_RANGES]).copied().collect();
    let in_one = |name| annotated([(name, "x".repeat(all))]);
    let spread = annotated(read.iter().map(|name| (*name, "x".repeat(all / read.len()))));
    for annotations in read.iter().map(|name| in_one(*name)).chain([in_one("note"), spread]) {
        let mut kept = service_with(&annotations);
        service(&mut kept);
        let bytes = size(&kept);
        assert!(bytes < 45_000, "{:?}: {bytes} bytes", annotations.keys());
    }
}

#[test]
fn a_text_that_is_too_long_to_be_kept_is_refused_and_never_taken_for_a_shorter_one() {
    let long = |one: &str| format!("{one}{}", " ".repeat(LONGEST));
    let cases = [
        ("windlass.dev/addresses", long("192.0.2.1"), "192.0.2.1"),
        ("windlass.dev/address-count", long("2"), "2"),
        ("windlass.dev/sharing-key", "k".repeat(LONGEST + 1), "k"),
        (ANNOTATION_SOURCE_RANGES, "10.0.0.0/8,".repeat(LONGEST / 8) + "10.0.0.0/8", "10.0.0.0/8"),
    ];
    for (name, text, short) in cases {
        let request = |text: String| {
            let mut kept = service_with(&annotated([(name, text)]));
            service(&mut kept);
            let asked = request::request(&kept, &BTreeMap::new(), Settings::default());
            (asked.map(drop), SourceRanges::of(&kept).map(drop))
        };
        let (asked, ranges) = request(text);
        let error = asked.expect_err(name).to_string();
        assert!(error.contains(name), "{error}");
        assert_eq!(ranges.is_err(), name == ANNOTATION_SOURCE_RANGES);
        assert_eq!(request(short.to_owned()), (Ok(()), Ok(())), "{name}: a short one is read");
    }
    let most: Vec<String> = (0..MOST_SOURCES).map(|number| format!("2001:db8:{number:x}::/48")).collect();
    let mut kept = service_with(&annotated([(ANNOTATION_SOURCE_RANGES, most.join(", "))]));
    service(&mut kept);
    let ranges = SourceRanges::of(&kept).expect("ranges").expect("some");
    assert_eq!(ranges.ranges().len(), MOST_SOURCES, "as many as a Service may have are kept");
}

// shows: threats T-10
#[test]
fn lists_that_nobody_reads_to_their_end_are_kept_in_part_or_refused_as_a_whole() {
    let kept_of = |externals: usize, ranges: Vec<String>| {
        let mut kept = service_with(&BTreeMap::new());
        let spec = kept.spec.get_or_insert_default();
        let address = |number: usize| format!("203.0.113.{}", number % 256);
        spec.external_ips = Some((0..externals).map(address).collect());
        spec.load_balancer_source_ranges = Some(ranges);
        service(&mut kept);
        kept
    };
    // As many as are read, written as long as they can be; some of them twice; with blanks around one.
    let longest = |number: usize| format!("2001:0db8:0000:0000:0000:ffff:1111:{number:04x}/128");
    let most: Vec<String> = (0..MOST_SOURCES).map(longest).collect();
    let twice = [most[..100].to_vec(), most[..100].to_vec(), vec![format!("  {}  ", most[0])]].concat();
    for (ranges, expected) in [(most.clone(), MOST_SOURCES), (twice, 100)] {
        let kept = kept_of(MAX_EXTERNAL_IPS, ranges.clone());
        assert_eq!(kept.spec.as_ref().unwrap().load_balancer_source_ranges, Some(ranges));
        assert_eq!(SourceRanges::of(&kept).unwrap().unwrap().ranges().len(), expected);
        assert_eq!(kept.spec.unwrap().external_ips.unwrap().len(), MAX_EXTERNAL_IPS);
    }
    // What an object of 1.5 MB can have. Half of a list of ranges would be another list.
    for ranges in [
        (0..60_000).map(|number| format!("10.{}.{}.0/24", number / 256 % 256, number % 256)).collect(),
        vec!["::/0".to_owned(); 200_000],
        vec![format!("192.0.2.0/24{}", " ".repeat(1_400_000))],
    ] {
        let entries = ranges.len();
        let kept = kept_of(60_000, ranges);
        assert!(size(&kept) < 45_000, "{} bytes", size(&kept));
        let refused = SourceRanges::of(&kept).expect_err("refused").to_string();
        assert!(refused.contains(&format!("({entries} entries, ")), "{refused}");
        assert!(refused.contains("name at most 1024"), "{refused}");
        assert_eq!(kept.spec.unwrap().external_ips.unwrap().len(), MAX_EXTERNAL_IPS + 1, "there are more");
    }
}

#[test]
fn of_a_node_the_address_that_kubelet_hands_over_is_kept_and_of_others_what_is_named() {
    let annotations: Value =
        json!({ ANNOTATION_PROVIDED_NODE_IP: "192.0.2.1", "note": "x", "windlass.dev/allow-move": "true" });
    let body = json!({ "metadata": { "name": "n1", "annotations": annotations, "labels": { "a": "b" } } });
    let mut kept: Node = serde_json::from_value(body).expect("a Node");
    let before = kept.metadata.clone();
    node(&mut kept);
    assert_eq!(
        kept.metadata.annotations,
        Some(annotated([(ANNOTATION_PROVIDED_NODE_IP, "192.0.2.1".to_owned())]))
    );
    assert_eq!(kept.metadata.labels, before.labels);

    let mut named = before.clone();
    metadata(&mut named, &["windlass.dev/allow-move"]);
    assert_eq!(named.annotations, Some(annotated([("windlass.dev/allow-move", "true".to_owned())])));
    let mut none = before;
    metadata(&mut none, &[]);
    assert_eq!(none.annotations, None);
}
