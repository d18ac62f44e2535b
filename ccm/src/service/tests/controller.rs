//! The whole controller: finalizers, status, events, retries.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::LoadBalancerStatus;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::rig::{
    CLASS_FINALIZER, DELETED, DELETING, ENSURED, ENSURING, FINALIZER, Rig, WEB, finalizers, ingress, key,
    patch_of_status, pending, rejected, to_cluster_ip,
};
use crate::fake::{Call, FakeProvider, Method, ready};
use crate::provider::ProviderError;
use crate::testing::apiserver::ApiServer;
use crate::testing::{lb, node, with};

// shows: ccm-contract 2 to 4, 34, S-13
#[tokio::test(start_paused = true)]
async fn a_new_service_gets_finalizer_then_load_balancer_then_status_2_to_4() {
    for protocol in ["TCP", "UDP", "SCTP"] {
        let service =
            with(lb("web"), &json!({ "spec": { "ports": [{ "port": 80, "protocol": protocol }] } }));
        let rig = Rig::new([service]);
        rig.until_served(WEB, "192.0.2.1").await;
        rig.until_event(ENSURED).await;
        let finalizer = json!({ "metadata": {
            "uid": "uid-web", "$setElementOrder/finalizers": [FINALIZER], "finalizers": [FINALIZER],
        } });
        let status = json!({
            "metadata": { "uid": "uid-web" },
            "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1", "ipMode": "VIP" }] } },
        });
        assert_eq!(rig.writes(), [(patch_of_status(), finalizer), (patch_of_status(), status)]);
        assert_eq!(rig.api.events(), [ENSURING, ENSURED]);
        assert_eq!(rig.provider.calls(), [Call::Ensure("web".to_owned(), vec!["n1".to_owned()])]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_is_on_before_the_provider_is_asked() {
    let rig = Rig::new([lb("web")]);
    rig.api.until("a call", |_| !rig.provider.calls().is_empty()).await;
    assert_eq!(finalizers(&rig.api, WEB), json!([FINALIZER]));
}

// shows: ccm-contract 8
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_there_is_not_written_again_8() {
    let rig = Rig::new([with(lb("web"), &json!({ "metadata": { "finalizers": [FINALIZER] } }))]);
    rig.until_served(WEB, "192.0.2.1").await;
    assert_eq!(rig.writes().len(), 1);
}

// shows: ccm-contract 1, 5, S-01
#[tokio::test(start_paused = true)]
async fn services_that_ask_for_nothing_are_left_alone_1_5() {
    let rig = Rig::new([
        with(lb("plain"), &to_cluster_ip()),
        with(lb("classed"), &json!({ "spec": { "loadBalancerClass": "example.com/lb" } })),
        lb("web"),
    ]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.idle().await;
    assert_eq!(rig.provider.calls().len(), 1, "only for web");
    assert!(
        rig.api.writes().iter().all(|write| !write.path.contains("plain") && !write.path.contains("classed"))
    );
}

// shows: ccm-contract S-03
#[tokio::test(start_paused = true)]
async fn a_restart_with_nothing_changed_writes_nothing_not_even_events() {
    let mut rig = Rig::new((0..5).map(|n| lb(&format!("web-{n}"))));
    for n in 0..5 {
        rig.until_served(&format!("services/default/web-{n}"), "192.0.2.1").await;
    }
    rig.idle().await;
    rig.api.take_writes();
    rig.provider.take_calls();
    rig.restart().await;
    rig.api.until("all Services ensured again", |_| rig.provider.calls().len() == 5).await;
    rig.idle().await;
    assert_eq!(rig.api.writes(), [], "a restart is not news");
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_finds_another_address_says_so() {
    let mut rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.stop().await;
    rig.api.take_writes();
    rig.provider.next_ensure([Ok(ready("192.0.2.2"))]);
    rig.start();
    rig.until_served(WEB, "192.0.2.2").await;
    rig.until_event(ENSURED).await;
    assert_eq!(rig.api.events(), [ENSURING, ENSURED]);
}

// shows: ccm-contract 7, S-12
#[tokio::test(start_paused = true)]
async fn a_deleted_service_is_let_go_after_its_load_balancer_7() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.until_event(ENSURED).await;
    rig.api.take_writes();
    rig.provider.take_calls();
    rig.api.delete(WEB);
    rig.api.until("the Service to be gone", |api| api.get(WEB).is_none()).await;
    rig.until_event(DELETED).await;
    assert_eq!(rig.provider.calls(), [Call::Get("web".to_owned()), Call::Delete("web".to_owned())]);
    assert!(!rig.provider.has("uid-web"));
    assert_eq!(rig.api.events(), [DELETING, DELETED]);
    let writes = rig.writes();
    let finalizer =
        json!({ "metadata": { "uid": "uid-web", "$deleteFromPrimitiveList/finalizers": [FINALIZER] } });
    assert_eq!(writes[0].1, finalizer);
    rig.idle().await;
    assert_eq!(rig.writes().len(), 1, "nothing is written to what is gone");
}

// shows: ccm-contract 6
#[tokio::test(start_paused = true)]
async fn a_service_that_becomes_cluster_ip_is_withdrawn_at_once_6() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    let turned = Instant::now();
    rig.api.edit(WEB, &to_cluster_ip());
    rig.api.until("the finalizer to go", |api| finalizers(api, WEB) == json!([])).await;
    assert!(!rig.provider.has("uid-web"));
    assert!(turned.elapsed() < Duration::from_secs(1), "took {:?} of virtual time", turned.elapsed());
}

// shows: ccm-contract S-08
#[tokio::test(start_paused = true)]
async fn finalizers_of_others_stay() {
    let rig = Rig::new([with(lb("web"), &json!({ "metadata": { "finalizers": ["example.com/hold"] } }))]);
    rig.until_served(WEB, "192.0.2.1").await;
    assert_eq!(finalizers(&rig.api, WEB), json!(["example.com/hold", FINALIZER]));
    rig.api.delete(WEB);
    rig.api.until("ours to go", |api| finalizers(api, WEB) == json!(["example.com/hold"])).await;
    rig.idle().await;
    assert!(!rig.api.events().iter().any(|event| event.contains("Failed")), "S-08: {:?}", rig.api.events());
}

// shows: ccm-contract S-07
#[tokio::test(start_paused = true)]
async fn a_class_of_ours_has_its_own_finalizer_s_07() {
    let class = json!({ "spec": { "loadBalancerClass": "windlass.dev/vip" } });
    let foreign = with(
        lb("foreign"),
        &json!({
            "metadata": { "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "loadBalancerClass": "example.com/lb" }
        }),
    );
    let provider = FakeProvider::serving(Some("windlass.dev/vip"));
    let rig = Rig::with_provider(provider, [with(lb("web"), &class), lb("classless"), foreign]);
    rig.until_served(WEB, "192.0.2.1").await;
    assert_eq!(finalizers(&rig.api, WEB), json!([CLASS_FINALIZER]));
    rig.api.edit(WEB, &with(to_cluster_ip(), &json!({ "spec": { "loadBalancerClass": null } })));
    rig.api.until("our finalizer to go", |api| finalizers(api, WEB) == json!([])).await;
    rig.idle().await;
    assert_eq!(finalizers(&rig.api, "services/default/foreign"), json!([FINALIZER]));
    assert_eq!(finalizers(&rig.api, "services/default/classless"), Value::Null);
}

// shows: allocation 80; ccm-contract 36, S-15
#[tokio::test(start_paused = true)]
async fn a_status_conflict_is_an_error_and_tried_again_36() {
    let rig = Rig::new([with(lb("web"), &json!({ "metadata": { "finalizers": [FINALIZER] } }))]);
    rig.api.fail("patch", WEB, 409);
    let began = Instant::now();
    rig.until_served(WEB, "192.0.2.1").await;
    assert!(began.elapsed() >= Duration::from_secs(5), "after the first back-off");
    let failed = "Warning SyncLoadBalancerFailed Error syncing load balancer: \
                  failed to update load balancer status: fault 409";
    assert!(rig.api.events().contains(&failed.to_owned()), "{:?}", rig.api.events());
}

// shows: ccm-contract 37, S-15
#[tokio::test(start_paused = true)]
async fn a_service_gone_before_its_status_is_written_is_no_error_37() {
    let rig = Rig::new([with(lb("web"), &json!({ "metadata": { "finalizers": [FINALIZER] } }))]);
    rig.api.fail("patch", WEB, 404);
    rig.until_event(ENSURED).await;
    rig.idle().await;
    assert_eq!(rig.api.events(), [ENSURING, ENSURED]);
}

/// The provider was asked for a load balancer of `web`, and answers in a second.
async fn about_to_write_a_status() -> Rig {
    let provider = FakeProvider::default();
    provider.delay(Method::Ensure, Duration::from_secs(1));
    let web = with(lb("web"), &json!({ "metadata": { "finalizers": [FINALIZER] } }));
    let rig = Rig::with_provider(provider, [web]);
    rig.api.until("the provider is asked", |_| !rig.provider.calls().is_empty()).await;
    rig
}

// shows: ccm-contract S-30, S-31
#[tokio::test(start_paused = true)]
async fn a_status_refused_because_the_type_changed_is_no_failure_s_31() {
    let rig = about_to_write_a_status().await;
    rig.api.edit(WEB, &to_cluster_ip());
    rig.api.until("the finalizer to go", |api| finalizers(api, WEB) == json!([])).await;
    rig.idle().await;
    let status =
        rig.writes().into_iter().any(|(_, body)| !body["status"]["loadBalancer"]["ingress"].is_null());
    assert!(status, "the status was tried, and refused");
    assert!(!rig.api.events().iter().any(|event| event.contains("Failed")), "{:?}", rig.api.events());
    assert_eq!(ingress(&rig.api, WEB), None);
}

// shows: ccm-contract S-30, S-31
#[tokio::test(start_paused = true)]
async fn a_status_refused_because_the_type_changed_for_a_moment_is_no_failure_s_31() {
    let rig = about_to_write_a_status().await;
    // As if it had changed back between the refusal and the question what it is now.
    rig.api.edit(WEB, &to_cluster_ip());
    rig.api.edit(WEB, &json!({ "spec": { "type": "LoadBalancer" } }));
    rig.api.fail("patch", WEB, 422);
    rig.until_served(WEB, "192.0.2.1").await;
    assert!(rig.writes().len() >= 2, "the status was tried, refused, and tried again");
    assert!(!rig.api.events().iter().any(|event| event.contains("Failed")), "{:?}", rig.api.events());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_cannot_be_added_keeps_the_provider_out_of_it() {
    let rig = Rig::new([]);
    rig.api.fail("patch", WEB, 500);
    rig.api.put(lb("web"));
    let failed = "Warning SyncLoadBalancerFailed Error syncing load balancer: \
                  failed to add load balancer cleanup finalizer: fault 500";
    rig.until_event(failed).await;
    assert_eq!(rig.provider.calls(), []);
    rig.until_served(WEB, "192.0.2.1").await;
}

// shows: ccm-contract S-14
#[tokio::test(start_paused = true)]
async fn a_rejected_service_says_why_once_and_recovers_when_the_provider_has_news() {
    let rig = Rig::new([]);
    let full = || Err(rejected("pool blue has no free address"));
    rig.provider.next_ensure([full(), full(), full(), full(), Ok(ready("192.0.2.3"))]);
    rig.api.put(lb("web"));
    rig.api.until("four attempts", |_| rig.provider.calls().len() == 4).await;
    let failed = "Warning SyncLoadBalancerFailed Error syncing load balancer: \
                  failed to ensure load balancer: pool blue has no free address";
    assert_eq!(rig.api.events(), [ENSURING, failed], "4 attempts in 35 seconds, one event");
    assert_eq!(ingress(&rig.api, WEB), None);
    let asked = Instant::now();
    rig.provider.changed(key("web"));
    rig.until_served(WEB, "192.0.2.3").await;
    assert!(asked.elapsed() < Duration::from_secs(1), "not after the back-off: {:?}", asked.elapsed());
    rig.until_event(ENSURED).await;
    assert_eq!(rig.api.events(), [ENSURING, failed, ENSURED]);
}

#[tokio::test(start_paused = true)]
async fn a_pending_service_waits_without_events_and_is_served_on_news() {
    let rig = Rig::new([]);
    rig.provider.next_ensure([Ok(pending("no node answers yet"))]);
    rig.api.put(lb("web"));
    rig.until_event(ENSURING).await;
    rig.idle().await;
    assert_eq!(rig.provider.calls().len(), 1, "nothing polls");
    assert_eq!(rig.api.events(), [ENSURING]);
    assert_eq!(ingress(&rig.api, WEB), None);
    rig.provider.changed(key("web"));
    rig.until_served(WEB, "192.0.2.1").await;
    rig.until_event(ENSURED).await;
    assert_eq!(rig.api.events(), [ENSURING, ENSURED]);
}

#[tokio::test(start_paused = true)]
async fn pending_leaves_the_status_that_is_there() {
    let mut rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.stop().await;
    rig.api.take_writes();
    rig.provider.next_ensure([Ok(pending("no node answers now"))]);
    rig.start();
    rig.idle().await;
    assert_eq!(ingress(&rig.api, WEB).as_deref(), Some("192.0.2.1"));
    assert_eq!(rig.api.writes(), []);
}

// shows: ccm-contract 140, S-16
#[tokio::test(start_paused = true)]
async fn retry_after_is_kept_exactly_140() {
    let rig = Rig::new([]);
    let later = ProviderError::RetryAfter { after: Duration::from_secs(42), reason: "booting".to_owned() };
    rig.provider.next_ensure([Err(later)]);
    rig.api.put(lb("web"));
    rig.api.until("the first attempt", |_| rig.provider.calls().len() == 1).await;
    let first = Instant::now();
    rig.api.until("the second attempt", |_| rig.provider.calls().len() == 2).await;
    let waited = first.elapsed();
    let slack = Duration::from_millis(50);
    assert!(
        waited + slack >= Duration::from_secs(42) && waited <= Duration::from_secs(42) + slack,
        "{waited:?}"
    );
}

// shows: ccm-contract S-13
#[tokio::test(start_paused = true)]
async fn implemented_elsewhere_is_success_without_status() {
    let rig = Rig::new([]);
    rig.provider.next_ensure([Err(ProviderError::ImplementedElsewhere("example.com/lb".to_owned()))]);
    rig.api.put(lb("web"));
    rig.api.until("an attempt", |_| !rig.provider.calls().is_empty()).await;
    rig.idle().await;
    assert_eq!(rig.provider.calls().len(), 1, "not tried again");
    assert_eq!(rig.api.events(), [ENSURING]);
    assert_eq!(finalizers(&rig.api, WEB), json!([FINALIZER]));
    assert_eq!(ingress(&rig.api, WEB), None);
}

// shows: ccm-contract S-12
#[tokio::test(start_paused = true)]
async fn a_failed_delete_keeps_the_finalizer_and_is_tried_again() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.provider.fail_next(Method::Delete, [ProviderError::Transient("agent n1 does not answer".to_owned())]);
    rig.api.delete(WEB);
    let failed = "Warning SyncLoadBalancerFailed Error syncing load balancer: \
                  failed to delete load balancer: agent n1 does not answer";
    rig.until_event(failed).await;
    assert_eq!(finalizers(&rig.api, WEB), json!([FINALIZER]));
    rig.api.until("the Service to be gone", |api| api.get(WEB).is_none()).await;
}

// shows: ccm-contract S-12
#[tokio::test(start_paused = true)]
async fn cleanup_without_a_load_balancer_still_lets_the_service_go() {
    let change = json!({ "metadata": { "finalizers": [FINALIZER] }, "spec": { "type": "NodePort" } });
    let rig = Rig::new([with(lb("web"), &change)]);
    rig.api.until("the finalizer to go", |api| finalizers(api, WEB) == json!([])).await;
    rig.until_event(DELETED).await;
    assert_eq!(rig.provider.calls(), [Call::Get("web".to_owned())]);
    assert_eq!(rig.api.events(), [DELETED], "S-12 (4): also if nothing existed");
}

// shows: ccm-contract S-13
#[tokio::test(start_paused = true)]
async fn no_nodes_is_worth_a_warning_but_no_reason_to_stop() {
    let api = ApiServer::default();
    api.put(lb("web"));
    let mut rig = Rig { api, provider: Arc::default(), running: None, workers: 1, client: 0 };
    rig.start();
    rig.until_served(WEB, "192.0.2.1").await;
    rig.until_event(ENSURED).await;
    let warning = "Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer";
    assert_eq!(rig.api.events(), [ENSURING, warning, ENSURED]);
}

#[tokio::test(start_paused = true)]
async fn node_changes_reach_the_provider() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.provider.take_calls();
    rig.api.put(node("n2"));
    rig.until_event("Normal UpdatedLoadBalancer Updated load balancer with new hosts").await;
    let both = vec!["n1".to_owned(), "n2".to_owned()];
    assert_eq!(rig.provider.take_calls(), [Call::UpdateNodes("web".to_owned(), both)]);
    rig.api
        .edit("nodes//n2", &json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }));
    rig.idle().await;
    assert_eq!(rig.provider.calls(), [], "19: readiness does not matter");
}

