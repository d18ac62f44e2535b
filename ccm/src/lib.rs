//! `k8s.io/cloud-provider` for Rust: provider traits and the controllers that keep Kubernetes' contract with them.

pub mod apiserver;
#[cfg(feature = "app")]
pub mod app;
pub mod backoff;
pub mod client;
pub mod conditions;
pub mod events;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod files;
pub mod lease;
pub mod lenient;
pub mod metrics;
pub mod node;
mod provider;
mod queue;
pub mod service;
#[cfg(feature = "serving")]
pub mod serving;
pub mod slim;
pub mod store;
#[cfg(any(test, feature = "fake"))]
pub mod testing;
mod text;
pub mod watch;

// Their types are in the interface: a crate that builds on this one needs the same versions.
pub use tokio_util::sync::CancellationToken;
pub use {k8s_openapi, kube, prometheus};

pub use provider::{Ensured, InstanceMetadata, Instances, LoadBalancer, ProviderError, ServiceKey};

/// The code of the README, compiled.
#[cfg(all(doctest, feature = "app"))]
#[doc = include_str!("../README.md")]
mod readme {}
