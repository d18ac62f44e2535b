use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::service::condition::{ServiceCondition, remove};
use crate::testing::{lb, service, with};

const TYPE: &str = "example.com/Given";
const THEN: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-02-02T00:00:00Z";

fn service_condition(holds: bool, reason: &'static str, message: &str) -> ServiceCondition {
    ServiceCondition { type_: TYPE, holds, reason, message: message.to_owned() }
}

fn condition(status: &str, reason: &str, message: &str, since: &str) -> Value {
    json!({ "type": TYPE, "status": status, "reason": reason, "message": message, "lastTransitionTime": since })
}

fn showing(conditions: &[Value]) -> Service {
    service(with(lb("web"), &json!({ "status": { "conditions": conditions } })))
}

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

#[test]
fn the_condition_is_written_when_it_differs_and_its_time_changes_with_its_status_only() {
    let foreign = json!({ "type": "example.com/Other", "status": "False", "reason": "R", "message": "m",
                          "lastTransitionTime": THEN });
    let rows = [
        ("none yet", vec![], Some(NOW)),
        ("one of another", vec![foreign.clone()], Some(NOW)),
        ("the same", vec![foreign, condition("True", "Given", "it has 192.0.2.1", THEN)], None),
        ("another message", vec![condition("True", "Given", "it had 192.0.2.1", THEN)], Some(THEN)),
        ("another reason", vec![condition("True", "Waiting", "it has 192.0.2.1", THEN)], Some(THEN)),
        ("another status", vec![condition("False", "Given", "it has 192.0.2.1", THEN)], Some(NOW)),
        ("unknown", vec![condition("Unknown", "Given", "it has 192.0.2.1", THEN)], Some(NOW)),
    ];
    for (what, shown, since) in rows {
        let expected = since.map(|since| {
            json!({ "status": { "conditions": [condition("True", "Given", "it has 192.0.2.1", since)] } })
        });
        let patch = service_condition(true, "Given", "it has 192.0.2.1").patch(&showing(&shown), now());
        assert_eq!(patch, expected, "{what}");
    }
}

#[test]
fn only_a_service_that_says_that_it_works_is_belied() {
    let shown = |status: &str| showing(&[condition(status, "Other", "other words", THEN)]);
    let (works, waits) = (service_condition(true, "Given", ""), service_condition(false, "Waiting", ""));
    for service in [showing(&[]), shown("False"), shown("Unknown")] {
        assert!(!works.contradicts(&service) && !waits.contradicts(&service), "{service:?}");
    }
    assert!(waits.contradicts(&shown("True")));
    assert!(!works.contradicts(&shown("True")));
}

#[test]
fn the_condition_is_removed_if_it_is_there() {
    assert_eq!(remove(&showing(&[]), TYPE), None);
    assert_eq!(remove(&service(with(lb("web"), &json!({ "status": null }))), TYPE), None);
    assert_eq!(
        remove(&showing(&[condition("True", "Given", "", THEN)]), TYPE),
        Some(json!({ "status": { "conditions": [{ "type": TYPE, "$patch": "delete" }] } }))
    );
}

#[test]
fn a_message_that_the_api_server_would_refuse_is_cut_and_not_written_again() {
    let long = service_condition(false, "Full", &"é".repeat(40_000));
    let patch = long.patch(&showing(&[]), now()).expect("a patch");
    let written = patch["status"]["conditions"][0].clone();
    assert_eq!(written["message"].as_str().map(str::len), Some(32_768));
    assert_eq!(long.patch(&showing(&[written]), now()), None);
}
