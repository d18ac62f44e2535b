//! Nonsense in every field that is read, on a real API server: what it lets through is told on the object concerned, and
//! what is in order beside it works throughout.

mod objects;
mod services;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{Announcement, CONDITION_APPLIED, NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_e2e::{ControllerOptions, Lab, Writes, await_that, scenario};

use crate::setup::{LIMIT, await_answer, await_verdict, lab, services as services_of};

/// Lines of the log that may be alike, but for their time.
const ALIKE: usize = 3;

#[test]
fn nonsense_is_told_where_it_stands_and_harms_nothing_else() -> anyhow::Result<()> {
    scenario("bad-input", lab(), async |lab| {
        lab.install_manifests().await?;
        let flags = vec!["--compat-annotations".to_owned()];
        lab.start_controller(ControllerOptions { flags, ..ControllerOptions::default() })?;
        lab.start_agent("n1")?;
        lab.start_agent("n2")?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        await_answer(lab, vip).await?;

        objects::refused(lab).await?;
        objects::let_through(lab).await?;
        let cases = services::cases(&vip.to_string());
        for (index, case) in cases.iter().enumerate() {
            make(lab, &name(index), &case.metadata, &case.spec).await?;
        }
        for (index, case) in cases.iter().enumerate() {
            let shown = format!("{} {}", case.metadata, case.spec).chars().take(300).collect::<String>();
            await_verdict(lab, "default", &name(index), &format!("False {}", case.reason), &case.words)
                .await
                .with_context(|| shown)?;
        }
        objects::told(lab).await?;

        // It rests: what is wrong is not written again, while what is in order goes on to be served.
        // (What pools say besides comes a moment after their verdict.)
        Writes::settled(&lab.client()).await?;
        let before = versions(lab).await?;
        for late in ["late-1", "late-2", "late-3"] {
            lab.same_backend(late, "web")?;
            lab.load_balancer(late, |_| ()).await?;
            await_answer(lab, lab.ingress(late, LIMIT).await?).await?;
        }
        let after = versions(lab).await?;
        for (object, version) in &before {
            ensure!(after.get(object) == Some(version), "{object} was written again");
        }
        await_answer(lab, vip).await?;
        repeats_nothing(lab)
    })
}

/// Name of the Service of a case.
fn name(index: usize) -> String {
    format!("bad-{index}")
}

/// Makes a Service of type LoadBalancer with this metadata and spec besides.
async fn make(lab: &Lab, name: &str, metadata: &Value, spec: &Value) -> anyhow::Result<()> {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec,
    });
    service["metadata"]["name"] = name.into();
    service["spec"]["type"] = "LoadBalancer".into();
    if service["spec"]["ports"].is_null() {
        service["spec"]["ports"] = json!([{"port": 80}]);
    }
    let service: Service = serde_json::from_value(service)?;
    let api = services_of(lab, "default");
    api.create(&PostParams::default(), &service).await.with_context(|| format!("making Service {name}"))?;
    Ok(())
}

/// The versions of all Services with nonsense, of all pools and of all Announcements.
async fn versions(lab: &Lab) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let bad = services_of(lab, "default").list(&ListParams::default()).await?.items;
    let bad = bad.into_iter().filter(|service| service.name_any().starts_with("bad-"));
    let pools = Api::<VirtualIPPool>::all(lab.client()).list(&ListParams::default()).await?.items;
    // The good one is written with every Service that it serves.
    let pools = pools.into_iter().filter(|pool| pool.name_any() != "default");
    let services = bad.map(|one| (format!("Service {}", one.name_any()), one.resource_version()));
    let pools = pools.map(|one| (format!("VirtualIPPool {}", one.name_any()), one.resource_version()));
    let announcements = Api::<Announcement>::all(lab.client()).list(&ListParams::default()).await?.items;
    // Those that select the good addresses tell how many there are, or name some of them.
    let announcements =
        announcements.into_iter().filter(|one| !["applies", "comes-later"].contains(&&*one.name_any()));
    let announcements =
        announcements.map(|one| (format!("Announcement {}", one.name_any()), one.resource_version()));
    Ok(services.chain(pools).chain(announcements).collect())
}

/// Checks that neither the controller nor the agents panicked or say one thing over and over.
fn repeats_nothing(lab: &Lab) -> anyhow::Result<()> {
    for log in ["cp-controller.log", "n1-agent.log", "n2-agent.log"] {
        let text = std::fs::read_to_string(lab.logs().join(log)).with_context(|| format!("reading {log}"))?;
        ensure!(!text.contains("panicked"), "{log}: {text}");
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for line in text.lines() {
            let said = line.split_once(' ').map_or(line, |(_, said)| said.trim());
            *counts.entry(said).or_default() += 1;
        }
        let often: BTreeSet<_> = counts.iter().filter(|(_, count)| **count > ALIKE).collect();
        ensure!(often.is_empty(), "{log} says over and over: {often:?}");
    }
    Ok(())
}

/// The API of a kind, for objects that the kind's own type could not hold.
fn dynamic<K: Resource<DynamicType = ()>>(lab: &Lab) -> (Api<DynamicObject>, ApiResource) {
    let resource = ApiResource::erase::<K>(&());
    (Api::all_with(lab.client(), &resource), resource)
}

/// Makes an object of kind `kind`, which need not be as the kind's own type has it.
async fn make_any(lab: &Lab, kind: &str, name: &str, body: &Value) -> anyhow::Result<()> {
    let (api, resource) = match kind {
        "VirtualIPPool" => dynamic::<VirtualIPPool>(lab),
        "Announcement" => dynamic::<Announcement>(lab),
        "VirtualIP" => dynamic::<VirtualIP>(lab),
        "VirtualRouter" => dynamic::<VirtualRouter>(lab),
        "NodeNetwork" => dynamic::<NodeNetwork>(lab),
        _ => anyhow::bail!("{kind} is no kind of Windlass"),
    };
    let object = DynamicObject::new(name, &resource).data(body.clone());
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Waits until the pool's condition `Ready` is this, with a message that says all of `words`.
async fn await_ready(lab: &Lab, pool: &str, verdict: &str, words: &[&str]) -> anyhow::Result<()> {
    let pools: Api<VirtualIPPool> = Api::all(lab.client());
    await_that(&format!("pool {pool} is {verdict}, {words:?}"), LIMIT, async || {
        let conditions = pools.get(pool).await?.status.unwrap_or_default().conditions;
        let ready =
            conditions.iter().find(|one| one.type_ == "Ready").context("it has no condition Ready")?;
        let told = format!("{} {}", ready.status, ready.reason) == verdict
            && words.iter().all(|word| ready.message.contains(word));
        ensure!(told, "it is {ready:?}");
        Ok(Some(()))
    })
    .await
}

/// Waits until the Announcement's condition `Applied` is this.
async fn await_applied(lab: &Lab, name: &str, verdict: &str) -> anyhow::Result<()> {
    let announcements: Api<Announcement> = Api::all(lab.client());
    await_that(&format!("Announcement {name} is {verdict}"), LIMIT, async || {
        let conditions = announcements.get(name).await?.status.unwrap_or_default().conditions;
        let applied = conditions
            .iter()
            .find(|one| one.type_ == CONDITION_APPLIED)
            .context("it has no condition Applied")?;
        ensure!(format!("{} {}", applied.status, applied.reason) == verdict, "it is {applied:?}");
        Ok(Some(()))
    })
    .await
}
