use k8s_openapi::api::core::v1::LoadBalancerStatus;
use serde_json::{Value, json};

use crate::service::patch::{
    add_finalizer, both, remove_finalizers, same_status, set_status, with_defaults, without,
};
use crate::testing::{lb, service, with};

fn finalizers(list: &[&str]) -> k8s_openapi::api::core::v1::Service {
    service(with(lb("web"), &json!({ "metadata": { "finalizers": list } })))
}

fn status(ingress: &Value) -> LoadBalancerStatus {
    serde_json::from_value(json!({ "ingress": ingress })).expect("a status")
}

fn showing(ingress: &Value) -> k8s_openapi::api::core::v1::Service {
    service(with(lb("web"), &json!({ "status": { "loadBalancer": { "ingress": ingress } } })))
}

// shows: ccm-contract 69, 70, 155, 157, S-19
#[test]
fn adding_a_finalizer_69_70_157() {
    assert_eq!(add_finalizer(&finalizers(&["foo", "bar"]), "bar"), None, "69");
    assert_eq!(
        add_finalizer(&finalizers(&["foo"]), "bar"),
        Some(json!({ "metadata": { "$setElementOrder/finalizers": ["foo", "bar"], "finalizers": ["bar"] } })),
        "157"
    );
    assert_eq!(
        add_finalizer(&finalizers(&[]), "bar"),
        Some(json!({ "metadata": { "$setElementOrder/finalizers": ["bar"], "finalizers": ["bar"] } })),
        "70"
    );
}

// shows: ccm-contract 71, 72, S-19
#[test]
fn removing_a_finalizer_71_72() {
    assert_eq!(remove_finalizers(&finalizers(&["foo"]), &["bar"]), None, "71");
    assert_eq!(
        remove_finalizers(&finalizers(&["foo", "bar"]), &["bar"]),
        Some(json!({ "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["bar"], "$setElementOrder/finalizers": ["foo"]
        } })),
        "72"
    );
    assert_eq!(
        remove_finalizers(&finalizers(&["bar"]), &["bar"]),
        Some(json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["bar"] } })),
        "72, the last one: one that another controller adds meanwhile stays"
    );
}

// shows: ccm-contract 73 to 76, 156, S-15
#[test]
fn writing_the_status_73_to_76() {
    let one = json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]);
    assert_eq!(set_status(&showing(&one), &status(&one)), None, "73");
    assert_eq!(
        set_status(&showing(&json!(null)), &status(&one)),
        Some(json!({ "status": { "loadBalancer": { "ingress": one } } })),
        "74"
    );
    assert_eq!(set_status(&showing(&json!([])), &LoadBalancerStatus::default()), None, "75");
    assert_eq!(
        set_status(&showing(&one), &LoadBalancerStatus::default()),
        Some(json!({ "status": { "loadBalancer": { "ingress": null } } })),
        "76"
    );
}

// shows: ccm-contract 158 to 166, S-15, S-32
#[test]
fn equality_of_statuses_158_to_166() {
    let port = |protocol: &str| json!([{ "port": 80, "protocol": protocol }]);
    let rows = [
        ("158 empty", json!(null), json!([]), true),
        ("159 same IP", json!([{ "ip": "192.0.2.1" }]), json!([{ "ip": "192.0.2.1" }]), true),
        ("160 other IP", json!([{ "ip": "192.0.2.1" }]), json!([{ "ip": "192.0.2.2" }]), false),
        (
            "161 same mode",
            json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]),
            json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]),
            true,
        ),
        (
            "162 mode on one side",
            json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]),
            json!([{ "ip": "192.0.2.1" }]),
            false,
        ),
        (
            "163 other mode",
            json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]),
            json!([{ "ip": "192.0.2.1", "ipMode": "Proxy" }]),
            false,
        ),
        (
            "164 same ports",
            json!([{ "ip": "192.0.2.1", "ports": port("TCP") }]),
            json!([{ "ip": "192.0.2.1", "ports": port("TCP") }]),
            true,
        ),
        (
            "165 other protocol",
            json!([{ "ip": "192.0.2.1", "ports": port("TCP") }]),
            json!([{ "ip": "192.0.2.1", "ports": port("UDP") }]),
            false,
        ),
        (
            "166 ports or none",
            json!([{ "ip": "192.0.2.1", "ports": port("TCP") }]),
            json!([{ "ip": "192.0.2.1" }]),
            false,
        ),
        ("host name", json!([{ "hostname": "a.example" }]), json!([{ "hostname": "b.example" }]), false),
        (
            "one more",
            json!([{ "ip": "192.0.2.1" }]),
            json!([{ "ip": "192.0.2.1" }, { "ip": "2001:db8::1" }]),
            false,
        ),
    ];
    for (what, one, other, expected) in rows {
        assert_eq!(same_status(&status(&one), &status(&other)), expected, "{what}");
    }
}

#[test]
fn an_address_without_mode_gets_the_api_servers_default_299_to_301() {
    let rows = [(json!(null), json!("VIP")), (json!("VIP"), json!("VIP")), (json!("Proxy"), json!("Proxy"))];
    for (given, stored) in rows {
        let filled = with_defaults(status(&json!([{ "ip": "192.0.2.1", "ipMode": given }])));
        assert_eq!(serde_json::to_value(filled).expect("JSON")["ingress"][0]["ipMode"], stored, "{given}");
    }
    let host = with_defaults(status(&json!([{ "hostname": "a.example" }])));
    assert_eq!(
        serde_json::to_value(host).expect("JSON"),
        json!({ "ingress": [{ "hostname": "a.example" }] })
    );
}

// shows: allocation 54, 55, 114
#[test]
fn entries_of_others_stay_in_their_order() {
    let [ours, host, theirs] =
        [json!({ "ip": "192.0.2.1" }), json!({ "hostname": "a.example" }), json!({ "ip": "10.0.0.1" })];
    let shown = showing(&json!([host, ours, theirs]));
    let left = without(&shown, |entry| entry.ip.as_deref() == Some("192.0.2.1"));
    assert_eq!(left, status(&json!([host, theirs])));
    assert!(without(&showing(&json!(null)), |_| false).ingress.is_some_and(|left| left.is_empty()));
}

#[test]
fn two_changes_of_the_status_are_one_patch() {
    let ingress = json!({ "status": { "loadBalancer": { "ingress": null } } });
    let conditions = json!({ "status": { "conditions": [{ "type": "A" }] } });
    let together =
        json!({ "status": { "loadBalancer": { "ingress": null }, "conditions": [{ "type": "A" }] } });
    assert_eq!(both(Some(ingress.clone()), Some(conditions.clone())), Some(together));
    assert_eq!(both(Some(ingress.clone()), None), Some(ingress));
    assert_eq!(both(None, Some(conditions.clone())), Some(conditions));
    assert_eq!(both(None, None), None);
}
