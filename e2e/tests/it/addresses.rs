//! Which address a Service gets, when it gets none, and that it never changes by itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use windlass_api::{IPPool, NodeNetwork, VirtualIP, VirtualRouter};
use windlass_e2e::{ControllerOptions, Lab, Protocol, SERVICE_PORT, Signal, await_that, scenario};

use crate::setup::{LIMIT, await_answer, lab, served};

#[test]
fn deleted_service_gives_its_address_back() -> anyhow::Result<()> {
    scenario("deleted", lab(), async |lab| {
        let vip = served(lab).await?;
        let services: Api<Service> = Api::default_namespaced(lab.client());
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(1))?;
        let begin = Instant::now();
        await_that("the probe is answered", LIMIT, async || {
            Ok(Some(lab.curl("c1", vip, SERVICE_PORT).await?))
        })
        .await?;
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

#[test]
fn exhausted_pool_says_why_and_serves_the_waiting_service_when_an_address_frees() -> anyhow::Result<()> {
    scenario("exhausted", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("tiny", &["192.0.2.200/32"]).await?;
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

#[test]
fn interface_that_no_node_has_is_named_on_the_service() -> anyhow::Result<()> {
    scenario("no-interface", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("elsewhere", &["192.0.2.200-192.0.2.210"]).await?;
        let pools: Api<IPPool> = Api::all(lab.client());
        let change = Patch::Merge(json!({"spec": {"interface": "nope0"}}));
        pools.patch("elsewhere", &PatchParams::default(), &change).await?;
        lab.load_balancer("web", |_| ()).await?;
        await_that("an event on the Service names the interface", LIMIT, async || {
            let events = lab.events_of("Service", "web").await?;
            ensure!(events.iter().any(|event| event.contains("nope0")), "events: {events:?}");
            Ok(Some(()))
        })
        .await
    })
}

#[test]
fn restarted_controller_changes_no_address_and_writes_nothing() -> anyhow::Result<()> {
    scenario("controller-restart", lab(), async |lab| {
        let vip = served(lab).await?;
        for name in ["two", "three"] {
            lab.load_balancer(name, |_| ()).await?;
            lab.ingress(name, LIMIT).await?;
        }
        let before = settled(lab).await?;
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            lab.stop_controller("controller", signal).await?;
            lab.start_controller(ControllerOptions::default())?;
            // A Service that only the new controller can have served, so it has seen all the others by then.
            let name = format!("after-{}", signal.as_str().to_lowercase());
            lab.load_balancer(&name, |_| ()).await?;
            lab.ingress(&name, LIMIT).await?;
            let after = versions(lab).await?;
            for (object, version) in before.iter().filter(|(object, _)| !object.starts_with("IPPool ")) {
                // (The pool counts the Service that was made just now.)
                let now = after.get(object);
                ensure!(now == Some(version), "{object} was at version {version} and is at {now:?}");
            }
            let events: BTreeSet<_> = after.keys().filter(|k| k.starts_with("Event ")).collect();
            let others = events.iter().filter(|k| !before.contains_key(**k) && !k.contains("after-"));
            let others: Vec<_> = others.filter(|k| k.contains("Service")).collect();
            ensure!(others.is_empty(), "the restart made events: {others:?}");
        }
        await_answer(lab, vip).await
    })
}

#[test]
fn two_controllers_at_once_give_no_address_twice_and_leak_none() -> anyhow::Result<()> {
    const SERVICES: usize = 24;
    scenario("two-controllers", lab(), async |lab| {
        lab.install_manifests().await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.start_agent("n1")?;
        for (name, http_port) in [("first", 10258), ("second", 10268)] {
            let flags = vec!["--leader-elect=false".into()];
            lab.start_controller(ControllerOptions { name: name.into(), http_port, flags })?;
        }
        let mut addresses = BTreeMap::<IpAddr, String>::new();
        for i in 0..SERVICES {
            lab.load_balancer(&format!("s{i}"), |_| ()).await?;
        }
        for i in 0..SERVICES {
            let name = format!("s{i}");
            let address = lab.ingress(&name, LIMIT).await?;
            if let Some(owner) = addresses.insert(address, name.clone()) {
                anyhow::bail!("{address} was given to {owner} and to {name}");
            }
        }
        await_that("there is one VirtualIP for each Service", LIMIT, async || {
            let all: Api<VirtualIP> = Api::all(lab.client());
            let all = all.list(&ListParams::default()).await?.items;
            for vip in &all {
                let owners: Vec<_> = vip.spec.owners.iter().map(|owner| &owner.name).collect();
                let given = addresses.get(&vip.spec.address);
                ensure!(owners.len() == 1 && given == Some(owners[0]), "{}: {owners:?}", vip.spec.address);
            }
            ensure!(all.len() == SERVICES, "{} VirtualIPs for {SERVICES} Services", all.len());
            Ok(Some(()))
        })
        .await
    })
}

/// Waits until nothing of the address is left: no object, and nobody who answers for it.
async fn await_withdrawn(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("nothing is left of {vip}"), LIMIT, async || {
        ensure!(lab.virtual_ip(vip).await?.is_none(), "its VirtualIP is there");
        let macs = lab.arping("c1", vip).await?;
        ensure!(macs.is_empty(), "{macs:?} answer ARP for it");
        let answer = lab.curl("c1", vip, SERVICE_PORT).await;
        ensure!(answer.is_err(), "the client was answered {answer:?}");
        Ok(Some(()))
    })
    .await
}

/// Versions of the objects once two looks in a row are alike.
async fn settled(lab: &Lab) -> anyhow::Result<BTreeMap<String, String>> {
    let mut last = BTreeMap::new();
    await_that("the cluster has settled", LIMIT, async || {
        let now = versions(lab).await?;
        Ok(if std::mem::replace(&mut last, now.clone()) == now { Some(now) } else { None })
    })
    .await
}

/// Every object that Windlass could write, but its lease, with its resource version.
async fn versions(lab: &Lab) -> anyhow::Result<BTreeMap<String, String>> {
    let mut versions = BTreeMap::new();
    macro_rules! collect {
        ($($kind:ty),*) => {$(
            let all: Api<$kind> = Api::all(lab.client());
            for object in all.list(&ListParams::default()).await?.items {
                let version = object.resource_version().unwrap_or_default();
                versions.insert(format!("{} {}", <$kind as kube::Resource>::kind(&()), object.name_any()), version);
            }
        )*};
    }
    collect!(Service, Node, IPPool, VirtualIP, VirtualRouter, NodeNetwork);
    let events: Api<Event> = Api::all(lab.client());
    for event in events.list(&ListParams::default()).await?.items {
        let about = &event.involved_object;
        let (kind, name) = (about.kind.clone().unwrap_or_default(), about.name.clone().unwrap_or_default());
        let version = event.resource_version().unwrap_or_default();
        versions.insert(format!("Event {} on {kind} {name}", event.name_any()), version);
    }
    Ok(versions)
}
