use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::Value;

use super::{EventType, MAX_MESSAGE, Recorder, SERIES, shortened};
use crate::testing::apiserver::ApiServer;

fn web() -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some("default".to_owned()),
        name: Some("web".to_owned()),
        uid: Some("uid-web".to_owned()),
        ..ObjectReference::default()
    }
}

async fn publish(recorder: &Recorder, message: &str) {
    recorder.publish(&web(), EventType::Warning, "SyncLoadBalancerFailed", message).await.expect("an event");
}

/// Message and count of every event.
fn stored(api: &ApiServer) -> Vec<(String, i64)> {
    let names = api.writes().into_iter().filter(|write| write.verb == "create").map(|write| {
        format!("events/default/{}", write.body["metadata"]["name"].as_str().unwrap_or_default())
    });
    let events = names.filter_map(|key| api.get(&key));
    events.map(|event| (text(&event["message"]), event["count"].as_i64().unwrap_or_default())).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_counted_another_message_is_another_event() {
    let api = ApiServer::default();
    let recorder = Recorder::new(api.client(), "service-controller");
    for message in ["full", "full", "broken", "full"] {
        publish(&recorder, message).await;
    }
    assert_eq!(stored(&api), [("full".to_owned(), 3), ("broken".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_written_anew() {
    let api = ApiServer::default();
    let recorder = Recorder::new(api.client(), "service-controller");
    publish(&recorder, "full").await;
    api.fail("patch", "events/default", 404);
    publish(&recorder, "full").await;
    assert_eq!(stored(&api), [("full".to_owned(), 1), ("full".to_owned(), 1)]);
    tokio::time::sleep(SERIES).await;
    publish(&recorder, "full").await;
    assert_eq!(stored(&api).len(), 3, "and a new series begins after a while");
}

#[test]
fn long_messages_are_cut_at_a_character() {
    let long = "ä".repeat(MAX_MESSAGE);
    assert_eq!(shortened(&long, MAX_MESSAGE).len(), MAX_MESSAGE);
    let odd = format!("x{long}");
    assert_eq!(shortened(&odd, MAX_MESSAGE).len(), MAX_MESSAGE - 1);
    assert_eq!(shortened("short", MAX_MESSAGE), "short");
}
