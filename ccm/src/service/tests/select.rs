use serde_json::{Value, json};

use crate::service::ServiceOptions;
use crate::service::select::{
    Operation, finalizer_for, is_reconciled, needs_cleanup, operation, own_finalizers, wants_lb,
};
use crate::testing::{lb, service, with};

const STANDARD: &str = "service.kubernetes.io/load-balancer-cleanup";
const OWN: &str = "cloud-provider/load-balancer-cleanup";

fn classless(class: Option<&str>) -> bool {
    class.is_none()
}

fn ours(class: Option<&str>) -> bool {
    class.is_none() || class == Some("windlass.dev/vip")
}

fn class_only(class: Option<&str>) -> bool {
    class == Some("windlass.dev/vip")
}

fn cluster_ip() -> Value {
    json!({ "spec": { "type": "ClusterIP" } })
}

fn finalizer(name: &str) -> Value {
    json!({ "metadata": { "finalizers": [name] } })
}

fn deleted() -> Value {
    json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })
}

fn class(name: &str) -> Value {
    json!({ "spec": { "loadBalancerClass": name } })
}

fn changed(changes: &[Value]) -> k8s_openapi::api::core::v1::Service {
    service(changes.iter().fold(lb("web"), with))
}

// shows: ccm-contract S-01
#[test]
fn wants_a_load_balancer_by_type_and_class() {
    // S-01; 5.
    let rows: [(&str, &[Value], bool, bool); 5] = [
        ("classless", &[], true, true),
        ("ClusterIP", &[cluster_ip()], false, false),
        ("our class", &[class("windlass.dev/vip")], false, true),
        ("a foreign class", &[class("example.com/lb")], false, false),
        ("being deleted", &[deleted()], true, true),
    ];
    for (what, changes, default, classed) in rows {
        assert_eq!(wants_lb(&changed(changes), classless), default, "{what}, classless provider");
        assert_eq!(wants_lb(&changed(changes), ours), classed, "{what}, provider with a class");
    }
}

// shows: ccm-contract 43 to 46, S-02
#[test]
fn needs_cleanup_43_to_46() {
    let rows: [(&str, &[Value], bool); 8] = [
        ("43 no finalizer", &[], false),
        (
            "44 NodePort with finalizer",
            &[finalizer(STANDARD), json!({ "spec": { "type": "NodePort" } })],
            true,
        ),
        ("45 load balancer with finalizer", &[finalizer(STANDARD)], false),
        ("46 deleted with finalizer", &[finalizer(STANDARD), deleted()], true),
        ("deleted without finalizer", &[deleted()], false),
        (
            "S-07 foreign class with standard finalizer",
            &[class("example.com/lb"), finalizer(STANDARD), deleted()],
            false,
        ),
        ("our class, our finalizer", &[class("windlass.dev/vip"), finalizer(OWN), deleted()], true),
        ("class gone with the type", &[cluster_ip(), finalizer(OWN)], true),
    ];
    for (what, changes, expected) in rows {
        let options = ServiceOptions::default();
        assert_eq!(needs_cleanup(&changed(changes), ours, &options), expected, "{what}");
    }
}

// shows: ccm-contract 40, S-02
#[test]
fn need_is_decided_by_type_deletion_finalizer_and_memory() {
    let rows: [(&str, &[Value], bool, Operation); 9] = [
        ("2-4 load balancer", &[], false, Operation::Ensure),
        ("1 ClusterIP", &[cluster_ip()], false, Operation::Nothing),
        ("5 foreign class", &[class("example.com/lb")], false, Operation::Nothing),
        ("6 ClusterIP with finalizer", &[cluster_ip(), finalizer(STANDARD)], false, Operation::Cleanup),
        ("7 deleted with finalizer", &[finalizer(STANDARD), deleted()], false, Operation::Cleanup),
        ("8 load balancer with finalizer", &[finalizer(STANDARD)], false, Operation::Ensure),
        (
            "S-08 deleted, held by another finalizer",
            &[finalizer("example.com/hold"), deleted()],
            false,
            Operation::Nothing,
        ),
        ("S-08, but we made one", &[finalizer("example.com/hold"), deleted()], true, Operation::Cleanup),
        ("ClusterIP, finalizer lost, but we made one", &[cluster_ip()], true, Operation::Cleanup),
    ];
    for (what, changes, known, expected) in rows {
        let options = ServiceOptions::default();
        assert_eq!(operation(&changed(changes), known, ours, &options), expected, "{what}");
    }
}

#[test]
fn classed_services_have_their_own_finalizer() {
    let options = ServiceOptions::default();
    assert_eq!(finalizer_for(&changed(&[]), &options), STANDARD);
    assert_eq!(finalizer_for(&changed(&[class("windlass.dev/vip")]), &options), OWN);
}

#[test]
fn only_own_finalizers_are_ours_to_remove() {
    let options = ServiceOptions::default();
    let both = json!({ "metadata": { "finalizers": ["example.com/hold", STANDARD, OWN] } });
    assert_eq!(own_finalizers(&changed(std::slice::from_ref(&both)), false, ours, &options), [STANDARD, OWN]);
    assert_eq!(
        own_finalizers(&changed(&[both.clone(), class("windlass.dev/vip")]), true, ours, &options),
        [OWN]
    );
    let both = changed(&[both]);
    assert_eq!(own_finalizers(&both, false, class_only, &options), [OWN], "classless is another's");
    assert_eq!(own_finalizers(&both, true, class_only, &options), [STANDARD, OWN], "unless we made it");
}

#[test]
fn a_provider_that_serves_its_class_only_asks_before_it_touches_a_classless_service() {
    let rows: [(&str, &[Value], Operation); 6] = [
        ("no finalizer", &[], Operation::Nothing),
        ("served by somebody", &[finalizer(STANDARD)], Operation::Check),
        ("served by somebody, deleted", &[finalizer(STANDARD), deleted()], Operation::Check),
        ("no load balancer any more", &[finalizer(STANDARD), cluster_ip()], Operation::Check),
        ("a foreign class", &[finalizer(STANDARD), class("example.com/lb")], Operation::Nothing),
        ("our finalizer", &[finalizer(OWN)], Operation::Cleanup),
    ];
    for (what, changes, expected) in rows {
        let options = ServiceOptions::default();
        assert_eq!(operation(&changed(changes), false, class_only, &options), expected, "{what}");
    }
}

#[test]
fn a_controller_that_knows_of_none_sees_to_what_wants_a_load_balancer_and_to_what_a_finalizer_tells_of() {
    // Of classless Services and our class; of our class only.
    let rows: [(&str, &[Value], bool, bool); 6] = [
        ("load balancer", &[], true, false),
        ("load balancer of our class", &[class("windlass.dev/vip")], true, true),
        ("load balancer of a foreign class", &[class("example.com/lb")], false, false),
        ("ClusterIP", &[cluster_ip()], false, false),
        ("ClusterIP with our finalizer", &[cluster_ip(), finalizer(OWN)], true, true),
        ("ClusterIP with the finalizer of all", &[cluster_ip(), finalizer(STANDARD)], true, true),
    ];
    for (what, changes, both, class) in rows {
        let options = ServiceOptions::default();
        assert_eq!(is_reconciled(&changed(changes), ours, &options), both, "{what}");
        assert_eq!(is_reconciled(&changed(changes), class_only, &options), class, "{what}, our class only");
    }
}
