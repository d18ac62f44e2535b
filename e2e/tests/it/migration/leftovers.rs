//! What a predecessor has left in a status, and what a controller that lives writes there.

use anyhow::ensure;
use k8s_openapi::{api::core::v1::Service, jiff::Timestamp};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use windlass_api::LOAD_BALANCER_CLASS;
use windlass_e2e::{ControllerOptions, Lab, await_that, scenario};

use super::await_allocated;
use crate::setup::{LIMIT, await_event, lab};

/// Another controller puts these entries behind those that are not its own.
async fn write(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let services: Api<Service> = Api::default_namespaced(lab.client());
    let mut all = entries(lab, name).await?;
    all.retain(|entry| !theirs().contains(entry));
    all.extend(theirs());
    let params = PatchParams { field_manager: Some("old-balancer".into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "status": { "loadBalancer": { "ingress": all } } }));
    services.patch_status(name, &params, &patch).await?;
    Ok(())
}

fn theirs() -> [Value; 2] {
    [json!({ "ip": "203.0.113.9", "ipMode": "VIP" }), json!({ "hostname": "lb.example.com" })]
}

async fn entries(lab: &Lab, name: &str) -> anyhow::Result<Vec<Value>> {
    let services: Api<Service> = Api::default_namespaced(lab.client());
    let status = services.get(name).await?.status.and_then(|status| status.load_balancer);
    let entries = status.and_then(|status| status.ingress).unwrap_or_default();
    Ok(entries.iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
}

/// Waits until the Service shows an address of its own, and behind it theirs or nothing.
async fn await_entries(lab: &Lab, name: &str, with_theirs: bool) -> anyhow::Result<()> {
    let what = if with_theirs { "and theirs" } else { "alone" };
    await_that(&format!("{name} shows its own address {what}"), LIMIT, async || {
        let shown = entries(lab, name).await?;
        let own = shown.first().and_then(|first| first["ip"].as_str());
        let rest = if with_theirs { &theirs()[..] } else { &[] };
        let right = own.is_some_and(|own| own.starts_with("192.0.2.2")) && shown[1..] == *rest;
        ensure!(right, "it shows {shown:?}");
        Ok(Some(()))
    })
    .await
}

#[test]
fn what_a_predecessor_left_goes_once_and_what_a_living_controller_writes_again_stays() -> anyhow::Result<()> {
    scenario("migration-leftovers", lab(), async |lab| {
        lab.install_manifests().await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        for (name, class) in [("web", None), ("classed", Some(LOAD_BALANCER_CLASS.to_owned()))] {
            lab.load_balancer(name, |service| {
                service.spec.get_or_insert_default().load_balancer_class = class;
            })
            .await?;
            write(lab, name).await?;
        }
        let services: Api<Service> = Api::default_namespaced(lab.client());
        // What was written in the second in which Windlass claims an address may be younger than the claim, and stays.
        let written = services.get("classed").await?;
        let written =
            written.managed_fields().iter().filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max();
        await_that("the second of these writes is over", LIMIT, async || {
            Ok(written.is_none_or(|written| Timestamp::now().as_second() > written.as_second()).then_some(()))
        })
        .await?;
        // Nobody announces anything yet: what was there may still work.
        lab.start_controller(ControllerOptions::default())?;
        await_that("both are Windlass' to serve", LIMIT, async || {
            for name in ["web", "classed"] {
                let service = services.get(name).await?;
                ensure!(!service.finalizers().is_empty(), "{name} has no finalizer");
                ensure!(entries(lab, name).await? == theirs(), "{name} shows something else");
            }
            Ok(Some(()))
        })
        .await?;
        for node in ["n1", "n2"] {
            lab.start_agent(node)?;
        }
        for name in ["web", "classed"] {
            await_allocated(lab, name).await?;
            await_entries(lab, name, false).await?;
            let words = ["203.0.113.9", "lb.example.com", "old-balancer"];
            await_event(lab, name, "ForeignIngressRemoved", &words).await?;
        }

        // It lives, and writes them again: then they stay with the classless Service, and with that alone.
        for name in ["web", "classed"] {
            write(lab, name).await?;
        }
        await_entries(lab, "classed", false).await?;
        await_entries(lab, "web", true).await?;
        // Also for a controller that knows nothing of all this, and when the Service changes.
        let before = services.get("web").await?.resource_version();
        lab.stop_controller("controller", Signal::SIGTERM).await?;
        lab.start_controller(ControllerOptions::default())?;
        lab.load_balancer("seen", |_| ()).await?;
        lab.ingress("seen", LIMIT).await?;
        let after = services.get("web").await?.resource_version();
        ensure!(after == before, "the new controller has written it");
        let named = json!({ "metadata": { "annotations": { "windlass.dev/addresses": "192.0.2.249" } } });
        services.patch("web", &PatchParams::default(), &Patch::Merge(named)).await?;
        await_that("web has the address that it names", LIMIT, async || {
            let shown = entries(lab, "web").await?;
            Ok((shown.first().map(|first| &first["ip"]) == Some(&json!("192.0.2.249"))).then_some(()))
        })
        .await?;
        await_entries(lab, "web", true).await?;
        await_entries(lab, "classed", false).await
    })
}
