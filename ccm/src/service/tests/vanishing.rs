//! The whole controller, with Services that go, or change their type, while it works on them.

use std::time::Duration;

use serde_json::json;

use super::rig::{
    DELETED, DELETING, ENSURED, ENSURING, FINALIZER, Rig, WEB, finalizers, ingress, to_cluster_ip,
};
use crate::fake::{FakeProvider, Method};
use crate::provider::ProviderError;
use crate::testing::faults::FaultRates;
use crate::testing::{lb, with};

/// The Service goes without its finalizer, as by the hand of a user.
fn vanish(rig: &Rig) {
    rig.api.edit(WEB, &json!({ "metadata": { "finalizers": null } }));
    rig.api.delete(WEB);
}

// shows: ccm-contract S-09, S-20
#[tokio::test(start_paused = true)]
async fn a_service_gone_without_finalizer_is_told_of_s_20_c_d_f() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    let refusal = ProviderError::Transient("agent n1 does not answer".to_owned());
    rig.provider.fail_next(Method::Delete, [refusal]);
    vanish(&rig);
    rig.until_event(DELETED).await;
    assert!(!rig.provider.has("uid-web"));
    let failed =
        "Warning DeleteLoadBalancerFailed Error deleting load balancer: agent n1 does not answer".to_owned();
    assert_eq!(
        rig.api.events(),
        [ENSURING.to_owned(), ENSURED.to_owned(), DELETING.to_owned(), failed, DELETED.to_owned()]
    );
    rig.idle().await;
    assert_eq!(rig.provider.calls().len(), 3, "ensured, and deleted at the second attempt");
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_load_balancer_of_a_vanished_service_is_left_to_them() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    let theirs = ProviderError::ImplementedElsewhere("example.com/lb".to_owned());
    rig.provider.fail_next(Method::Delete, [theirs]);
    vanish(&rig);
    rig.idle().await;
    assert_eq!(rig.provider.calls().len(), 2, "not tried again");
    assert_eq!(rig.api.events(), [ENSURING, ENSURED, DELETING]);
}

