//! The service controller: load balancers for Services (service-contract §1).

use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::provider::LoadBalancer;

/// How the service controller runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Handed to the provider (`--cluster-name`).
    pub cluster_name: String,
    /// Services synchronised at the same time (`--concurrent-service-syncs`); at least one.
    pub workers: usize,
    /// Finalizer of Services without `spec.loadBalancerClass`.
    pub finalizer: String,
    /// Finalizer of Services with a class that the provider serves: another one than `finalizer`, which a second
    /// cloud controller manager would strip (service-contract S-07).
    pub class_finalizer: String,
    /// Who the events say they are from.
    pub component: String,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            cluster_name: "kubernetes".to_owned(),
            workers: 1,
            finalizer: "service.kubernetes.io/load-balancer-cleanup".to_owned(),
            class_finalizer: "windlass.dev/load-balancer-cleanup".to_owned(),
            component: "service-controller".to_owned(),
        }
    }
}

/// Keeps load balancers as the Services ask.
pub struct ServiceController<P> {
    client: Client,
    provider: Arc<P>,
    options: ServiceOptions,
    metrics: Metrics,
}

impl<P: LoadBalancer> ServiceController<P> {
    /// A controller; nothing happens until [`ServiceController::run`].
    pub fn new(client: Client, provider: Arc<P>, options: ServiceOptions, metrics: Metrics) -> Self {
        Self { client, provider, options, metrics }
    }

    /// Runs until `token` is cancelled.
    pub async fn run(self, token: CancellationToken) {
        token.cancelled().await;
        drop(self);
    }
}
