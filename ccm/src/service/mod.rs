//! The service controller: load balancers for Services (service-contract §1).
//!
//! | file | concept |
//! |---|---|
//! | `select` | which Services are ours and what they need |
//! | `diff` | which changes of a Service matter |
//! | `nodes` | which nodes may carry load balancers, which changes of a node matter |
//! | `fan_out` | how long a change of the nodes takes to reach all of them |
//! | `patch` | the writes to a Service |
//! | `source_ranges` | which clients may reach a Service |
//! | `condition` | the provider's condition on a Service |
//! | `helpers` | properties of a Service for providers |
//! | `messages` | reasons and messages of events |
//! | `jobs` | what is known and what comes next; no clock, no I/O |
//! | `sync` | one job carried out against provider and API server |
//! | `run` | the loop that joins them |
//!
//! # Restarts are silent
//! A new leader ensures every Service again, because only the provider knows whether all is well. Upstream announces
//! that on every Service with an `Ensuring`/`Ensured` pair of events (service-contract S-03). Here a Service that
//! carries its finalizer and shows an address is ensured silently, and only if the outcome differs from what it
//! shows are status and events written: with nothing changed a restart writes nothing.

mod condition;
mod diff;
mod fan_out;
mod helpers;
mod jobs;
mod messages;
mod nodes;
mod patch;
mod run;
mod select;
mod source_ranges;
mod sync;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use kube::Client;

pub use helpers::{default_load_balancer_name, keeps_traffic_local, needs_health_check};
pub use messages::EVENT_REASONS;
pub use nodes::{LABEL_EXCLUDE, TAINT_TO_BE_DELETED, is_excluded, is_stable, stable_node_set};
pub use select::is_reconciled;
pub use source_ranges::{ANNOTATION_SOURCE_RANGES, RangesPlace, SourceRanges, SourceRangesError};

use crate::metrics::Metrics;
use crate::provider::LoadBalancer;
use crate::store::Informers;

/// Options of the service controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Handed to the provider (`--cluster-name`).
    pub cluster_name: String,
    /// Services synchronised at the same time (`--concurrent-service-syncs`); at least one.
    pub workers: usize,
    /// Finalizer of Services without `spec.loadBalancerClass`.
    pub finalizer: String,
    /// Finalizer of Services with a class that the provider serves: another one than `finalizer`, which a second
    /// cloud controller manager would strip (service-contract S-07). Two that serve classes in one cluster need each their own.
    /// `app` takes `CloudProvider::CLASS_FINALIZER`, or makes one of the provider's name.
    pub class_finalizer: String,
    /// `source.component` of the events.
    pub component: String,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            cluster_name: "kubernetes".to_owned(),
            workers: 1,
            finalizer: "service.kubernetes.io/load-balancer-cleanup".to_owned(),
            class_finalizer: "cloud-provider/load-balancer-cleanup".to_owned(),
            component: "service-controller".to_owned(),
        }
    }
}

/// Keeps load balancers as the Services ask.
pub struct ServiceController<P> {
    client: Client,
    informers: Informers,
    provider: Arc<P>,
    options: ServiceOptions,
    metrics: Metrics,
}

impl<P: LoadBalancer> ServiceController<P> {
    /// A controller; nothing happens until [`ServiceController::run`].
    pub fn new(
        client: Client,
        informers: Informers,
        provider: Arc<P>,
        options: ServiceOptions,
        metrics: Metrics,
    ) -> Self {
        Self { client, informers, provider, options, metrics }
    }
}
