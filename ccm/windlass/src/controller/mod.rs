//! The controller: gives addresses to Services and decides which nodes may announce them.
//!
//! ```text
//! watches ──► cache, ledger (state) ◄──── provider ◄── service controller, node controller (windlass-ccm)
//!                   │                        │
//!                   ▼                        ▼ creates and deletes VirtualIPs: the claims
//!             pools, plan ──► writes ──► applier: VirtualRouters, VirtualIP.spec.virtualRouter, VirtualIPPool status
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
mod cloud_config;
mod concerns;
mod contest;
mod external;
mod ground;
mod holdings;
mod instances;
mod inventory;
mod ledger;
mod limited;
mod loads;
mod plan;
mod pool_metrics;
mod pool_pace;
mod pools;
mod provider;
mod rebuild;
mod refusal;
mod release;
mod replan;
mod request;
mod serving;
mod settings;
mod sources;
mod state;
mod unsettled;
mod verdict;
mod view;
mod waiting;
mod watch;
mod writes;

use std::sync::Arc;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use prometheus::Registry;
use tokio::task::JoinSet;
use windlass_ccm::app::{BoxError, Capabilities, CloudProvider, Context};
use windlass_ccm::events::{EventSink, Recorder};
use windlass_ccm::service::ServiceOptions;

use self::apply::Applier;
use self::clock::Clock;
pub(crate) use self::cloud_config::ConfigFile;
use self::pool_metrics::PoolMetrics;
use self::provider::Metal;
pub(crate) use self::settings::Settings;
use self::state::Shared;
use self::watch::{watch, watch_if_there};
use crate::http;

/// Finalizer of Services of the class that Windlass serves.
const CLASS_FINALIZER: &str = "windlass.dev/load-balancer-cleanup";

/// The provider: load balancers and machines without a cloud.
pub(crate) struct Windlass {
    settings: Settings,
    clock: Clock,
    pools: PoolMetrics,
}

impl Windlass {
    /// Nothing happens until it is started.
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, clock: Clock::default(), pools: PoolMetrics::default() }
    }

    /// The same with another clock.
    #[cfg(test)]
    pub(crate) fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }
}

impl CloudProvider for Windlass {
    const NAME: &'static str = "windlass";
    const CLASS_FINALIZER: Option<&'static str> = Some(CLASS_FINALIZER);
    type Balancer = Metal;
    type Instances = Metal;

    fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        http::register_build(registry, "controller")?;
        self.pools.register(registry)
    }

    /// Ready when every list is complete: nothing is given before. What runs beside it ends with it.
    async fn start(self, context: Context) -> Result<Capabilities<Metal, Metal>, BoxError> {
        let Context { client, token, cloud_config, .. } = context;
        let shared = Arc::new(Shared::new(self.settings, self.clock));
        self.pools.show(&shared);
        // What becomes of a Service's addresses is told by the same voice as the rest of what becomes of it.
        let recorder = Recorder::new(client.clone(), &ServiceOptions::default().component);
        let (events, writer) = EventSink::new(recorder, token.clone());
        let metal = Arc::new(Metal::new(client.clone(), Arc::clone(&shared), events));
        let applier = Applier::new(client.clone(), Arc::clone(&metal));

        let mut tasks = JoinSet::new();
        tasks.spawn(writer);
        if let Some(path) = cloud_config {
            let (file, config) = ConfigFile::open(&path)?;
            shared.inventory.set(Arc::new(config));
            let inventory = Arc::clone(&shared);
            tasks.spawn(file.follow(move |config| inventory.inventory.set(config), token.clone()));
        }
        // Known before anything is given. Kubernetes has them since 1.33.
        watch_if_there::<ServiceCIDR>(&client, &shared, &mut tasks, &token).await;
        macro_rules! watch {
            ($kind:ty) => {
                tasks.spawn(watch::<$kind>(client.clone(), Arc::clone(&shared), token.clone()))
            };
        }
        watch!(windlass_api::VirtualIPPool);
        watch!(windlass_api::VirtualIP);
        watch!(windlass_api::VirtualRouter);
        watch!(windlass_api::NodeNetwork);
        watch!(k8s_openapi::api::core::v1::Service);
        watch!(k8s_openapi::api::core::v1::Node);
        watch!(k8s_openapi::api::core::v1::Namespace);
        tokio::select! {
            () = shared.ready.wait() => {}
            ended = first_to_end(&mut tasks) => ended?,
        }
        tasks.spawn(applier.run(token));
        Ok(Capabilities::new()
            .with_load_balancer(Arc::clone(&metal))
            .with_instances(metal)
            .with_background("a part of the provider", async move { first_to_end(&mut tasks).await }))
    }
}

/// Waits for the first task that ends: none of them may.
async fn first_to_end(tasks: &mut JoinSet<()>) -> Result<(), tokio::task::JoinError> {
    match tasks.join_next().await {
        Some(ended) => ended,
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
