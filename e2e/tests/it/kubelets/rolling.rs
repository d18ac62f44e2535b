//! Rolling updates of Windlass' own pods while a client asks without a pause.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Service};
use kube::{Api, ResourceExt as _, api::ListParams};
use kube_runtime::{WatchStreamExt as _, watcher};
use tokio::task::JoinHandle;
use windlass_e2e::{Lab, LoadOptions, Protocol, SERVICE_PORT, await_that};

use super::LIMIT;
use crate::setup::{moves, router_of};

/// Between two questions of the client.
pub(super) const PACE: Duration = Duration::from_millis(2);

/// The controller's two pods are replaced, one after the other: the lease moves, and nobody else notices.
pub(super) async fn controller(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_first(lab, vip).await?;
    let before = (versions(lab).await?, events(lab).await?, moves(lab, vip).await?);
    let leader = holder(lab).await?;
    let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, PACE)?;
    let watch = LeaseWatch::start(lab);
    restart(lab, "deployment/windlass-controller").await?;
    await_that("another controller leads", LIMIT, async || {
        let now = holder(lab).await?;
        ensure!(now != leader, "{now} leads");
        Ok(Some(()))
    })
    .await?;
    // Served by the new one, which has therefore seen `web`.
    lab.load_balancer("updated", |_| ()).await?;
    lab.ingress("updated", LIMIT).await?;
    let outcome = probe.stop()?;
    let mut after = (versions(lab).await?, events(lab).await?, moves(lab, vip).await?);
    after.0.remove("updated");
    ensure!(before == after, "the update was noticed: {before:?}, then {after:?}");
    // (Some may be under way when it stops.)
    ensure!(outcome.sent - outcome.answered < 10, "answers were lost: {outcome:?}");
    let leaderless = watch.stop();
    println!(
        "controller updated: {} of {} answered, {} ms at most without a leader",
        outcome.answered,
        outcome.sent,
        leaderless.as_millis()
    );
    // Released, not run out, which takes 15 s; a candidate looks every 2 s.
    ensure!(leaderless < Duration::from_secs(10), "{} s without a leader", leaderless.as_secs_f64());
    Ok(())
}

/// Waits until the node that goes first has the address: the first that has started may have it before.
async fn await_first(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("the node that goes first has {vip}"), LIMIT, async || {
        let router = router_of(lab, vip).await?;
        let first = router.spec.nodes.iter().max_by_key(|node| node.priority);
        let first = first.map(|node| node.name.as_str());
        let active = router.status.as_ref().and_then(|status| status.active_node.as_deref());
        ensure!(active.is_some() && active == first, "{first:?} goes first, {active:?} has it");
        Ok(Some(()))
    })
    .await
}

/// The events of `web`, but for those of moves, which are counted ([`moves`]) and told of later.
async fn events(lab: &Lab) -> anyhow::Result<BTreeSet<String>> {
    let events = lab.events_of("Service", "web").await?;
    Ok(events.into_iter().filter(|event| !event.starts_with("AnnouncingNodeChanged")).collect())
}

/// The agents' pods are replaced, one after the other: the address moves, and moves back or not. No connection breaks.
pub(super) async fn agents(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let before = versions(lab).await?;
    let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, PACE)?;
    let clients = LoadOptions { connections: 20, requests_per_second: 50 };
    let clients = lab.load("c1", vip, SERVICE_PORT, clients).await?;
    restart(lab, "daemonset/windlass-agent").await?;
    lab.await_owner("c1", vip).await?;
    let seen = clients.stop()?;
    ensure!(seen.failed == 0 && seen.broken == 0, "the update of the agents broke connections: {seen:?}");
    let outcome = probe.stop()?;
    ensure!(versions(lab).await? == before, "the update of the agents was written to Services");
    println!(
        "agents updated: {} of {} answered, {} ms at most without an answer",
        outcome.answered,
        outcome.sent,
        outcome.longest_gap.as_millis()
    );
    ensure!(
        outcome.answered * 10 > outcome.sent * 9,
        "more than a tenth of the answers were lost: {outcome:?}"
    );
    Ok(())
}

/// Replaces the pods and waits until all of them are new and ready.
async fn restart(lab: &Lab, what: &str) -> anyhow::Result<()> {
    lab.kubectl(&["--namespace=windlass-system", "rollout", "restart", what]).await?;
    await_that(&format!("{what} is rolled out"), LIMIT, async || {
        lab.kubectl(&["--namespace=windlass-system", "rollout", "status", "--timeout=50s", what]).await?;
        Ok(Some(()))
    })
    .await?;
    lab.await_windlass_pods().await
}

/// Version of every Service.
async fn versions(lab: &Lab) -> anyhow::Result<BTreeMap<String, Option<String>>> {
    let services: Api<Service> = Api::default_namespaced(lab.client());
    let all = services.list(&ListParams::default()).await?.items;
    Ok(all.into_iter().map(|service| (service.name_any(), service.resource_version())).collect())
}

/// Who holds the lease; nobody is an error.
async fn holder(lab: &Lab) -> anyhow::Result<String> {
    let leases: Api<Lease> = Api::namespaced(lab.client(), "kube-system");
    let spec = leases.get("cloud-controller-manager").await?.spec.unwrap_or_default();
    spec.holder_identity.filter(|holder| !holder.is_empty()).context("nobody leads")
}

/// How long nobody held the lease, as a watch saw it.
struct LeaseWatch {
    seen: Arc<Mutex<Vacancy>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Vacancy {
    since: Option<Instant>,
    longest: Duration,
}

impl LeaseWatch {
    fn start(lab: &Lab) -> Self {
        let seen = Arc::<Mutex<Vacancy>>::default();
        let (leases, noted) = (Api::<Lease>::namespaced(lab.client(), "kube-system"), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            let only = watcher::Config::default().fields("metadata.name=cloud-controller-manager");
            let changes = watcher(leases, only).default_backoff().applied_objects();
            futures::pin_mut!(changes);
            while let Some(change) = changes.next().await {
                let Ok(lease) = change else { continue };
                let mut vacancy = noted.lock().unwrap_or_else(PoisonError::into_inner);
                let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                match (holder.is_empty(), vacancy.since) {
                    (true, None) => vacancy.since = Some(Instant::now()),
                    (false, Some(since)) => {
                        vacancy.longest = vacancy.longest.max(since.elapsed());
                        vacancy.since = None;
                    }
                    (true, Some(_)) | (false, None) => {}
                }
            }
        });
        Self { seen, task }
    }

    /// The longest time without a holder until now.
    fn stop(self) -> Duration {
        self.task.abort();
        let vacancy = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        vacancy.since.map_or(vacancy.longest, |since| vacancy.longest.max(since.elapsed()))
    }
}
