//! The controller: gives addresses to Services and decides which nodes may announce them.
//!
//! ```text
//! watches ──► cache, ledger (state) ◄──── provider ◄── service controller, node controller (windlass-ccm)
//!                   │                        │
//!                   ▼                        ▼ creates and deletes VirtualIPs: the claims
//!             pools, plan ──► writes ──► applier: VirtualRouters, VirtualIP.spec.virtualRouter, IPPool status
//! ```
//!
//! Decisions are pure (`cache`, `ledger`, `plan`, `pools`, `request`, `state`, `writes`); `apply`, `provider` and `watch`
//! talk to the API server. All of it runs only while this process leads. Nothing is kept outside the cluster: a new
//! leader lists everything, rebuilds the ledger, and writes nothing if nothing changed.

mod apply;
mod cache;
mod changes;
mod claim;
mod clock;
mod contest;
mod external;
mod holdings;
mod instances;
mod ledger;
mod limited;
mod loads;
mod plan;
mod pool_metrics;
mod pool_pace;
mod pools;
mod provider;
mod refusal;
mod release;
mod replan;
mod request;
mod serving;
mod settings;
mod state;
mod verdict;
mod view;
mod waiting;
mod watch;
mod writes;

use std::sync::Arc;

use anyhow::{Context as _, bail};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::{Api, Client};
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_ccm::events::{EventSink, Recorder};
use windlass_ccm::lease::{ElectionOptions, Elector};
use windlass_ccm::metrics::Metrics;
use windlass_ccm::node::{NodeController, NodeOptions};
use windlass_ccm::service::{ServiceController, ServiceOptions};

use self::apply::Applier;
use self::clock::Clock;
use self::pool_metrics::PoolMetrics;
use self::provider::Metal;
pub(crate) use self::settings::Settings;
use self::state::Shared;
use self::watch::{watch, watch_if_there};

/// How the controller runs.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Name of the cluster.
    pub(crate) cluster_name: String,
    /// Services worked on at the same time.
    pub(crate) workers: usize,
    /// Work only while holding the lease.
    pub(crate) leader_elect: bool,
    /// Namespace of the lease.
    pub(crate) lease_namespace: String,
    /// Name of the lease.
    pub(crate) lease_name: String,
    /// Which Services are served, and how they are read.
    pub(crate) settings: Settings,
}

/// The controller, ready to run.
pub(crate) struct Controller {
    client: Client,
    options: Options,
    metrics: Metrics,
    pools: PoolMetrics,
}

impl Controller {
    /// Registers the metrics; nothing else happens until [`Controller::run`].
    pub(crate) fn new(client: Client, options: Options, registry: &mut Registry) -> Self {
        let metrics = Metrics::register(registry, &options.lease_name);
        let pools = PoolMetrics::default();
        registry.register_collector(Box::new(pools.clone()));
        Self { client, options, metrics, pools }
    }

    /// Runs until `token` is cancelled.
    ///
    /// # Errors
    /// When the lease is lost or a part of the controller ends by itself: the process must exit then, so that nothing of
    /// it goes on as if it led (service-contract S-61).
    pub(crate) async fn run(self, token: CancellationToken) -> anyhow::Result<()> {
        if !self.options.leader_elect {
            return lead(self.client, self.options, Clock::default(), self.metrics, &self.pools, token).await;
        }
        let mut election = ElectionOptions::new(identity()?);
        election.namespace.clone_from(&self.options.lease_namespace);
        election.name.clone_from(&self.options.lease_name);
        let elector = Elector::new(self.client.clone(), election).with_metrics(self.metrics.election.clone());
        let Self { client, options, metrics, pools } = self;
        let clock = Clock::default();
        let leading =
            elector.run(token, |token| lead(client, options, clock, metrics, &pools, token)).await?;
        leading.unwrap_or(Ok(()))
    }
}

/// Everything that only the leader does. Dropped, it stops at once: its tasks are aborted with it.
async fn lead(
    client: Client,
    options: Options,
    clock: Clock,
    metrics: Metrics,
    pools: &PoolMetrics,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let shared = Arc::new(Shared::new(options.settings, clock));
    pools.show(&shared);
    let service_options = ServiceOptions {
        cluster_name: options.cluster_name,
        workers: options.workers.max(1),
        ..ServiceOptions::default()
    };
    let recorder = Recorder::new(client.clone(), &service_options.component);
    let (events, writer) = EventSink::new(recorder, token.clone());
    let metal = Arc::new(Metal::new(client.clone(), Arc::clone(&shared), events));
    let services =
        ServiceController::new(client.clone(), Arc::clone(&metal), service_options, metrics.clone());
    let nodes = NodeController::new(client.clone(), Arc::clone(&metal), NodeOptions::default(), metrics);
    let applier = Applier::new(client.clone(), metal);

    let mut tasks = JoinSet::new();
    tasks.spawn(writer);
    // Known before anything is given. Kubernetes has them since 1.33.
    let service_cidrs = Api::<ServiceCIDR>::all(client.clone());
    watch_if_there(service_cidrs, &shared, &mut tasks, &token).await;
    macro_rules! watch {
        ($kind:ty) => {
            tasks.spawn(watch::<$kind>(Api::all(client.clone()), Arc::clone(&shared), token.clone()))
        };
    }
    watch!(windlass_api::IPPool);
    watch!(windlass_api::VirtualIP);
    watch!(windlass_api::VirtualRouter);
    watch!(windlass_api::NodeNetwork);
    watch!(k8s_openapi::api::core::v1::Service);
    watch!(k8s_openapi::api::core::v1::Node);
    watch!(k8s_openapi::api::core::v1::Namespace);
    tokio::select! {
        () = token.cancelled() => {}
        () = shared.ready.wait() => {
            tasks.spawn(applier.run(token.clone()));
            tasks.spawn(services.run(token.clone()));
            tasks.spawn(nodes.run(token.clone()));
        }
    }

    while let Some(ended) = tasks.join_next().await {
        ended.context("a part of the controller failed")?;
        if !token.is_cancelled() {
            bail!("a part of the controller ended by itself");
        }
    }
    Ok(())
}

/// `<hostname>_<uuid>`: unique among all candidates, and a person sees which machine it is.
fn identity() -> anyhow::Result<String> {
    const UUID: &str = "/proc/sys/kernel/random/uuid";
    let uuid = std::fs::read_to_string(UUID)
        .with_context(|| format!("cannot read {UUID}, which gives this process a unique name"))?;
    let host = nix::unistd::gethostname().context("cannot read the host's name")?;
    Ok(format!("{}_{}", host.to_string_lossy(), uuid.trim()))
}

#[cfg(test)]
mod tests;
