//! The whole controller with a provider that has a condition: what a Service shows, and in how many writes.

use std::time::Duration;

use k8s_openapi::api::core::v1::LoadBalancerStatus;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::rig::{ENSURED, FINALIZER, Rig, WEB, finalizers, ingress, key, pending, rejected, to_cluster_ip};
use crate::fake::{FakeProvider, ready};
use crate::provider::{Ensured, ProviderError};
use crate::service::jobs::PENDING_GRACE_PERIOD;
use crate::testing::apiserver::ApiServer;
use crate::testing::{lb, with};

const TYPE: &str = "example.com/Given";

fn telling(services: impl IntoIterator<Item = Value>) -> Rig {
    Rig::with_provider(FakeProvider::default().with_condition(TYPE), services)
}

/// `status reason: message` of the condition.
fn told(api: &ApiServer) -> Option<String> {
    let service = api.get(WEB)?;
    let conditions = service["status"]["conditions"].as_array()?.clone();
    let ours = conditions.into_iter().find(|condition| condition["type"] == TYPE)?;
    let text = |field: &str| ours[field].as_str().unwrap_or_default().to_owned();
    Some(format!("{} {}: {}", text("status"), text("reason"), text("message")))
}

fn foreign() -> Value {
    json!({ "type": "example.com/Other", "status": "True", "reason": "R", "message": "theirs",
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
}

fn finalized(changes: &Value) -> Value {
    with(with(lb("web"), &json!({ "metadata": { "finalizers": [FINALIZER] } })), changes)
}

// shows: ccm-contract C-01
#[tokio::test(start_paused = true)]
async fn address_and_condition_are_one_write_and_a_restart_writes_neither() {
    let mut rig = telling([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.until_event(ENSURED).await;
    assert_eq!(rig.writes().len(), 2, "finalizer, status: {:?}", rig.writes());
    assert_eq!(told(&rig.api).as_deref(), Some("True Given: it has 192.0.2.1"));
    rig.idle().await;
    rig.api.take_writes();
    rig.provider.take_calls();
    rig.restart().await;
    rig.api.until("the Service ensured again", |_| rig.provider.calls().len() == 1).await;
    rig.idle().await;
    assert_eq!(rig.api.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_condition_alone_is_written_without_events() {
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1", "ipMode": "VIP" }] },
                                     "conditions": [foreign()] } });
    let rig = telling([finalized(&status)]);
    rig.api.until("the condition", |api| told(api).is_some()).await;
    rig.idle().await;
    assert_eq!(rig.api.events(), [""; 0]);
    assert_eq!(rig.writes().len(), 1);
    let conditions = rig.api.get(WEB).expect("web")["status"]["conditions"].clone();
    assert_eq!(conditions[0], foreign(), "another's stays");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_shown_once_and_corrected_with_the_address() {
    let rig = telling([]);
    let full = |message: &str| Err(rejected(message));
    rig.provider.next_ensure([full("a: full"), full("a: full"), full("a, b: full"), Ok(ready("192.0.2.3"))]);
    rig.api.put(lb("web"));
    rig.api.until("the rejection", |api| told(api).as_deref() == Some("False Full: a: full")).await;
    let since =
        |api: &ApiServer| api.get(WEB).expect("web")["status"]["conditions"][0]["lastTransitionTime"].clone();
    let first = since(&rig.api);
    rig.api.until("the other words", |api| told(api).as_deref() == Some("False Full: a, b: full")).await;
    assert_eq!(since(&rig.api), first);
    assert_eq!(rig.writes().len(), 3, "finalizer and two conditions in three attempts: {:?}", rig.writes());
    rig.until_served(WEB, "192.0.2.3").await;
    assert_eq!(told(&rig.api).as_deref(), Some("True Given: it has 192.0.2.3"));
    assert_eq!(rig.writes().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_a_refusal_takes_away_is_shown_no_longer_in_one_write_and_the_attempt_failed() {
    let rig = telling([]);
    let refused = Ensured::Refused {
        status: LoadBalancerStatus::default(),
        reason: "Full",
        message: "another has it".to_owned(),
    };
    rig.provider.next_ensure([Ok(ready("192.0.2.3")), Ok(refused), Ok(ready("192.0.2.4"))]);
    rig.api.put(lb("web"));
    rig.until_served(WEB, "192.0.2.3").await;
    rig.api.take_writes();
    rig.api.edit(WEB, &json!({ "spec": { "sessionAffinity": "ClientIP" } }));
    rig.api.until("the refusal", |api| told(api).as_deref() == Some("False Full: another has it")).await;
    assert_eq!(ingress(&rig.api, WEB), None);
    assert_eq!(rig.writes().len(), 1, "{:?}", rig.writes());
    // It failed, and is tried again.
    rig.until_served(WEB, "192.0.2.4").await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_tells_no_rejection_again_that_the_service_shows() {
    let mut rig = telling([]);
    rig.provider.next_ensure([Err(rejected("full"))]);
    rig.api.put(lb("web"));
    rig.api.until("the rejection", |api| told(api).as_deref() == Some("False Full: full")).await;
    // Less than the first back-off.
    tokio::time::sleep(Duration::from_secs(3)).await;
    rig.api.take_writes();
    rig.provider.take_calls();
    rig.provider.next_ensure([Err(rejected("full")), Err(rejected("full")), Err(rejected("fuller"))]);
    rig.restart().await;
    rig.api.until("two attempts", |_| rig.provider.calls().len() == 2).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(rig.api.writes(), [], "it was said before");
    rig.api.until("the other words", |api| told(api).as_deref() == Some("False Full: fuller")).await;
    rig.until_event(
        "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: fuller",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_work_is_told_as_a_failure_while_the_condition_holds() {
    let rig = telling([]);
    let blocked = ProviderError::Blocked { reason: "NoRoute", message: "no node is near".to_owned() };
    rig.provider.next_ensure([Err(blocked)]);
    rig.api.put(lb("web"));
    rig.until_event(
        "Warning SyncLoadBalancerFailed Error syncing load balancer: \
         failed to ensure load balancer: no node is near",
    )
    .await;
    assert_eq!(told(&rig.api).as_deref(), Some("True NoRoute: no node is near"));
}

#[tokio::test(start_paused = true)]
async fn errors_that_say_nothing_of_the_request_leave_the_condition() {
    let rig = telling([]);
    let later = ProviderError::RetryAfter { after: Duration::from_secs(1), reason: "booting".to_owned() };
    let transient = ProviderError::Transient("no answer".to_owned());
    rig.provider.next_ensure([Err(rejected("full")), Err(later), Err(transient)]);
    rig.api.put(lb("web"));
    rig.api.until("three attempts", |_| rig.provider.calls().len() == 3).await;
    assert_eq!(told(&rig.api).as_deref(), Some("False Full: full"));
}

// shows: ccm-contract C-01
#[tokio::test(start_paused = true)]
async fn a_wait_that_has_just_begun_is_not_told_and_a_long_one_is_once() {
    let rig = telling([]);
    rig.provider.next_ensure([Ok(pending("no node yet")), Ok(pending("no node yet"))]);
    let began = Instant::now();
    rig.api.put(lb("web"));
    rig.api.until("the condition", |api| told(api).is_some()).await;
    assert!(began.elapsed() >= PENDING_GRACE_PERIOD, "{:?}", began.elapsed());
    assert_eq!(told(&rig.api).as_deref(), Some("False Waiting: no node yet"));
    rig.idle().await;
    assert_eq!(rig.provider.calls().len(), 2, "nothing polls");
    assert_eq!(rig.writes().len(), 2, "finalizer and condition");
}

#[tokio::test(start_paused = true)]
async fn a_short_wait_after_a_rejection_brings_one_write_of_address_and_condition() {
    let rig = telling([]);
    rig.provider.next_ensure([Err(rejected("full")), Ok(pending("no node yet")), Ok(ready("192.0.2.3"))]);
    rig.api.put(lb("web"));
    rig.api.until("the rejection", |api| told(api).as_deref() == Some("False Full: full")).await;
    rig.api.take_writes();
    rig.provider.changed(key("web"));
    rig.api.until("the wait", |_| rig.provider.calls().len() == 2).await;
    rig.provider.changed(key("web"));
    rig.until_served(WEB, "192.0.2.3").await;
    rig.idle().await;
    assert_eq!(rig.writes().len(), 1, "{:?}", rig.writes());
    assert_eq!(told(&rig.api).as_deref(), Some("True Given: it has 192.0.2.3"));
}

fn says_that_it_works(ingress: &Value) -> Value {
    let condition = json!({ "type": TYPE, "status": "True", "reason": "Given", "message": "it has 192.0.2.1",
                            "lastTransitionTime": "2026-01-01T00:00:00Z" });
    finalized(&json!({ "status": { "loadBalancer": { "ingress": ingress }, "conditions": [condition] } }))
}

#[tokio::test(start_paused = true)]
async fn a_wait_corrects_at_once_what_says_of_no_address_that_it_works() {
    let rig = telling([]);
    rig.provider.next_ensure([Ok(pending("no node yet"))]);
    let begun = Instant::now();
    rig.api.put(says_that_it_works(&json!([])));
    rig.api.until("the correction", |api| told(api).as_deref() == Some("False Waiting: no node yet")).await;
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_silent_for_a_moment_costs_no_write_and_one_that_stays_silent_is_said_not_to_work()
{
    let shows = json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]);
    for (what, then, expected) in [
        ("it comes back", ready("192.0.2.1"), "True Given: it has 192.0.2.1"),
        ("it stays away", pending("its node was stopped"), "False Waiting: its node was stopped"),
    ] {
        let rig = telling([]);
        rig.provider.next_ensure([Ok(pending("its node was stopped")), Ok(then.clone()), Ok(then)]);
        rig.api.put(says_that_it_works(&shows));
        rig.api.until("the wait", |_| rig.provider.calls().len() == 1).await;
        rig.provider.changed(key("web"));
        rig.api.until("the news", |_| rig.provider.calls().len() >= 2).await;
        rig.idle().await;
        assert_eq!(told(&rig.api).as_deref(), Some(expected), "{what}");
        assert_eq!(rig.writes().len(), usize::from(expected.starts_with("False")), "{what}");
        assert_eq!(ingress(&rig.api, WEB).as_deref(), Some("192.0.2.1"), "{what}: it stays in the status");
    }
}

#[tokio::test(start_paused = true)]
async fn the_condition_of_what_is_shown_says_what_the_provider_says_of_it() {
    let works = |works: bool, messages: &str| {
        let Ensured::Ready { status, reason, .. } = ready("192.0.2.3") else { panic!("ready") };
        Ok(Ensured::Ready { status, works, reason, message: messages.to_owned() })
    };
    let rig = telling([]);
    rig.provider.next_ensure([works(true, "well"), works(false, "ill"), works(true, "well again")]);
    rig.api.put(lb("web"));
    for expected in ["True Given: well", "False Given: ill", "True Given: well again"] {
        rig.api.until(expected, |api| told(api).as_deref() == Some(expected)).await;
        assert_eq!(ingress(&rig.api, WEB).as_deref(), Some("192.0.2.3"), "{expected}");
        rig.provider.changed(key("web"));
    }
    rig.idle().await;
    let failures = rig.api.events().into_iter().filter(|event| event.contains("Failed"));
    assert_eq!(failures.collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_cannot_be_written_does_not_hide_the_rejection() {
    let rig = telling([]);
    rig.provider.next_ensure([Err(rejected("full")), Err(rejected("full"))]);
    rig.api.fail("patch", WEB, 500);
    rig.api.put(finalized(&json!({})));
    let failed =
        "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: full";
    rig.until_event(failed).await;
    assert_eq!(told(&rig.api), None);
    rig.api.until("the condition at the next attempt", |api| told(api).is_some()).await;
}

// shows: ccm-contract C-01
#[tokio::test(start_paused = true)]
async fn the_condition_goes_with_the_load_balancer_and_another_stays() {
    let rig = telling([finalized(&json!({ "status": { "conditions": [foreign()] } }))]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.api.edit(WEB, &to_cluster_ip());
    rig.api.until("the condition to go", |api| told(api).is_none()).await;
    assert_eq!(finalizers(&rig.api, WEB), json!([]));
    assert_eq!(rig.api.get(WEB).expect("web")["status"]["conditions"], json!([foreign()]));
    rig.idle().await;
    assert!(!rig.api.events().iter().any(|event| event.contains("Failed")), "{:?}", rig.api.events());
}

// shows: ccm-contract S-12
#[tokio::test(start_paused = true)]
async fn entries_of_others_stay_when_the_load_balancer_goes() {
    let rig = telling([]);
    rig.provider.set_foreign("10.0.0.1");
    let [ours, theirs] = ["192.0.2.1", "10.0.0.1"].map(|ip| json!({ "ip": ip, "ipMode": "VIP" }));
    let deleted = json!({
        "metadata": { "finalizers": [FINALIZER, "example.com/hold"],
                      "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "status": { "loadBalancer": { "ingress": [ours, theirs] } }
    });
    rig.api.put(with(lb("web"), &deleted));
    rig.api.until("our entry to go", |api| ingress(api, WEB).as_deref() == Some("10.0.0.1")).await;
    assert_eq!(rig.api.get(WEB).expect("web")["status"]["loadBalancer"]["ingress"], json!([theirs]));
}
