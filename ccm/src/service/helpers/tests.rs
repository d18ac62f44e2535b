use serde_json::json;

use super::*;
use crate::testing::{lb, service, with};

// shows: ccm-contract 154
#[test]
fn only_local_load_balancers_need_a_health_check_154() {
    for (type_, policy, local, check) in [
        ("LoadBalancer", "Local", true, true),
        ("LoadBalancer", "Cluster", false, false),
        ("NodePort", "Local", true, false),
        ("NodePort", "Cluster", false, false),
        ("ClusterIP", "Local", false, false),
    ] {
        let spec = json!({ "spec": { "type": type_, "externalTrafficPolicy": policy } });
        let service = service(with(lb("web"), &spec));
        let got = (keeps_traffic_local(&service), needs_health_check(&service));
        assert_eq!(got, (local, check), "{type_} {policy}");
    }
    let bare = Service::default();
    assert_eq!((keeps_traffic_local(&bare), needs_health_check(&bare)), (false, false), "without a spec");
}

// shows: ccm-contract S-17
#[test]
fn a_load_balancer_is_named_after_the_uid_s_17() {
    let mut service = service(lb("web"));
    service.metadata.uid = Some("5a4a9b60-0d0b-4a8b-9a3c-1234567890ab".to_owned());
    let name = default_load_balancer_name(&service);
    assert_eq!(name.as_deref(), Some("a5a4a9b600d0b4a8b9a3c1234567890a"), "32 characters");
    service.metadata.uid = None;
    assert_eq!(default_load_balancer_name(&service), None);
}
