//! Interface between a provider and its cloud-controller-manager: the provider's name and its capabilities once it leads.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use kube::Client;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::events::EventSink;
use crate::lease::ElectionOptions;
use crate::provider::{Instances, LoadBalancer};
use crate::serving::Pages;
use crate::store::Informers;

/// Any error.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A cloud provider.
pub trait CloudProvider: Send + 'static {
    /// Name of the provider: the value that `--cloud-provider` may have, and the source of the provider's own events.
    const NAME: &'static str;

    /// Finalizer of Services whose `spec.loadBalancerClass` it serves ([`LoadBalancer::serves_class`]; service-contract S-07),
    /// as `example.com/load-balancer-cleanup`. By default it is made of its name: `NAME/load-balancer-cleanup`.
    const CLASS_FINALIZER: Option<&'static str> = None;

    /// Its load balancers; [`NoLoadBalancer`](super::NoLoadBalancer) if it never has any.
    type LoadBalancer: LoadBalancer;

    /// Its machines; [`NoInstances`](super::NoInstances) if it never knows any.
    type Instances: Instances;

    /// Registers metrics of its own; called once, before it is started. An error ends the process: a name that is taken,
    /// as those of the controllers' own metrics are.
    fn register(&self, _registry: &Registry) -> prometheus::Result<()> {
        Ok(())
    }

    /// Pages of its own beside `/metrics`; called once, before it is started. They are asked for before that, too, and by standbys.
    fn pages(&self) -> Pages {
        Pages::default()
    }

    /// Gets ready to work; called once, when this process leads (service-contract S-63). The controllers start with what
    /// it returns, so it returns when it can answer them. An error ends the process.
    fn start(
        self,
        context: Context,
    ) -> impl Future<Output = Result<Capabilities<Self::LoadBalancer, Self::Instances>, BoxError>> + Send;
}

/// Resources that a provider may need to start.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// Informers of the cluster's objects, shared with the controllers.
    pub informers: Informers,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cloud-config`: the file with the provider's settings.
    pub cloud_config: Option<PathBuf>,
    /// The lease by which this process leads; `None`: it leads without election.
    pub election: Option<ElectionOptions>,
    /// Writes events that come from [`CloudProvider::NAME`].
    pub events: EventSink,
    /// Cancelled when this process is to end, or leads no longer.
    pub token: CancellationToken,
}

/// Capabilities of a provider, and the tasks that run beside it.
pub struct Capabilities<B, I> {
    pub(super) load_balancer: Option<Arc<B>>,
    pub(super) instances: Option<Arc<I>>,
    pub(super) background: Vec<(&'static str, BoxFuture<'static, Result<(), BoxError>>)>,
}

impl<B: LoadBalancer, I: Instances> Capabilities<B, I> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { load_balancer: None, instances: None, background: Vec::new() }
    }

    /// Load balancers: the service controller is started.
    #[must_use]
    pub fn with_load_balancer(mut self, load_balancer: Arc<B>) -> Self {
        self.load_balancer = Some(load_balancer);
        self
    }

    /// Machines: the node controllers are started.
    #[must_use]
    pub fn with_instances(mut self, instances: Arc<I>) -> Self {
        self.instances = Some(instances);
        self
    }

    /// Adds work that runs while this process leads, and is dropped after that. If it ends by itself, with or without an error, the process
    /// ends: a provider whose watches stand still gives stale answers.
    #[must_use]
    pub fn with_background<E: Into<BoxError>>(
        mut self,
        name: &'static str,
        work: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Self {
        self.background.push((name, work.map(|ended| ended.map_err(Into::into)).boxed()));
        self
    }
}

impl<B: LoadBalancer, I: Instances> Default for Capabilities<B, I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B, I> fmt::Debug for Capabilities<B, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let background: Vec<_> = self.background.iter().map(|(name, _)| name).collect();
        f.debug_struct("Capabilities")
            .field("load_balancer", &self.load_balancer.is_some())
            .field("instances", &self.instances.is_some())
            .field("background", &background)
            .finish()
    }
}
