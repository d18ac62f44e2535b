//! The whole controller, when a step of an ensure or of a clean-up fails: what is told, in the words of service-contract §1.3,
//! and how often.

use serde_json::json;

use super::rig::{DELETED, DELETING, ENSURED, ENSURING, FINALIZER, Rig, WEB, rejected};
use crate::fake::{Method, ready, with_ip};
use crate::provider::{Ensured, ProviderError};
use crate::testing::apiserver::ApiServer;
use crate::testing::{lb, with};

fn failed(message: &str) -> String {
    format!("Warning SyncLoadBalancerFailed Error syncing load balancer: {message}")
}

/// How often an event was counted that had been written before.
fn repetitions(api: &ApiServer) -> usize {
    api.writes().iter().filter(|write| write.verb == "patch" && write.path.starts_with("events/")).count()
}

// shows: ccm-contract S-12
#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_say_whether_there_is_anything_keeps_the_finalizer_s_12() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.provider.fail_next(Method::Get, [ProviderError::Transient("no answer".to_owned())]);
    rig.api.delete(WEB);
    rig.until_event(DELETED).await;
    let told = failed("failed to check if load balancer exists before cleanup: no answer");
    assert_eq!(rig.api.events(), [ENSURING, ENSURED, told.as_str(), DELETING, DELETED]);
}

// shows: ccm-contract S-12
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_cannot_be_removed_is_told_of_and_tried_again_s_12() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.api.fail("patch", WEB, 500);
    rig.api.delete(WEB);
    rig.api.until("the Service to be gone", |api| api.get(WEB).is_none()).await;
    rig.until_event(DELETED).await;
    let told = failed("failed to remove load balancer cleanup finalizer: fault 500");
    assert_eq!(rig.api.events(), [ENSURING, ENSURED, DELETING, told.as_str(), DELETED]);
}

// shows: ccm-contract S-13
#[tokio::test(start_paused = true)]
async fn attempts_at_one_wish_are_announced_once() {
    let rig = Rig::new([]);
    rig.api.delete("nodes//n1");
    rig.provider.next_ensure((0..4).map(|_| Err(rejected("full"))));
    rig.api.put(lb("web"));
    rig.until_event(ENSURED).await;
    let warning = "Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer";
    let told = failed("failed to ensure load balancer: full");
    assert_eq!(rig.api.events(), [ENSURING, warning, told.as_str(), ENSURED]);
    assert_eq!(repetitions(&rig.api), 0, "{:?}", rig.api.writes());
}

#[tokio::test(start_paused = true)]
async fn a_status_that_could_not_be_taken_away_is_what_failed() {
    let rig = Rig::new([]);
    rig.api.fail("patch", WEB, 500);
    let refused =
        || Ok(Ensured::Refused { status: with_ip("192.0.2.9"), reason: "Lost", message: "lost".to_owned() });
    rig.provider.next_ensure([refused(), refused()]);
    rig.api.put(with(lb("web"), &json!({ "metadata": { "finalizers": [FINALIZER] } })));
    rig.until_served(WEB, "192.0.2.9").await;
    rig.until_event(&failed("failed to ensure load balancer: lost")).await;
    assert!(rig.api.events().contains(&failed("failed to update load balancer status: fault 500")));
}

#[tokio::test(start_paused = true)]
async fn a_status_refused_to_a_service_that_wants_it_is_a_failure() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.api.fail("patch", WEB, 422);
    rig.provider.next_ensure([Ok(ready("192.0.2.2"))]);
    rig.api.edit(WEB, &json!({ "metadata": { "annotations": { "a": "b" } } }));
    rig.until_event(&failed("failed to update load balancer status: fault 422")).await;
}
