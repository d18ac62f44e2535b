//! The whole controller, when the nodes change: what is told and counted, and what comes after an update that failed
//! (service-contract S-20 g to i, S-22, S-26, S-50).

use std::sync::Arc;
use std::time::Duration;

use prometheus::{Registry, TextEncoder};
use tokio_util::sync::CancellationToken;

use super::rig::{ENSURED, ENSURING, Rig, WEB};
use crate::fake::{Call, Method};
use crate::metrics::Metrics;
use crate::provider::{LoadBalancer as _, ProviderError};
use crate::service::{ServiceController, ServiceOptions};
use crate::store::with_informers;
use crate::testing::{lb, node, service};

const UPDATED: &str = "Normal UpdatedLoadBalancer Updated load balancer with new hosts";

fn failed(nodes: &str, error: &str) -> String {
    let total = nodes.split(' ').count();
    format!(
        "Warning UpdateLoadBalancerFailed Error updating load balancer with new hosts [{nodes}] \
         [node names limited, total number of nodes: {total}], error: {error}"
    )
}

async fn served() -> Rig {
    let rig = Rig::new([lb("web")]);
    rig.until_served(WEB, "192.0.2.1").await;
    rig.until_event(ENSURED).await;
    rig.provider.take_calls();
    rig
}

// shows: ccm-contract S-20
#[tokio::test(start_paused = true)]
async fn the_last_node_that_goes_is_worth_a_warning_s_20_g() {
    let rig = served().await;
    rig.api.delete("nodes//n1");
    let warning = "Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer";
    rig.until_event(warning).await;
    assert_eq!(rig.api.events(), [ENSURING, ENSURED, warning]);
}

// shows: ccm-contract S-26
#[tokio::test(start_paused = true)]
async fn an_update_of_what_is_gone_is_no_failure_s_26() {
    let rig = served().await;
    rig.provider.ensure_deleted("kubernetes", &service(lb("web"))).await.expect("gone");
    rig.provider.take_calls();
    rig.provider.fail_next(Method::UpdateNodes, [ProviderError::NotFound("no such thing".to_owned())]);
    rig.api.put(node("n2"));
    rig.idle().await;
    assert_eq!(rig.api.events(), [ENSURING, ENSURED]);
    let asked: Vec<_> = rig.provider.calls().iter().map(Call::method).collect();
    assert_eq!(asked, [Method::UpdateNodes, Method::Get]);
}

// shows: ccm-contract S-26
#[tokio::test(start_paused = true)]
async fn a_failed_update_is_followed_by_an_ensure_at_once_or_when_the_provider_says() {
    let later = ProviderError::RetryAfter { after: Duration::from_secs(42), reason: "busy".to_owned() };
    for (error, seconds) in [(ProviderError::Transient("busy".to_owned()), 0), (later, 42)] {
        let rig = served().await;
        rig.provider.fail_next(Method::UpdateNodes, [error]);
        rig.api.put(node("n2"));
        rig.until_event(&failed("n1 n2", "busy")).await;
        rig.idle().await;
        let calls = rig.provider.timed_calls();
        assert_eq!(calls[2].1.method(), Method::Ensure, "{calls:?}");
        assert_eq!((calls[2].0 - calls[1].0).as_secs(), seconds);
    }
}

// shows: ccm-contract S-50, S-51
#[tokio::test(start_paused = true)]
async fn updates_are_counted_and_ensures_are_not_s_50() {
    let mut rig = Rig::new([]);
    rig.stop().await;
    let registry = Registry::new();
    let metrics = Metrics::register(&registry, "lease").expect("metrics");
    let (client, provider) = (rig.api.client(), Arc::clone(&rig.provider));
    tokio::spawn(with_informers(client.clone(), |informers| {
        ServiceController::new(client, informers, provider, ServiceOptions::default(), metrics)
            .run(CancellationToken::new())
    }));
    rig.api.put(lb("web"));
    rig.until_event(ENSURED).await;
    rig.api.put(node("n2"));
    rig.until_event(UPDATED).await;
    rig.provider.fail_next(Method::UpdateNodes, [ProviderError::Transient("busy".to_owned())]);
    rig.api.put(node("n3"));
    rig.until_event(&failed("n1 n2 n3", "busy")).await;
    let shown = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
    for line in [
        "service_controller_loadbalancer_sync_total 2",
        "service_controller_nodesync_error_total 1",
        "service_controller_update_loadbalancer_host_latency_seconds_count 2",
        "service_controller_nodesync_latency_seconds_count 2",
        "windlass_ccm_syncs_total{controller=\"service\",result=\"error\"} 1",
    ] {
        assert!(shown.lines().any(|other| other == line), "{line}: {shown}");
    }
}
