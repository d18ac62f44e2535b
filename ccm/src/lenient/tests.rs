use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::core::ObjectList;
use kube::core::WatchEvent;
use serde_json::{Value, json};

use super::Lenient;
use crate::testing::{lb, node, with};

fn read<K: serde::de::DeserializeOwned>(value: &Value) -> K {
    serde_json::from_str::<Lenient<K>>(&value.to_string()).expect("an object").read().expect("readable")
}

#[test]
fn every_time_that_the_api_server_can_hold_is_read() {
    let times = [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z".parse().expect("a time")),
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z".parse().expect("a time")),
        ("9999-12-31T23:59:59Z", Timestamp::MAX),
        // What Go makes of the last day of 9999 west of Greenwich, and of the first of the year 0 east of it.
        ("10000-01-01T11:59:59Z", Timestamp::MAX),
        ("-001-12-31T10:00:00Z", Timestamp::UNIX_EPOCH),
    ];
    for (text, time) in times {
        let condition = json!({ "type": "Ready", "status": "True", "lastHeartbeatTime": text });
        let found: Node = read(&with(
            node("n1"),
            &json!({
                "metadata": { "creationTimestamp": text, "managedFields": [{ "manager": "m", "time": text }] },
                "spec": { "taints": [{ "key": "k", "effect": "NoSchedule", "timeAdded": text }] },
                "status": { "conditions": [condition] },
            }),
        ));
        assert_eq!(found.metadata.creation_timestamp.expect("kept").0, time, "{text}");
        let conditions = found.status.expect("a status").conditions.expect("conditions");
        assert_eq!(conditions[0].last_heartbeat_time.as_ref().expect("kept").0, time, "{text}");
        let lease: Lease = read(&json!({ "metadata": { "name": "l" }, "spec": { "renewTime": text } }));
        assert_eq!(lease.spec.expect("a spec").renew_time.expect("kept").0, time, "{text}");
    }
}

#[test]
fn what_looks_like_a_time_in_a_users_text_stays_as_it_is() {
    let service: Service = read(&with(
        lb("web"),
        &json!({
            "metadata": { "annotations": { "lastTransitionTime": "9999-12-31T23:59:59Z" } },
            "spec": { "selector": { "buildTime": "2026" } },
            "status": { "conditions": [{ "type": "x", "status": "True", "reason": "r", "message": "",
                                         "lastTransitionTime": "9999-12-31T23:59:59Z" }] },
        }),
    ));
    assert_eq!(service.metadata.annotations.expect("kept")["lastTransitionTime"], "9999-12-31T23:59:59Z");
    assert_eq!(service.spec.expect("a spec").selector.expect("kept")["buildTime"], "2026");
}

#[test]
fn a_condition_without_a_time_is_read() {
    // So Go writes its zero time, the year 1.
    let condition =
        json!({ "type": "x", "status": "True", "reason": "r", "message": "", "lastTransitionTime": null });
    let service: Service = read(&with(lb("web"), &json!({ "status": { "conditions": [condition] } })));
    assert_eq!(service.status.expect("a status").conditions.expect("conditions").len(), 1);
}

#[test]
fn one_object_of_a_list_that_does_not_decode_leaves_the_others() {
    let list = json!({
        "kind": "ServiceList", "apiVersion": "v1", "metadata": { "resourceVersion": "7" },
        "items": [lb("a"), with(lb("b"), &json!({ "spec": { "ports": "none" } })), lb("c")],
    });
    let list: ObjectList<Lenient<Service>> = serde_json::from_str(&list.to_string()).expect("a list");
    let read: Vec<_> = list.items.into_iter().map(Lenient::read).collect();
    assert!(read[0].is_ok() && read[2].is_ok());
    let unreadable = read[1].as_ref().expect_err("ports are a list");
    assert_eq!(unreadable.metadata.name.as_deref(), Some("b"));
    assert!(unreadable.reason.contains("none"), "{}", unreadable.reason);
}

#[test]
fn an_event_of_a_watch_is_read() {
    let object = with(node("n1"), &json!({ "metadata": { "creationTimestamp": "9999-12-31T23:59:59Z" } }));
    let line = format!(r#"{{"type":"ADDED","object":{object}}}"#);
    let event: WatchEvent<Lenient<Node>> = serde_json::from_str(&line).expect("an event");
    assert!(matches!(event, WatchEvent::Added(node) if node.clone().read().is_ok()));
}

#[test]
fn what_has_no_name_is_no_object() {
    for garbage in ["1", "[]", "\"text\"", r#"{"metadata":{"name":7}}"#, "{"] {
        serde_json::from_str::<Lenient<Service>>(garbage).expect_err(garbage);
    }
}