// shows: ccm-contract S-22, S-23, S-26
#[tokio::test(start_paused = true)]
async fn a_failed_node_update_names_the_nodes_and_is_followed_by_an_ensure() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.provider.take_calls();
    rig.provider.fail_next(Method::UpdateNodes, [ProviderError::Transient("no router".to_owned())]);
    rig.api.put(node("n2"));
    let failed = "Warning UpdateLoadBalancerFailed Error updating load balancer with new hosts [n1 n2] \
                  [node names limited, total number of nodes: 2], error: no router";
    rig.until_event(failed).await;
    let both = vec!["n1".to_owned(), "n2".to_owned()];
    rig.api.until("an ensure", |_| rig.provider.calls().len() == 3).await;
    assert_eq!(
        rig.provider.calls(),
        [
            Call::UpdateNodes("web".to_owned(), both.clone()),
            Call::Get("web".to_owned()),
            Call::Ensure("web".to_owned(), both)
        ]
    );
}

// shows: ccm-contract S-06
#[tokio::test(start_paused = true)]
async fn services_are_worked_on_side_by_side_but_never_one_twice() {
    let mut rig = Rig::new([]);
    rig.stop().await;
    for n in 0..40 {
        rig.api.put(lb(&format!("web-{n}")));
    }
    rig.workers = 8;
    rig.start();
    rig.api
        .until("all served", |api| {
            (0..40).all(|n| ingress(api, &format!("services/default/web-{n}")).is_some())
        })
        .await;
    for phase in 0..5 {
        for n in 0..40 {
            let change = json!({ "metadata": { "annotations": { "round": format!("{phase}") } } });
            rig.api.edit(&format!("services/default/web-{n}"), &change);
            rig.provider.changed(key(&format!("web-{n}")));
        }
        tokio::task::yield_now().await;
    }
    rig.idle().await;
    assert_eq!(rig.provider.overlaps(), 0);
    assert!((2..=8).contains(&rig.provider.most_at_once()), "{}", rig.provider.most_at_once());
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_finishes_what_the_old_one_began() {
    let mut rig = Rig::new([lb("web")]);
    rig.api.until("the provider is asked", |_| !rig.provider.calls().is_empty()).await;
    rig.restart().await;
    rig.until_served(WEB, "192.0.2.1").await;
}

// shows: allocation 81
#[tokio::test(start_paused = true)]
async fn a_load_balancer_made_before_a_restart_is_deleted_with_its_service() {
    let provider = FakeProvider::default();
    provider.seed("uid-web", LoadBalancerStatus::default());
    let gone =
        json!({ "metadata": { "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let rig = Rig::with_provider(provider, [with(lb("web"), &gone)]);
    rig.api.until("the Service to be gone", |api| api.get(WEB).is_none()).await;
    assert!(!rig.provider.has("uid-web"));
}

// shows: ccm-contract S-20
#[tokio::test(start_paused = true)]
async fn events_name_the_service_and_the_component() {
    let rig = Rig::new([lb("web")]);
    rig.until_event(ENSURED).await;
    let event = rig.api.writes().into_iter().find(|write| write.event().is_some()).expect("an event").body;
    assert_eq!(event["source"]["component"], "service-controller");
    assert_eq!(event["involvedObject"]["kind"], "Service");
    assert_eq!(event["involvedObject"]["apiVersion"], "v1");
    assert_eq!(event["involvedObject"]["uid"], "uid-web");
    assert_eq!(event["metadata"]["namespace"], "default");
}
