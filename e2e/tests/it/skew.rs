//! Parts of Windlass that are of different versions: what is new is left out of a definition, or of what an agent reports, and what
//! nobody knows yet is put in.

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_api::{NodeNetwork, VirtualRouter};
use windlass_ccm::service::ANNOTATION_SOURCE_RANGES;
use windlass_e2e::{Lab, LoadOptions, SERVICE_PORT, Signal, await_that, scenario};

use crate::setup::{
    LIMIT, annotate, await_answer, await_event, await_verdict, definitions, ingresses, lab, router_of, served,
};

/// The client `c1`.
const C1: &str = "192.0.2.101/32";
/// Of the address that everybody may use.
const CLIENTS: LoadOptions = LoadOptions { connections: 4, requests_per_second: 50 };
/// An agent looks once a minute whether the API server shows what it reports.
const NEXT_REPORT: Duration = Duration::from_mins(2);

// shows: threats T-30
#[test]
fn with_older_definitions_a_service_whose_clients_are_restricted_is_not_announced_and_says_what_helps()
-> anyhow::Result<()> {
    scenario("older-definitions", lab(), async |lab| {
        served(lab).await?;
        forget(lab, "virtualips", "sources").await?;

        lab.same_backend("restricted", "web")?;
        lab.load_balancer("restricted", |service| {
            service.spec.get_or_insert_default().load_balancer_source_ranges =
                Some(vec!["192.0.2.0/24".into()]);
        })
        .await?;
        let words = ["unknown field \"spec.sources", "older version", "kubectl apply -f manifests/crds"];
        await_event(lab, "restricted", "SyncLoadBalancerFailed", &words).await?;
        // Whom nobody restricts is served meanwhile.
        lab.same_backend("open", "web")?;
        lab.load_balancer("open", |_| ()).await?;
        let open = lab.ingress("open", LIMIT).await?;
        lab.await_owner("c1", open).await?;
        let restricted = ingresses(lab, "restricted").await?;
        ensure!(restricted.is_empty(), "it shows {restricted:?}");

        lab.apply(definitions()).await?;
        let address = lab.ingress("restricted", LIMIT).await?;
        let sources = lab.virtual_ip(address).await?.map(|vip| vip.spec.sources).unwrap_or_default();
        ensure!(sources.iter().any(|of_port| of_port.allowed == ["192.0.2.0/24"]), "{sources:?}");
        lab.await_owner("c1", address).await.map(drop)
    })
}

// shows: threats T-30
#[test]
fn while_definitions_that_do_not_know_what_agents_obey_are_served_restricted_addresses_wait_and_open_ones_lose_nothing()
-> anyhow::Result<()> {
    scenario("older-reports", lab(), async |lab| {
        let open = served(lab).await?;
        let restricted = restricted(lab).await?;
        let clients = lab.load("c1", open, SERVICE_PORT, CLIENTS).await?;

        forget(lab, "nodenetworks", "capabilities").await?;
        // A new report, as of another address, is written all the same, without what the definition does not know.
        for (node, address) in [("n1", "198.18.9.1/24"), ("n2", "198.18.9.2/24")] {
            lab.exec(node, &["ip", "address", "add", address, "dev", "eth0"]).await?;
        }
        await_that("the agents say what is left out of their reports", NEXT_REPORT, async || {
            for node in ["n1", "n2"] {
                let log = fs::read_to_string(lab.logs().join(format!("{node}-agent.log")))?;
                ensure!(
                    log.contains("older than this agent") && log.contains("capabilities"),
                    "{node} is silent"
                );
            }
            Ok(Some(()))
        })
        .await?;
        let words = ["n1 (agent ", "SourceRanges", "kubectl apply -f manifests/crds", "update the agents"];
        await_verdict(lab, "default", "restricted", "False NotAnnounced", &words).await?;
        ensure!(ingresses(lab, "restricted").await? == [restricted], "the address stays the Service's");
        lab.same_backend("late", "web")?;
        lab.load_balancer("late", |service| annotate(service, ANNOTATION_SOURCE_RANGES, C1)).await?;
        await_event(lab, "late", "SyncLoadBalancerFailed", &words).await?;
        ensure!(ingresses(lab, "late").await?.is_empty(), "an address that nobody guards is shown");
        await_that("nobody announces the restricted address", LIMIT, async || {
            Ok(lab.neighbours("c1", restricted).await?.is_empty().then_some(()))
        })
        .await?;

        lab.apply(definitions()).await?;
        await_that("the restricted address is announced again", NEXT_REPORT, async || {
            Ok((!lab.neighbours("c1", restricted).await?.is_empty()).then_some(()))
        })
        .await?;
        await_answer(lab, restricted).await?;
        for service in ["restricted", "late"] {
            await_verdict(lab, "default", service, "True Allocated", &[]).await?;
        }
        let seen = clients.stop()?;
        ensure!((seen.failed, seen.broken) == (0, 0), "clients of the open address saw {seen:?}");
        Ok(())
    })
}

