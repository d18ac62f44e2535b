//! `DeletedLoadBalancer` is told once, whoever writes meanwhile and whatever fails afterwards.

use std::time::Duration;

use serde_json::{Value, json};

use super::rig::{DELETED, DELETING, FINALIZER, Rig, WEB, ingress};
use crate::fake::Method;
use crate::testing::{lb, with};

const FAILED: &str = "Warning SyncLoadBalancerFailed Error syncing load balancer: \
                      failed to update load balancer status: fault 500";

/// Takes our finalizer away by hand.
fn let_go() -> Value {
    json!({ "metadata": { "finalizers": null } })
}

/// The events, of which none was counted twice.
fn told(rig: &Rig) -> Vec<String> {
    let writes = rig.api.writes();
    let mut counted =
        writes.iter().filter(|write| write.verb == "patch" && write.path.starts_with("events/"));
    assert_eq!(counted.next(), None, "told again");
    rig.api.events()
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_does_not_have_the_end_told_again() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.idle().await;
    rig.api.take_writes();
    rig.api.fail("patch", WEB, 500);
    rig.api.edit(WEB, &with(let_go(), &json!({ "spec": { "type": "ClusterIP" } })));
    rig.api.until("our entry to go", |api| ingress(api, WEB).is_none()).await;
    rig.idle().await;
    assert_eq!(told(&rig), [DELETING, DELETED, FAILED]);
}

#[tokio::test(start_paused = true)]
async fn a_second_end_is_told_as_the_first_was() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    for kind in ["ClusterIP", "LoadBalancer", "NodePort"] {
        rig.idle().await;
        rig.api.take_writes();
        if kind != "LoadBalancer" {
            rig.api.fail("patch", WEB, 500);
            rig.api.edit(WEB, &let_go());
        }
        rig.api.edit(WEB, &json!({ "spec": { "type": kind } }));
        if kind == "LoadBalancer" {
            rig.until_served(WEB, "192.0.2.1").await;
        } else {
            rig.api.until("our entry to go", |api| ingress(api, WEB).is_none()).await;
            rig.idle().await;
            assert_eq!(told(&rig), [DELETING, DELETED, FAILED], "{kind}");
        }
    }
}

// shows: ccm-contract S-12
#[tokio::test(start_paused = true)]
async fn who_finds_that_another_let_the_service_go_tells_nothing() {
    let going =
        json!({ "metadata": { "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let rig = Rig::new([]);
    rig.provider.delay(Method::Get, Duration::from_secs(1));
    rig.api.put(with(lb("web"), &going));
    rig.api.until("the question for its load balancer", |_| !rig.provider.calls().is_empty()).await;
    rig.api.edit(WEB, &let_go());
    rig.idle().await;
    assert_eq!(rig.writes().len(), 1, "the finalizer that is gone already: {:?}", rig.writes());
    assert_eq!(told(&rig), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn who_took_the_load_balancer_away_tells_it_although_another_let_the_service_go() {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.idle().await;
    rig.api.take_writes();
    rig.provider.delay(Method::Delete, Duration::from_secs(1));
    rig.api.delete(WEB);
    rig.until_event(DELETING).await;
    rig.api.edit(WEB, &let_go());
    rig.idle().await;
    assert_eq!(told(&rig), [DELETING, DELETED]);
}
