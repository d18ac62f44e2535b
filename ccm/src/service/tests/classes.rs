//! Which Services are served, by class, and what becomes of those that are not served any more (allocation scenarios 65
//! and 108).

use serde_json::{Value, json};

use super::rig::{
    CLASS_FINALIZER, DELETED, DELETING, FINALIZER, Rig, WEB, finalizers, ingress, to_cluster_ip,
};
use crate::fake::{Call, FakeProvider, Method, ready, with_ip};
use crate::provider::{Ensured, ProviderError};
use crate::testing::{lb, with};

const CLASS: &str = "windlass.dev/windlass";

fn provider(classless: bool) -> FakeProvider {
    let provider = FakeProvider::serving(Some(CLASS));
    if classless { provider.and_serving(None) } else { provider }
}

fn classed(name: &str, class: &str) -> Value {
    with(lb(name), &json!({ "spec": { "loadBalancerClass": class } }))
}

fn status(ip: &str) -> Value {
    json!({ "status": { "loadBalancer": { "ingress": [{ "ip": ip, "ipMode": "VIP" }] } } })
}

// shows: allocation 65; ccm-contract S-01
#[tokio::test(start_paused = true)]
async fn the_class_is_served_always_and_classless_services_by_setting_65() {
    for (classless, served) in [(true, ["web", "own"].as_slice()), (false, ["own"].as_slice())] {
        let services = [lb("web"), classed("own", CLASS), classed("other", "example.com/lb")];
        let rig = Rig::with_provider(provider(classless), services);
        for name in served {
            rig.until_served(&format!("services/default/{name}"), "192.0.2.1").await;
        }
        rig.idle().await;
        for name in ["web", "own", "other"] {
            let shown = ingress(&rig.api, &format!("services/default/{name}")).is_some();
            assert_eq!(shown, served.contains(&name), "{name}, classless {classless}");
        }
        let touched = |name: &str| rig.api.writes().iter().any(|write| write.path.contains(name));
        assert!(!touched("other"), "a foreign class is not touched");
        assert_eq!(touched("web"), classless, "{:?}", rig.api.writes());
        assert_eq!(finalizers(&rig.api, "services/default/own"), json!([CLASS_FINALIZER]));
    }
}

// shows: allocation 108
#[tokio::test(start_paused = true)]
async fn a_class_that_the_api_server_wipes_with_the_type_leaks_nothing_108() {
    for classless in [true, false] {
        for restart in [true, false] {
            let mut rig = Rig::with_provider(provider(classless), [classed("web", CLASS)]);
            rig.until_served(WEB, "192.0.2.1").await;
            if restart {
                rig.stop().await;
            }
            let wiped = json!({ "spec": { "loadBalancerClass": null } });
            rig.api.edit(WEB, &with(to_cluster_ip(), &wiped));
            if restart {
                rig.start();
            }
            rig.api.until("the finalizer to go", |api| finalizers(api, WEB) == json!([])).await;
            assert!(!rig.provider.has("uid-web"), "classless {classless}, restart {restart}");
        }
    }
}

// shows: ccm-contract S-01
#[tokio::test(start_paused = true)]
async fn classless_services_of_an_earlier_run_are_let_go_when_they_are_no_longer_served() {
    let Ensured::Ready { status: was_ours, .. } = ready("192.0.2.1") else { panic!("ready") };
    for change in [json!({}), json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })] {
        let provider = provider(false);
        provider.seed("uid-web", was_ours.clone());
        let hold = json!({ "metadata": { "finalizers": [FINALIZER, "example.com/hold"] } });
        let rig =
            Rig::with_provider(provider, [with(with(with(lb("web"), &hold), &status("192.0.2.1")), &change)]);
        rig.api.until("our finalizer to go", |api| finalizers(api, WEB) == json!(["example.com/hold"])).await;
        rig.api.until("the address to go", |api| ingress(api, WEB).is_none()).await;
        assert!(!rig.provider.has("uid-web"));
    }
}