// shows: threats T-31
#[test]
fn an_agent_that_does_not_say_that_it_obeys_source_ranges_is_no_candidate_of_restricted_addresses_until_it_does()
-> anyhow::Result<()> {
    scenario("older-agent", lab(), async |lab| {
        let open = served(lab).await?;
        let restricted = restricted(lab).await?;
        for vip in [open, restricted] {
            await_candidates(lab, vip, &["n1", "n2"]).await?;
        }
        // As an older agent would report, and then one that knows only what nobody here does.
        lab.stop_agent("n2", Signal::SIGTERM).await?;
        for capabilities in [json!(null), json!(["Unheard"])] {
            report(lab, "n2", &json!({ "agentVersion": "0.0.1", "capabilities": capabilities })).await?;
            await_candidates(lab, restricted, &["n1"]).await?;
            await_candidates(lab, open, &["n1", "n2"]).await?;
        }
        await_answer(lab, restricted).await?;
        lab.start_agent("n2")?;
        await_candidates(lab, restricted, &["n1", "n2"]).await?;
        lab.stop_agent("n1", Signal::SIGTERM).await?;
        await_answer(lab, restricted).await
    })
}

// shows: threats T-31
#[test]
fn definitions_and_reports_of_a_newer_version_change_nothing_for_what_does_not_know_them()
-> anyhow::Result<()> {
    scenario("newer-definitions", lab(), async |lab| {
        let open = served(lab).await?;
        let restricted = restricted(lab).await?;
        let clients = lab.load("c1", open, SERVICE_PORT, CLIENTS).await?;
        for kind in ["nodenetworks", "virtualrouters"] {
            change(lab, kind, |spec| {
                spec.properties.get_or_insert_default().insert("unheard".into(), text());
            })
            .await?;
            await_that(&format!("the newer definition of {kind} is served"), LIMIT, async || {
                Ok(lab.kubectl(&["explain", &format!("{kind}.spec.unheard")]).await.ok())
            })
            .await?;
        }
        let unheard = json!({ "unheard": "of", "capabilities": ["SourceRanges", "Unheard"] });
        lab.stop_agent("n2", Signal::SIGTERM).await?;
        report(lab, "n2", &unheard).await?;
        let routers: Api<VirtualRouter> = Api::all(lab.client());
        for vip in [open, restricted] {
            let name = router_of(lab, vip).await?.metadata.name.context("a name")?;
            let patch = Patch::Merge(json!({ "spec": { "unheard": "of" } }));
            routers.patch(&name, &PatchParams::default().validation_strict(), &patch).await?;
        }
        await_candidates(lab, restricted, &["n1", "n2"]).await?;
        lab.start_agent("n2")?;
        // The agent writes its own report, and the controller its own fields, over it.
        await_that("the report of n2 is that of its agent again", NEXT_REPORT, async || {
            let shown =
                lab.kubectl(&["get", "nodenetwork", "n2", "-o", "jsonpath={.spec.capabilities}"]).await?;
            ensure!(!shown.contains("Unheard"), "{shown}");
            Ok(Some(()))
        })
        .await?;
        lab.stop_agent("n1", Signal::SIGTERM).await?;
        for vip in [open, restricted] {
            await_answer(lab, vip).await?;
        }
        let seen = clients.stop()?;
        ensure!(seen.failed == 0, "clients of the open address saw {seen:?}");
        Ok(())
    })
}

/// A Service for which only the nodes keep out everybody but `c1`, beside that of [`served`]; its address.
async fn restricted(lab: &Lab) -> anyhow::Result<IpAddr> {
    lab.same_backend("restricted", "web")?;
    lab.load_balancer("restricted", |service| annotate(service, ANNOTATION_SOURCE_RANGES, C1)).await?;
    let vip = lab.ingress("restricted", LIMIT).await?;
    await_answer(lab, vip).await?;
    Ok(vip)
}

/// Waits until these nodes, and no other, are candidates of an address' virtual router.
async fn await_candidates(lab: &Lab, vip: IpAddr, expected: &[&str]) -> anyhow::Result<()> {
    await_that(&format!("the candidates of {vip} are {expected:?}"), LIMIT, async || {
        let mut nodes: Vec<String> =
            router_of(lab, vip).await?.spec.nodes.into_iter().map(|node| node.name).collect();
        nodes.sort();
        ensure!(nodes == expected, "they are {nodes:?}");
        Ok(Some(()))
    })
    .await
}

/// Changes what a node reports.
async fn report(lab: &Lab, node: &str, spec: &serde_json::Value) -> anyhow::Result<()> {
    let networks: Api<NodeNetwork> = Api::all(lab.client());
    let patch = Patch::Merge(json!({ "spec": spec }));
    networks.patch(node, &PatchParams::default().validation_strict(), &patch).await.map(drop)?;
    Ok(())
}

fn text() -> JSONSchemaProps {
    JSONSchemaProps { type_: Some("string".into()), ..JSONSchemaProps::default() }
}

/// Has the API server serve a definition that does not know a field of `spec`.
async fn forget(lab: &Lab, kind: &str, field: &str) -> anyhow::Result<()> {
    change(lab, kind, |spec| {
        spec.properties.as_mut().and_then(|fields| fields.remove(field));
    })
    .await?;
    await_that("the older definition is served", LIMIT, async || {
        let explained = lab.kubectl(&["explain", &format!("{kind}.spec.{field}")]).await;
        Ok(explained.is_err().then_some(()))
    })
    .await
}

/// Changes the schema of `spec` in a definition.
async fn change(lab: &Lab, kind: &str, change: impl Fn(&mut JSONSchemaProps)) -> anyhow::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(lab.client());
    let name = format!("{kind}.windlass.dev");
    let mut crd = crds.get(&name).await?;
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        let spec = schema.and_then(|schema| schema.properties.as_mut()?.get_mut("spec"));
        change(spec.with_context(|| format!("{name} has no spec"))?);
    }
    crds.replace(&name, &PostParams::default(), &crd).await?;
    Ok(())
}
