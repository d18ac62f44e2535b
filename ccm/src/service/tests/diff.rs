use serde_json::{Value, json};

use crate::service::diff::needs_update;
use crate::service::select::wants_lb;
use crate::testing::{lb, service, with};

fn differs(old: Value, new: Value) -> bool {
    needs_update(&service(old), &service(new), |service| wants_lb(service, |class| class.is_none()))
}

fn port(field: &str, value: &Value) -> Value {
    let mut port = lb("web")["spec"]["ports"][0].clone();
    port[field] = value.clone();
    json!({ "spec": { "ports": [port] } })
}

// shows: ccm-contract 35, 48 to 62, S-10, S-11
#[test]
fn these_changes_matter_48_to_62() {
    let unchanged = json!({});
    let rows: Vec<(&str, Value, Value)> = vec![
        ("48 type", unchanged.clone(), json!({ "spec": { "type": "ClusterIP" } })),
        ("49 ports: another number", unchanged.clone(), port("port", &json!(81))),
        ("49 ports: one less", unchanged.clone(), json!({ "spec": { "ports": [] } })),
        ("port name", unchanged.clone(), port("name", &json!("web"))),
        ("protocol", unchanged.clone(), port("protocol", &json!("UDP"))),
        ("nodePort", unchanged.clone(), port("nodePort", &json!(30081))),
        ("50 externalIPs: count", unchanged.clone(), json!({ "spec": { "externalIPs": ["198.51.100.1"] } })),
        (
            "51 externalIPs: value",
            json!({ "spec": { "externalIPs": ["198.51.100.1"] } }),
            json!({ "spec": { "externalIPs": ["198.51.100.2"] } }),
        ),
        ("52 UID", unchanged.clone(), json!({ "metadata": { "uid": "another" } })),
        (
            "53 externalTrafficPolicy",
            unchanged.clone(),
            json!({ "spec": { "externalTrafficPolicy": "Local" } }),
        ),
        ("54 healthCheckNodePort", unchanged.clone(), json!({ "spec": { "healthCheckNodePort": 30123 } })),
        ("55 targetPort: number", unchanged.clone(), port("targetPort", &json!(21))),
        ("56 targetPort: name", unchanged.clone(), port("targetPort", &json!("web"))),
        ("58 ipFamilies: 1 to 2", unchanged.clone(), json!({ "spec": { "ipFamilies": ["IPv4", "IPv6"] } })),
        ("59 ipFamilies: 2 to 1", json!({ "spec": { "ipFamilies": ["IPv4", "IPv6"] } }), unchanged.clone()),
        ("61 appProtocol: set", unchanged.clone(), port("appProtocol", &json!("http"))),
        ("62 appProtocol: changed", port("appProtocol", &json!("http")), port("appProtocol", &json!("tcp"))),
        ("loadBalancerIP", unchanged.clone(), json!({ "spec": { "loadBalancerIP": "192.0.2.9" } })),
        (
            "annotation",
            unchanged.clone(),
            json!({ "metadata": { "annotations": { "windlass.dev/pool": "b" } } }),
        ),
        ("sessionAffinity", unchanged.clone(), json!({ "spec": { "sessionAffinity": "ClientIP" } })),
        (
            "sessionAffinityConfig",
            unchanged.clone(),
            json!({ "spec": { "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } } } }),
        ),
        (
            "order of source ranges",
            json!({ "spec": { "loadBalancerSourceRanges": ["192.0.2.0/24", "198.51.100.0/24"] } }),
            json!({ "spec": { "loadBalancerSourceRanges": ["198.51.100.0/24", "192.0.2.0/24"] } }),
        ),
        (
            "class of another controller",
            unchanged.clone(),
            json!({ "spec": { "loadBalancerClass": "example.com/lb" } }),
        ),
    ];
    for (what, old, new) in rows {
        assert!(differs(with(lb("web"), &old), with(lb("web"), &new)), "{what}");
    }
}

// shows: ccm-contract 48 to 62, S-10, S-11
#[test]
fn these_changes_do_not_matter_57_60_and_s_11() {
    let rows: Vec<(&str, Value)> = vec![
        ("57, 60 nothing", json!({})),
        ("selector", json!({ "spec": { "selector": { "app": "web" } } })),
        ("labels", json!({ "metadata": { "labels": { "a": "b" } } })),
        ("finalizers", json!({ "metadata": { "finalizers": ["a/b"] } })),
        ("internalTrafficPolicy", json!({ "spec": { "internalTrafficPolicy": "Local" } })),
        ("trafficDistribution", json!({ "spec": { "trafficDistribution": "PreferClose" } })),
        ("ipFamilyPolicy", json!({ "spec": { "ipFamilyPolicy": "SingleStack" } })),
        ("which family", json!({ "spec": { "ipFamilies": ["IPv6"] } })),
        ("clusterIP", json!({ "spec": { "clusterIP": "198.51.100.7" } })),
        ("publishNotReadyAddresses", json!({ "spec": { "publishNotReadyAddresses": true } })),
        ("allocateLoadBalancerNodePorts", json!({ "spec": { "allocateLoadBalancerNodePorts": false } })),
        ("status", json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } })),
        (
            "empty instead of absent",
            json!({ "metadata": { "annotations": {} }, "spec": { "externalIPs": [] } }),
        ),
    ];
    for (what, change) in rows {
        assert!(!differs(lb("web"), with(lb("web"), &change)), "{what}");
    }
}

#[test]
fn a_service_that_never_wanted_one_does_not_matter() {
    let old = with(lb("web"), &json!({ "spec": { "type": "ClusterIP" } }));
    let new = with(old.clone(), &json!({ "metadata": { "annotations": { "a": "b" } } }));
    assert!(!differs(old, new));
}
