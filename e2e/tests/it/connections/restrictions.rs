//! Who may reach a Service, and which backend a client has, across the death of the node that announces the address.

use std::{collections::BTreeSet, net::IpAddr};

use anyhow::{Context as _, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use windlass_e2e::{Lab, LoadOptions, Protocol, SERVICE_PORT, await_that, scenario};

use super::{await_owner, await_replicated, replicate};
use crate::setup::{LIMIT, services};

const CLIENTS: LoadOptions = LoadOptions { connections: 10, requests_per_second: 0 };
/// Of one client, each on a connection of its own. Without affinity they would hardly all reach one of three backends.
const QUESTIONS: usize = 12;
const C1: &str = "192.0.2.101/32";
const C2: &str = "192.0.2.102/32";

#[test]
fn source_ranges_and_session_affinity_hold_when_connections_outlive_the_active() -> anyhow::Result<()> {
    let lab = Lab::builder().nodes(5).client("c1").client("c2").light();
    scenario("connections-restricted", lab, async |lab| {
        replicate(lab, &["n1", "n2"]).await?;
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &["n3", "n4", "n5"]).await?;
        lab.load_balancer("web", |service| {
            let spec = service.spec.get_or_insert_default();
            spec.session_affinity = Some("ClientIP".into());
            spec.load_balancer_source_ranges = Some(vec![C1.into()]);
        })
        .await?;
        let vip = lab.ingress("web", LIMIT).await?;
        await_replicated(lab, &[vip], "n1", "n2").await?;
        await_let_in(lab, vip, "c1").await?;
        shut(lab, vip, "c2").await?;
        one_backend(lab, vip).await?;
        let (first, second) = (
            lab.load("c1", vip, SERVICE_PORT, CLIENTS).await?,
            lab.load("c1", vip, SERVICE_PORT, CLIENTS).await?,
        );
        await_that("n2 knows the connections", LIMIT, async || {
            let known = lab.tracked("n2", Protocol::Tcp, vip).await?;
            let all = first.ports().into_iter().chain(second.ports());
            Ok(all.into_iter().all(|port| known.contains(&port)).then_some(()))
        })
        .await?;

        lab.node("n1")?.pull_cable()?;
        await_owner(lab, &[vip], "n2").await?;
        let seen = first.stop()?;
        ensure!((seen.connections, seen.broken) == (10, 0), "{seen:?}");
        shut(lab, vip, "c2").await.context("n2 announces")?;
        one_backend(lab, vip).await.context("n2 announces")?;

        // Whom the ranges let in no more, they do not on a connection from before either.
        let change = json!({"spec": {"loadBalancerSourceRanges": [C2]}});
        services(lab, "default").patch("web", &PatchParams::default(), &Patch::Merge(change)).await?;
        await_let_in(lab, vip, "c2").await?;
        shut(lab, vip, "c1").await?;
        let seen = second.stop()?;
        ensure!((seen.connections, seen.broken) == (10, 10), "{seen:?}");
        Ok(())
    })
}

async fn await_let_in(lab: &Lab, vip: IpAddr, client: &str) -> anyhow::Result<()> {
    await_that(&format!("{client} is let in"), LIMIT, async || {
        lab.curl(client, vip, SERVICE_PORT).await.map(|_| Some(()))
    })
    .await
}

async fn shut(lab: &Lab, vip: IpAddr, client: &str) -> anyhow::Result<()> {
    match lab.curl(client, vip, SERVICE_PORT).await {
        Ok(answer) => anyhow::bail!("{answer} answers {client}, which is not let in"),
        Err(error) => {
            let text = format!("{error:#}").to_lowercase();
            ensure!(text.contains("timed out") || text.contains("timeout"), "{text}");
            Ok(())
        }
    }
}

/// All that `c1` begins reaches one backend.
async fn one_backend(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let mut backends = BTreeSet::new();
    for _ in 0..QUESTIONS {
        backends.insert(lab.curl("c1", vip, SERVICE_PORT).await?);
    }
    ensure!(backends.len() == 1, "c1 is answered by {backends:?}");
    Ok(())
}
