use serde_json::json;

use super::*;

#[test]
fn what_the_service_controller_sees_to_is_no_orphan() {
    let finalizer = "service.kubernetes.io/load-balancer-cleanup";
    let rows = [
        ("u", "LoadBalancer", None, false),
        ("u", "LoadBalancer", Some(finalizer), false),
        ("u", "ClusterIP", Some(finalizer), false),
        ("u", "ClusterIP", None, true),
        ("u", "ClusterIP", Some("windlass.dev/load-balancer-cleanup"), false),
        ("u", "ClusterIP", Some("example.org/other"), true),
        ("u", "ClusterIP", Some("example.org/load-balancer-cleanup"), true),
        ("made-anew", "LoadBalancer", Some(finalizer), true),
    ];
    let owner = ServiceRef { namespace: "ns".into(), name: "web".into(), uid: "u".into() };
    for (uid, type_, finalizer, orphaned) in rows {
        let service: Service = serde_json::from_value(json!({
            "metadata": { "namespace": "ns", "name": "web", "uid": uid,
                          "finalizers": finalizer.map(|name| vec![name]) },
            "spec": { "type": type_ },
        }))
        .expect("a Service");
        assert_eq!(
            is_orphaned(&owner, Some(&service), Settings::default()),
            orphaned,
            "{uid} {type_} {finalizer:?}"
        );
    }
    assert!(is_orphaned(&owner, None, Settings::default()));
    // It took a foreign class while no controller ran: the standard finalizer is that controller's now.
    let service: Service = serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": "web", "uid": "u",
                      "finalizers": ["service.kubernetes.io/load-balancer-cleanup"] },
        "spec": { "type": "LoadBalancer", "loadBalancerClass": "example.org/other" },
    }))
    .expect("a Service");
    assert!(is_orphaned(&owner, Some(&service), Settings::default()));
}
