//! Which address a Service gets, when it gets none, and that it never changes by itself.

mod chaos;
mod crashes;
mod external;
mod families;
mod pools;
mod random_edits;
mod reached;
mod sharing;

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::ensure;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use windlass_api::VirtualIPPool;
use windlass_e2e::{Lab, Protocol, SERVICE_PORT, await_that, scenario};

use crate::setup::{LIMIT, all_reset, keep_open, lab, served};

// shows: threats T-09; field-reports F-83
#[test]
fn deleted_service_gives_its_address_back_and_its_connections_are_reset() -> anyhow::Result<()> {
    scenario("deleted", lab(), async |lab| {
        let vip = served(lab).await?;
        let services: Api<Service> = Api::default_namespaced(lab.client());
        let at_once = json!({"spec": {"quarantineSeconds": 0}});
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        pools.patch("default", &PatchParams::default(), &Patch::Merge(at_once)).await?;
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(1))?;
        let begin = Instant::now();
        await_that("the probe is answered", LIMIT, async || {
            Ok(Some(lab.curl("c1", vip, SERVICE_PORT).await?))
        })
        .await?;
        // The client asks on one connection until the deletion of the Service resets it.
        let kept = keep_open(lab, &[vip]).await?;
        let deleted = begin.elapsed();
        services.delete("web", &DeleteParams::default()).await?;
        await_that("the Service is gone, its finalizer with it", LIMIT, async || {
            let left = services.get_opt("web").await?;
            ensure!(
                left.is_none(),
                "it has finalizers {:?}",
                left.map(|service| service.finalizers().to_vec())
            );
            Ok(Some(()))
        })
        .await?;
        await_withdrawn(lab, vip).await?;
        let left = lab.virtual_ip(vip).await?;
        ensure!(left.is_none(), "its VirtualIP is left: {left:?}");
        all_reset(kept)?;
        let outcome = probe.stop()?;
        ensure!(outcome.answered > 0, "the probe was never answered: {outcome:?}");
        let last_answer = outcome.gap_began.saturating_sub(deleted);
        println!("deleted: last answer {} ms after", last_answer.as_millis());
        lab.load_balancer("next", |_| ()).await?;
        let next = lab.ingress("next", LIMIT).await?;
        ensure!(next == vip, "the next Service got {next}: {vip} was not released");
        Ok(())
    })
}

// shows: allocation 56, 57; field-reports F-24
#[test]
fn service_that_becomes_cluster_ip_loses_address_and_finalizer() -> anyhow::Result<()> {
    scenario("cluster-ip", lab(), async |lab| {
        let vip = served(lab).await?;
        let services: Api<Service> = Api::default_namespaced(lab.client());
        let change = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
        services.patch("web", &PatchParams::default(), &change).await?;
        await_that("the Service has neither finalizer nor address", LIMIT, async || {
            let service = services.get("web").await?;
            ensure!(service.finalizers().is_empty(), "finalizers {:?}", service.finalizers());
            let status = service.status.and_then(|status| status.load_balancer).and_then(|lb| lb.ingress);
            ensure!(status.as_ref().is_none_or(Vec::is_empty), "status {status:?}");
            Ok(Some(()))
        })
        .await?;
        await_withdrawn(lab, vip).await
    })
}

// shows: allocation 56, 57
#[test]
fn exhausted_pool_says_why_and_serves_the_waiting_service_when_an_address_frees() -> anyhow::Result<()> {
    scenario("exhausted", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool_with("tiny", &["192.0.2.200/32"], json!({"quarantineSeconds": 1})).await?;
        lab.load_balancer("first", |_| ()).await?;
        let vip = lab.ingress("first", LIMIT).await?;
        lab.load_balancer("second", |_| ()).await?;
        await_that("an event on the Service says which pool is exhausted", LIMIT, async || {
            let events = lab.events_of("Service", "second").await?;
            let told = events.iter().any(|e| e.starts_with("SyncLoadBalancerFailed: ") && e.contains("tiny"));
            ensure!(told, "events: {events:?}");
            Ok(Some(()))
        })
        .await?;
        let services: Api<Service> = Api::default_namespaced(lab.client());
        services.delete("first", &DeleteParams::default()).await?;
        let second = lab.ingress("second", LIMIT).await?;
        ensure!(second == vip, "the waiting Service got {second}, not the freed {vip}");
        Ok(())
    })
}

// shows: allocation 86, 103
#[test]
fn interface_that_no_node_has_is_named_on_the_service() -> anyhow::Result<()> {
    scenario("no-interface", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.announcement("elsewhere", json!({"interfaces": ["nope0"]})).await?;
        lab.pool("elsewhere", &["192.0.2.200-192.0.2.210"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        await_that("an event on the Service names the interface", LIMIT, async || {
            let events = lab.events_of("Service", "web").await?;
            ensure!(events.iter().any(|event| event.contains("nope0")), "events: {events:?}");
            Ok(Some(()))
        })
        .await
    })
}

/// Waits until the address is nobody's: free or in quarantine, and nobody answers for it.
pub(crate) async fn await_withdrawn(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("{vip} is nobody's"), LIMIT, async || {
        let spec = lab.virtual_ip(vip).await?.map(|vip| vip.spec);
        ensure!(spec.as_ref().is_none_or(|spec| spec.quarantine.is_some()), "its claim is {spec:?}");
        let macs = lab.neighbours("c1", vip).await?;
        ensure!(macs.is_empty(), "{macs:?} answer ARP for it");
        let answer = lab.curl("c1", vip, SERVICE_PORT).await;
        ensure!(answer.is_err(), "the client was answered {answer:?}");
        Ok(Some(()))
    })
    .await
}
