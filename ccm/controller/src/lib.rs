//! The controller: gives addresses to Services and decides which nodes may announce them.
//!
//! ```text
//! watches ──► stores, allocation (state) ◄── provider ◄── service controller, node controller (windlass-ccm)
//!                     │                         │             ▲
//!                     ▼                         ▼             nodes
//!                 placement                 VirtualIPs: the claims
//!                     │
//!                     ▼ VirtualRouters, VirtualIP.spec.virtualRouter, status of VirtualIPPools
//! ```
//!
//! Decisions are pure; only `placement::apply`, `provider` and `state::watch` talk to the API server.
//! All of it runs only while this process leads. Nothing is kept outside the cluster: a new leader lists everything, rebuilds
//! the ledger, and writes nothing if nothing changed.
//!
//! It may know the allocator, the custom resources, `windlass-ccm` and `windlass-common`. It never knows a node's program, the engine or the
//! commands of administrators: these use [`request`], [`owner`], [`allocator`] and [`pool_policy`] to explain its decisions, and show its state
//! by [`StatusPages`].
//!
//! Entry points: [`Windlass`] is the provider that `windlass_ccm::app::main` runs, [`Settings`] its settings.

mod allocation;
mod nodes;
mod placement;
mod pool_metrics;
mod provider;
mod state;
mod status_pages;
mod stores;
mod wakeup;

use std::sync::Arc;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use prometheus::Registry;
use tokio::task::JoinSet;
use windlass_ccm::app::{BoxError, Capabilities, CloudProvider, Context};
use windlass_ccm::events::{EventSink, Recorder};
use windlass_ccm::service::ServiceOptions;
use windlass_ccm::serving::Pages;
use windlass_ccm::watch::Error as WatchError;
use windlass_common::http;

pub use self::allocation::ledger::allocator;
pub use self::allocation::pools::policy as pool_policy;
pub use self::allocation::request::{owner, request};
pub use self::allocation::settings::Settings;
pub use self::nodes::cloud_config::ConfigFile;
use self::placement::apply::Applier;
use self::pool_metrics::PoolMetrics;
use self::provider::load_balancer::Provider;
use self::provider::upkeep::Upkeep;
use self::state::kept;
pub use self::state::shared::SharedState;
use self::state::watch::{follow, watch, watch_if_there};
pub use self::status_pages::{StatusPages, WatchedObjects};
use self::stores::clock::Clock;

/// Finalizer of Services of the class that Windlass serves.
pub const CLASS_FINALIZER: &str = "windlass.dev/load-balancer-cleanup";

/// The provider: load balancers and machines without a cloud.
pub struct Windlass {
    settings: Settings,
    clock: Clock,
    pools: PoolMetrics,
    /// `None`: none are wanted.
    status_pages: Option<Box<dyn StatusPages>>,
}

impl Windlass {
    /// Nothing happens until it is started.
    pub fn new(settings: Settings) -> Self {
        Self { settings, clock: Clock::default(), pools: PoolMetrics::default(), status_pages: None }
    }

    /// Serves these pages, too, which show its state.
    #[must_use]
    pub fn with_status_pages(self, pages: Box<dyn StatusPages>) -> Self {
        Self { status_pages: Some(pages), ..self }
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
    type LoadBalancer = Provider;
    type Instances = Provider;

    fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        http::register_build(registry, "controller")?;
        self.pools.register(registry)
    }

    fn pages(&self) -> Pages {
        self.status_pages.as_ref().map(|pages| pages.pages()).unwrap_or_default()
    }

    /// Ready when every list is complete: nothing is given before. What runs beside it ends with it.
    async fn start(self, context: Context) -> Result<Capabilities<Provider, Provider>, BoxError> {
        let Context { client, informers, token, cloud_config, election, .. } = context;
        // The first to ask for them says what is kept of them, for all.
        let (services, service_changes) = informers.with(kept::service).subscribe();
        let (nodes, node_changes) = informers.with(kept::node).subscribe();
        let shared = Arc::new(SharedState::new(self.settings, self.clock, services, nodes));
        self.pools.show(&shared);
        if let Some(pages) = &self.status_pages {
            pages.show(&shared, election.as_ref());
        }
        // Events about a Service's addresses come from the same component as those of the service controller.
        let recorder = Recorder::new(client.clone(), &ServiceOptions::default().component);
        let (events, writer) = EventSink::new(recorder, token.clone());
        let provider = Arc::new(Provider::new(client.clone(), Arc::clone(&shared), events));
        let applier = Applier::new(client.clone(), Arc::clone(&shared));

        let mut tasks = JoinSet::new();
        tasks.spawn(endless(writer));
        if let Some(path) = cloud_config {
            let (file, config) = ConfigFile::open(&path)?;
            shared.inventory.set(Arc::new(config));
            let inventory = Arc::clone(&shared);
            tasks.spawn(endless(file.follow(move |config| inventory.inventory.set(config), token.clone())));
        }
        // Known before anything is given. Kubernetes has them since 1.33.
        watch_if_there::<ServiceCIDR>(&client, &shared, &mut tasks, &token).await;
        macro_rules! watch {
            ($kind:ty) => {
                tasks.spawn(watch::<$kind>(client.clone(), Arc::clone(&shared), token.clone()))
            };
        }
        watch!(windlass_api::VirtualIPPool);
        watch!(windlass_api::Announcement);
        watch!(windlass_api::VirtualIP);
        watch!(windlass_api::VirtualRouter);
        watch!(windlass_api::NodeNetwork);
        watch!(k8s_openapi::api::core::v1::Namespace);
        watch!(k8s_openapi::api::discovery::v1::EndpointSlice);
        tasks.spawn(endless(follow(service_changes, Arc::clone(&shared))));
        tasks.spawn(endless(follow(node_changes, Arc::clone(&shared))));
        tokio::select! {
            () = shared.ready.wait() => {}
            ended = first_to_end(&mut tasks) => ended?,
        }
        tasks.spawn(endless(wakeup::run(Upkeep(Arc::clone(&provider)), token.clone())));
        tasks.spawn(endless(wakeup::run(applier, token)));
        Ok(Capabilities::new()
            .with_load_balancer(Arc::clone(&provider))
            .with_instances(provider)
            .with_background("a part of the provider", async move { first_to_end(&mut tasks).await }))
    }
}

/// Waits for the first task that ends: none of them may.
async fn first_to_end(tasks: &mut JoinSet<Result<(), WatchError>>) -> Result<(), BoxError> {
    match tasks.join_next().await {
        Some(ended) => Ok(ended??),
        None => Ok(()),
    }
}

/// Work that nothing can go wrong with.
async fn endless(work: impl Future<Output = ()>) -> Result<(), WatchError> {
    work.await;
    Ok(())
}

#[cfg(test)]
mod tests;
