//! Controllers that die, start again, and work at cross purposes: no address changes hands, is doubled or lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use futures::try_join;
use k8s_openapi::{
    api::core::v1::{Event, Node, Service},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use windlass_api::{
    ANNOTATION_POOL, CONDITION_CONNECTIONS_REPLICATED, NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter,
};
use windlass_e2e::{ControllerOptions, Lab, Signal, await_that, scenario, soak::Random};

use crate::setup::{LIMIT, annotate, await_answer, await_ingresses, await_verdict, lab, served, services};

// shows: allocation 78; field-reports F-01
#[test]
fn restarted_controller_changes_no_address_and_writes_nothing() -> anyhow::Result<()> {
    scenario("controller-restart", lab(), async |lab| {
        let vip = served(lab).await?;
        for name in ["two", "gone"] {
            lab.load_balancer(name, |_| ()).await?;
            lab.ingress(name, LIMIT).await?;
        }
        services(lab, "default").delete("gone", &DeleteParams::default()).await?;
        // One that waits for a pool, and one that waits for its other family.
        lab.load_balancer("waiting", |service| annotate(service, ANNOTATION_POOL, "absent")).await?;
        await_verdict(lab, "default", "waiting", "False NoSuchPool", &["absent"]).await?;
        lab.load_balancer("partial", |service| {
            service.spec.get_or_insert_default().ip_family_policy = Some("PreferDualStack".into());
        })
        .await?;
        await_ingresses(lab, "partial", 1).await?;
        await_verdict(lab, "default", "partial", "True FamilyMissing", &["IPv6"]).await?;

        let before = settled(lab).await?;
        for (round, signal) in
            [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGKILL, Signal::SIGKILL, Signal::SIGKILL]
                .iter()
                .enumerate()
        {
            lab.stop_controller("controller", *signal).await?;
            // It would otherwise wait until the lease of the killed one has run out.
            let flags = vec!["--leader-elect=false".into()];
            lab.start_controller(ControllerOptions { flags, ..ControllerOptions::default() })?;
            // A Service that only the new controller can have served, so it has seen all the others by then.
            let name = format!("after-{round}");
            lab.load_balancer(&name, |_| ()).await?;
            lab.ingress(&name, LIMIT).await?;
            let after = settled(lab).await?;
            for (object, version) in before.iter().filter(|(object, _)| !object.starts_with("VirtualIPPool "))
            {
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

/// Versions of the objects once two looks in a row are alike, and all that is said of addresses has been said.
async fn settled(lab: &Lab) -> anyhow::Result<BTreeMap<String, String>> {
    let vips: Api<VirtualIP> = Api::all(lab.client());
    let mut last = BTreeMap::new();
    await_that("the cluster has settled", LIMIT, async || {
        for vip in vips.list(&ListParams::default()).await?.items.iter().filter(|vip| vip.is_placed()) {
            let conditions = vip.status.iter().flat_map(|status| &status.conditions);
            let is_said =
                |one: &&Condition| one.type_ == CONDITION_CONNECTIONS_REPLICATED && one.status == "True";
            ensure!(
                conditions.filter(is_said).count() == 1,
                "connections to {} are not replicated",
                vip.spec.address
            );
        }
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
    collect!(Service, Node, VirtualIPPool, VirtualIP, VirtualRouter, NodeNetwork);
    let events: Api<Event> = Api::all(lab.client());
    for event in events.list(&ListParams::default()).await?.items {
        let about = &event.involved_object;
        let (kind, name) = (about.kind.clone().unwrap_or_default(), about.name.clone().unwrap_or_default());
        let version = event.resource_version().unwrap_or_default();
        versions.insert(format!("Event {} on {kind} {name}", event.name_any()), version);
    }
    Ok(versions)
}

/// How often a controller is killed.
const KILLS: u32 = 20;
/// How many Services there are at a time.
const SERVICES: usize = 100;

// shows: allocation 111
#[test]
fn two_controllers_killed_at_any_moment_give_no_address_twice_and_leak_none() -> anyhow::Result<()> {
    scenario("two-controllers", Lab::builder().nodes(1).light(), async |lab| {
        lab.install_manifests().await?;
        let at_once = json!({"quarantineSeconds": 0});
        lab.pool_with("default", &["192.0.2.110-192.0.2.250"], at_once).await?;
        lab.start_agent("n1")?;
        for name in ["first", "second"] {
            start(lab, name)?;
        }
        let over = AtomicBool::new(false);
        try_join!(
            async {
                let killed = kill_controllers(lab).await;
                over.store(true, Ordering::Relaxed);
                killed
            },
            change_services(lab, &over),
            watch_addresses(lab, &over),
        )?;
        await_that(
            "each Service has one address, and no other address is held",
            Duration::from_mins(2),
            async || {
                make_those_missing(lab).await?;
                let claims = claims(lab).await?;
                let given = given(lab).await?;
                ensure!(given.len() == SERVICES, "{} of {SERVICES} Services have an address", given.len());
                for (address, uid) in &given {
                    let owners =
                        claims.get(address).with_context(|| format!("nobody has claimed {address}"))?;
                    ensure!(
                        owners.as_slice() == std::slice::from_ref(uid),
                        "{address} of Service {uid} is claimed for {owners:?}"
                    );
                }
                let leaked: Vec<_> = claims.keys().filter(|address| !given.contains_key(address)).collect();
                ensure!(leaked.is_empty(), "no Service has {leaked:?}");
                Ok(Some(()))
            },
        )
        .await
    })
}

fn start(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let http_port = if name == "first" { 10258 } else { 10268 };
    let flags = vec!["--leader-elect=false".into()];
    lab.start_controller(ControllerOptions { name: name.into(), http_port, flags })
}

/// Kills one or the other, again and again, each time after another pause.
async fn kill_controllers(lab: &Lab) -> anyhow::Result<()> {
    let mut random = Random(20);
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(100 + random.below(900))).await;
        let name = if random.below(2) == 0 { "first" } else { "second" };
        lab.stop_controller(name, Signal::SIGKILL).await?;
        start(lab, name)?;
    }
    Ok(())
}

/// Makes the Services, then deletes and makes again one after another until it is `over`.
async fn change_services(lab: &Lab, over: &AtomicBool) -> anyhow::Result<()> {
    let mut random = Random(5);
    for index in 0..SERVICES {
        make(lab, index).await?;
    }
    let api = services(lab, "default");
    while !over.load(Ordering::Relaxed) {
        let index = usize::try_from(random.below(100))? % SERVICES;
        let name = format!("s{index}");
        api.delete(&name, &DeleteParams::default()).await?;
        await_that(&format!("Service {name} is gone"), LIMIT, async || {
            let left = api.get_opt(&name).await?;
            ensure!(
                left.is_none(),
                "its finalizers are {:?}",
                left.map(|service| service.finalizers().to_vec())
            );
            Ok(Some(()))
        })
        .await?;
        make(lab, index).await?;
    }
    Ok(())
}

async fn make(lab: &Lab, index: usize) -> anyhow::Result<()> {
    let service: Service = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": format!("s{index}"), "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "allocateLoadBalancerNodePorts": false},
    }))?;
    services(lab, "default").create(&PostParams::default(), &service).await?;
    Ok(())
}

/// Makes the Services again that the API server deleted beside the one it was asked to. Two controllers without an election may remove
/// the last finalizer of a Service at the same time; the API server deletes for each of them by name, the second time perhaps the Service
/// that was made under this name since (`deleteWithoutFinalizers` in `registry/generic/registry/store.go`).
async fn make_those_missing(lab: &Lab) -> anyhow::Result<()> {
    let there = services(lab, "default").list(&ListParams::default()).await?.items;
    let there: BTreeSet<String> = there.iter().map(kube::ResourceExt::name_any).collect();
    for index in (0..SERVICES).filter(|index| !there.contains(&format!("s{index}"))) {
        make(lab, index).await?;
    }
    Ok(())
}

/// Looks all the time whether two Services have one address.
async fn watch_addresses(lab: &Lab, over: &AtomicBool) -> anyhow::Result<()> {
    while !over.load(Ordering::Relaxed) {
        given(lab).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// The addresses that Services show, with the UID of the Service.
async fn given(lab: &Lab) -> anyhow::Result<BTreeMap<IpAddr, String>> {
    let mut given = BTreeMap::new();
    for service in services(lab, "default").list(&ListParams::default()).await?.items {
        let (name, uid) = (service.name_any(), service.uid().unwrap_or_default());
        let status = service.status.and_then(|status| status.load_balancer);
        for entry in status.and_then(|status| status.ingress).unwrap_or_default() {
            let address = entry.ip.context("an ingress without address")?.parse()?;
            if let Some(other) = given.insert(address, uid.clone()) {
                anyhow::bail!("{address} was given to Service {name} and to that with UID {other}");
            }
        }
    }
    Ok(given)
}

/// Every claimed address with the UIDs of its owners.
async fn claims(lab: &Lab) -> anyhow::Result<BTreeMap<IpAddr, Vec<String>>> {
    let claims = Api::<VirtualIP>::all(lab.client()).list(&ListParams::default()).await?.items.into_iter();
    let uids = |vip: &VirtualIP| vip.spec.owners.iter().map(|owner| owner.uid.clone()).collect();
    Ok(claims.map(|vip| (vip.spec.address, uids(&vip))).collect())
}
