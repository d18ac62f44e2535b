//! `k8s.io/cloud-provider` for Rust: provider traits and the controllers that keep Kubernetes' contract with them.

mod provider;

pub use provider::{Ensured, InstanceMetadata, Instances, LoadBalancer, ProviderError, ServiceKey};