// shows: ccm-contract S-08
#[tokio::test(start_paused = true)]
async fn a_service_that_goes_before_it_has_a_finalizer_is_no_failure_s_08() {
    let hold = json!({ "metadata": { "finalizers": ["example.com/hold"] } });
    for service in [lb("web"), with(lb("web"), &hold)] {
        let rig = Rig::new([]);
        rig.idle().await;
        // The finalizer is on its way when the Service goes.
        rig.api.set_fault_rates(FaultRates { delay_ms: 10_000, ..FaultRates::default() }, 1);
        rig.api.put(service.clone());
        tokio::time::sleep(Duration::from_millis(1)).await;
        rig.api.delete(WEB);
        rig.idle().await;
        assert!(!rig.api.events().iter().any(|event| event.contains("Failed")), "{:?}", rig.api.events());
        assert!(
            rig.api.get(WEB).is_none_or(|web| web["metadata"]["finalizers"] == json!(["example.com/hold"]))
        );
        assert!(!rig.provider.has("uid-web"));
        assert_eq!(rig.writes().len(), 1, "the finalizer was tried, and refused");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_to_a_service_that_is_gone_before_the_watch_says_so_is_no_failure_s_15() {
    let rig = Rig::new([]);
    rig.api.fail("patch", WEB, 404);
    rig.api.put(lb("web"));
    // As it is there all the same, the finalizer is tried again.
    rig.until_served(WEB, "192.0.2.1").await;
    assert!(!rig.api.events().iter().any(|event| event.contains("Failed")), "{:?}", rig.api.events());

    let provider = FakeProvider::default();
    provider.delay_on(Method::Ensure, "web", Duration::from_secs(10));
    let rig = Rig::with_provider(provider, [lb("web")]);
    rig.api.until("the finalizer is there", |api| finalizers(api, WEB) == json!([FINALIZER])).await;
    rig.api.fail("patch", WEB, 404);
    rig.idle().await;
    assert_eq!(rig.provider.calls().len(), 1, "what is gone needs no status");
    assert_eq!(rig.api.events(), [ENSURING, ENSURED]);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_refused_to_a_service_that_stays_is_a_failure() {
    let rig = Rig::new([]);
    rig.api.fail("patch", WEB, 422);
    rig.api.put(lb("web"));
    let failed = "Warning SyncLoadBalancerFailed Error syncing load balancer: \
                  failed to add load balancer cleanup finalizer: fault 422";
    rig.until_event(failed).await;
    rig.until_served(WEB, "192.0.2.1").await;
}

// shows: ccm-contract S-30, S-31
#[tokio::test(start_paused = true)]
async fn a_service_whose_type_changes_forth_and_back_while_all_workers_are_busy_shows_its_address_again() {
    let provider = FakeProvider::default();
    provider.delay_on(Method::Ensure, "slow", Duration::from_mins(1));
    let rig = Rig::with_provider(provider, [lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.api.put(lb("slow"));
    rig.api.until("the worker is busy", |_| rig.provider.calls().len() == 2).await;
    rig.api.edit(WEB, &to_cluster_ip());
    rig.api.edit(WEB, &json!({ "spec": { "type": "LoadBalancer" } }));
    assert_eq!(ingress(&rig.api, WEB), None);
    rig.until_served(WEB, "192.0.2.1").await;
    assert_eq!(finalizers(&rig.api, WEB), json!([FINALIZER]));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_gone_before_its_finalizer_is_removed_is_no_failure() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.api.fail("patch", WEB, 404);
    rig.api.delete(WEB);
    rig.until_event(DELETED).await;
    rig.idle().await;
    assert_eq!(rig.api.events(), [ENSURING, ENSURED, DELETING, DELETED]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_on_the_service_it_is_of_when_another_has_its_name() {
    let provider = FakeProvider::default();
    provider.delay_on(Method::Ensure, "slow", Duration::from_mins(1));
    let rig = Rig::with_provider(provider, [lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.api.put(lb("slow"));
    rig.api.until("the worker is busy", |_| rig.provider.calls().len() == 2).await;
    let refusal = || ProviderError::Transient("agent n1 does not answer".to_owned());
    rig.provider.fail_next(Method::Delete, [refusal()]);
    rig.provider.fail_on(Method::Ensure, "web", Some(refusal()));
    vanish(&rig);
    rig.api.put(with(lb("web"), &json!({ "metadata": { "uid": "second" } })));
    rig.until_event("Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: agent n1 does not answer").await;
    rig.provider.fail_on(Method::Ensure, "web", None);
    rig.until_served(WEB, "192.0.2.1").await;
    let failed = rig
        .api
        .writes()
        .into_iter()
        .filter(|write| write.event().is_some_and(|event| event.contains("Failed")));
    let told: Vec<_> = failed
        .map(|write| {
            format!("{} {}", write.body["reason"], write.body["involvedObject"]["uid"]).replace('"', "")
        })
        .collect();
    assert_eq!(told, ["DeleteLoadBalancerFailed uid-web", "SyncLoadBalancerFailed second"]);
    assert_eq!(rig.provider.load_balancers(), ["second", "uid-slow"]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_due_waits_for_a_worker() {
    let provider = FakeProvider::default();
    provider.delay_on(Method::Ensure, "slow", Duration::from_mins(1));
    provider.fail_next(Method::Ensure, [ProviderError::Transient("busy".to_owned())]);
    let rig = Rig::with_provider(provider, [lb("web")]);
    rig.api.until("the failure", |_| rig.provider.calls().len() == 1).await;
    rig.api.put(lb("slow"));
    // A loop that spins meanwhile would let no time pass.
    rig.until_served(WEB, "192.0.2.1").await;
    let calls = rig.provider.timed_calls();
    assert_eq!((calls[2].0 - calls[1].0).as_secs(), 60, "{calls:?}");
}

/// The Service goes, and another controller's takes its name.
fn replace_by_a_foreign_one(rig: &Rig) {
    rig.api.edit(WEB, &json!({ "metadata": { "finalizers": null } }));
    if rig.api.get(WEB).is_some() {
        rig.api.delete(WEB);
    }
    let foreign = json!({
        "metadata": { "uid": "uid-foreign", "finalizers": [FINALIZER] },
        "spec": { "loadBalancerClass": "example.com/lb" },
    });
    rig.api.put(with(lb("web"), &foreign));
}

// shows: ccm-contract S-19
#[tokio::test(start_paused = true)]
async fn what_was_meant_for_a_service_is_not_written_to_one_that_took_its_name() {
    for (step, method) in [("ensured", Method::Ensure), ("deleted", Method::Delete)] {
        let provider = FakeProvider::default();
        provider.delay(method, Duration::from_secs(1));
        let rig = Rig::with_provider(provider, [lb("web")]);
        if method == Method::Delete {
            rig.until_event(ENSURED).await;
            rig.api.delete(WEB);
        }
        let asks = |rig: &Rig| rig.provider.calls().iter().any(|call| call.method() == method);
        rig.api.until("the provider to be asked", |_| asks(&rig)).await;
        replace_by_a_foreign_one(&rig);
        let before = rig.api.get(WEB);
        rig.idle().await;
        let written = rig.api.get(WEB);
        assert_eq!(written, before, "while the one before was {step}");
        assert!(!rig.provider.has("uid-web"), "while it was {step}");
        assert!(!rig.api.events().iter().any(|event| event.contains("Failed")), "{:?}", rig.api.events());
    }
}