#[tokio::test(start_paused = true)]
async fn classless_services_of_another_controller_are_looked_at_once_and_not_touched() {
    let hold = json!({ "metadata": { "finalizers": [FINALIZER] } });
    let rig = Rig::with_provider(provider(false), [with(with(lb("web"), &hold), &status("10.0.0.1"))]);
    rig.api.until("a look", |_| !rig.provider.calls().is_empty()).await;
    rig.idle().await;
    rig.api.edit(WEB, &status("10.0.0.2"));
    rig.api.edit(WEB, &to_cluster_ip());
    rig.idle().await;
    assert_eq!(rig.provider.calls(), [Call::Get("web".to_owned())]);
    assert_eq!(rig.api.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_leftover_is_taken_away_at_the_next_attempt() {
    let provider = provider(false);
    provider.seed("uid-web", with_ip("192.0.2.1"));
    let hold = json!({ "metadata": { "finalizers": [FINALIZER, "example.com/hold"] } });
    let rig = Rig::with_provider(provider, []);
    rig.api.fail("patch", WEB, 500);
    rig.api.put(with(with(lb("web"), &hold), &status("192.0.2.1")));
    rig.api.until("the load balancer to go", |_| !rig.provider.has("uid-web")).await;
    assert_eq!(finalizers(&rig.api, WEB), json!([FINALIZER, "example.com/hold"]), "the write failed");
    rig.api.until("our finalizer to go", |api| finalizers(api, WEB) == json!(["example.com/hold"])).await;
    rig.api.until("the address to go", |api| ingress(api, WEB).is_none()).await;
}

// shows: ccm-contract S-01
#[tokio::test(start_paused = true)]
async fn a_leftover_whose_load_balancer_went_with_the_process_before_is_known_by_its_condition() {
    let condition = |type_: &str| {
        json!({ "metadata": { "finalizers": [FINALIZER] }, "status": { "conditions": [
            { "type": type_, "status": "True", "reason": "Given", "message": "",
              "lastTransitionTime": "2026-01-01T00:00:00Z" }
        ] } })
    };
    let ours = with(lb("web"), &condition("example.com/Given"));
    let theirs = with(lb("theirs"), &condition("example.org/Given"));
    let rig = Rig::with_provider(provider(false).with_condition("example.com/Given"), [ours, theirs]);
    rig.api.until("our finalizer to go", |api| finalizers(api, WEB) == json!([])).await;
    rig.idle().await;
    assert_eq!(rig.api.get(WEB).expect("web")["status"]["conditions"], json!([]));
    assert_eq!(finalizers(&rig.api, "services/default/theirs"), json!([FINALIZER]));
}

#[tokio::test(start_paused = true)]
async fn a_leftover_of_which_the_provider_cannot_say_anything_yet_is_looked_at_again() {
    let provider = provider(false);
    provider.seed("uid-web", with_ip("192.0.2.1"));
    provider.fail_next(Method::Get, [ProviderError::Transient("not all is known yet".to_owned())]);
    let hold = json!({ "metadata": { "finalizers": [FINALIZER] } });
    let rig = Rig::with_provider(provider, [with(lb("web"), &hold)]);
    rig.api.until("our finalizer to go", |api| finalizers(api, WEB) == json!([])).await;
    rig.idle().await;
    assert_eq!(rig.api.events(), [DELETING, DELETED], "it might have been another controller's");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_went_from_our_class_to_another_controller_keeps_theirs() {
    let both = json!({ "metadata": { "finalizers": [FINALIZER, CLASS_FINALIZER] } });
    let rig = Rig::with_provider(provider(false), []);
    // The second attempt knows no more than the first.
    rig.api.fail("patch", WEB, 500);
    rig.api.put(with(lb("web"), &both));
    rig.api.until("our finalizer to go", |api| finalizers(api, WEB) == json!([FINALIZER])).await;
    rig.idle().await;
    assert_eq!(finalizers(&rig.api, WEB), json!([FINALIZER]));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_gone_takes_the_back_off_of_its_questions_along() {
    let rig = Rig::with_provider(provider(false), []);
    let left_over = with(lb("web"), &json!({ "metadata": { "finalizers": [FINALIZER] } }));
    let away = || ProviderError::Transient("the inventory is away".to_owned());
    let mut first_waits = Vec::new();
    for uid in ["first", "second"] {
        rig.provider.take_calls();
        rig.provider.fail_next(Method::Get, [away(), away(), away()]);
        rig.api.put(with(left_over.clone(), &json!({ "metadata": { "uid": uid } })));
        rig.api.until("three questions", |_| rig.provider.calls().len() >= 3).await;
        let asked: Vec<_> = rig.provider.timed_calls().into_iter().map(|(at, _)| at).collect();
        first_waits.push(asked[1] - asked[0]);
        rig.api.edit(WEB, &json!({ "metadata": { "finalizers": null } }));
        rig.api.delete(WEB);
        rig.idle().await;
    }
    assert_eq!(first_waits[0], first_waits[1]);
}
