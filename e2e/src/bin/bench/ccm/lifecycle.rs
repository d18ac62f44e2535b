//! Services one after another: from creation to the address in the status, to the first answer; from deletion to gone; and
//! what that makes the API server write.

use std::{
    collections::BTreeMap,
    iter,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::VirtualIP;
use windlass_e2e::{Lab, SERVICE_PORT, Writes, await_that, statistics::float, unused_service};

use super::{
    calls::{Calls, Process},
    report::{Row, times},
};
use crate::{
    progress::Progress,
    seen::Seen,
    services::{self, POOL, create},
};

/// As shipped kube-proxy writes its rules once a second at most. Services made one after another would each wait for that,
/// and the figure would say nothing else.
pub(crate) const PROXY_AT_ONCE: &str = "--iptables-min-sync-period=0s";
/// Limit of the wait for one Service.
const LIMIT: Duration = Duration::from_mins(1);
/// Limit of the wait until the last address may be given to others again.
const REST: Duration = Duration::from_mins(5);

pub(crate) async fn measure(lab: &Lab, count: usize) -> anyhow::Result<Vec<Row>> {
    lab.exec("c1", &["ip", "route", "add", POOL, "dev", "eth0"]).await?;
    lab.deploy_windlass(&["n1"]).await?;
    services::pool(lab, POOL, "eth0").await?;
    lab.backend("web", &["n1"]).await?;
    // The first one brings the virtual router and the client's caches along; it stays.
    lab.load_balancer("web", |_| ()).await?;
    let first = lab.ingress("web", LIMIT).await?;
    lab.first_answer("c1", first, SERVICE_PORT, LIMIT).await?;
    let client = lab.client();
    endpoints(&client, count).await?;

    let seen = Seen::default();
    let watch = seen.follow(&client);
    tokio::select! {
        rows = one_after_another(lab, &client, &seen, count) => rows,
        ended = watch => Err(ended),
    }
}

async fn one_after_another(
    lab: &Lab,
    client: &Client,
    seen: &Seen,
    count: usize,
) -> anyhow::Result<Vec<Row>> {
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let before = Counted::settled(lab, client).await?;
    let (mut published, mut answered) = (Vec::new(), Vec::new());
    let mut progress = Progress::new(count);
    for index in 0..count {
        let service = service(index);
        let began = Instant::now();
        create(client, iter::once(service), 1).await?;
        let (at, address) = seen.address(&name(index), LIMIT).await?;
        published.push(at.saturating_duration_since(began));
        let at = lab.first_answer("c1", address, SERVICE_PORT, LIMIT).await?;
        answered.push(at.saturating_duration_since(began));
        progress.print(index + 1, "answered");
    }
    let made = Counted::settled(lab, client).await?;

    let mut gone = Vec::new();
    let mut progress = Progress::new(count);
    for index in 0..count {
        let began = Instant::now();
        services.delete(&name(index), &DeleteParams::default()).await.context("deleting a Service")?;
        gone.push(seen.gone(&name(index), LIMIT).await?.saturating_duration_since(began));
        progress.print(index + 1, "gone");
    }
    println!("bench: waiting until the addresses may be given again");
    await_that("only one address is in use or kept back", REST, async || {
        let vips: Api<VirtualIP> = Api::all(client.clone());
        let left = vips.list_metadata(&ListParams::default()).await?.items.len();
        ensure!(left <= 1, "{left} are");
        Ok(Some(()))
    })
    .await?;
    let after = Counted::settled(lab, client).await?;

    let mut rows = times("Service: created to address in its status", published);
    rows.extend(times("Service: created to first answer at a client on the LAN", answered));
    rows.extend(times("Service: deleted to gone", gone));
    rows.extend(made.rows("until it is announced and answered", &before, count));
    rows.extend(after.rows("from then until it is gone and its address free", &made, count));
    rows.extend(after.rows("of its whole life", &before, count));
    for (kind, writes) in after.by_kind(&before) {
        rows.push(Row::new(format!("writes of a Service's life: {kind}"), per(writes, count), "calls"));
    }
    Ok(rows)
}

/// Numbers of writes so far, by the processes that wrote, and by the API server's own count.
struct Counted {
    controller: Calls,
    agent: Calls,
    writes: Writes,
}

impl Counted {
    async fn settled(lab: &Lab, client: &Client) -> anyhow::Result<Self> {
        let writes = Writes::settled(client).await?;
        let controller = Calls::of(lab, Process::Controller).await?;
        let agent = Calls::of(lab, Process::Agent("n1")).await?;
        Ok(Self { controller, agent, writes })
    }

    /// By kind, as the API server counts them, those of this program apart.
    fn by_kind(&self, before: &Self) -> BTreeMap<String, u64> {
        let mut writes = self.writes.since(&before.writes);
        writes.remove("DELETE services");
        writes
    }

    fn rows(&self, when: &str, before: &Self, count: usize) -> Vec<Row> {
        let row = |who: &str, writes| Row::new(format!("writes {when}: {who}"), per(writes, count), "calls");
        let controller = self.controller.since(before.controller).writes;
        let agent = self.agent.since(before.agent).writes;
        let server = self.by_kind(before).values().sum();
        vec![row("controller", controller), row("agent", agent), row("as the API server counts them", server)]
    }
}

fn per(calls: u64, count: usize) -> f64 {
    float(calls) / float(count as u64)
}

fn name(index: usize) -> String {
    format!("bench-{index:05}")
}

/// Service whose endpoints are written for it.
fn service(index: usize) -> Value {
    let mut service = unused_service(&name(index));
    service["spec"].as_object_mut().map(|spec| spec.remove("selector"));
    service
}

/// The endpoints of all Services, those of the backend, before the Services are made: writing them is not measured.
async fn endpoints(client: &Client, count: usize) -> anyhow::Result<()> {
    let slices: Api<EndpointSlice> = Api::default_namespaced(client.clone());
    let mut slice = slices.get("web-ipv4").await.context("reading the backend's EndpointSlice")?;
    slice.ports = slice
        .ports
        .map(|ports| ports.into_iter().filter(|port| port.name.as_deref() == Some("http")).collect());
    for index in 0..count {
        let mut one = slice.clone();
        one.metadata = serde_json::from_value(json!({
            "name": format!("{}-ipv4", name(index)),
            "labels": {"kubernetes.io/service-name": name(index)},
        }))?;
        slices.create(&PostParams::default(), &one).await.context("writing an EndpointSlice")?;
    }
    Ok(())
}
