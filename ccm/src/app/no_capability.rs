//! Types without values, for providers that never have a capability.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, Service};

use crate::provider::{Ensured, InstanceMetadata, Instances, LoadBalancer, ProviderError};

/// The load balancers of a provider without any.
#[derive(Debug, Clone, Copy)]
pub enum NoLoadBalancer {}

/// The machines of a provider that knows none.
#[derive(Debug, Clone, Copy)]
pub enum NoInstances {}

impl LoadBalancer for NoLoadBalancer {
    async fn get(&self, _: &str, _: &Service) -> Result<Option<LoadBalancerStatus>, ProviderError> {
        match *self {}
    }

    async fn ensure(&self, _: &str, _: &Service, _: &[Arc<Node>]) -> Result<Ensured, ProviderError> {
        match *self {}
    }

    async fn update_nodes(&self, _: &str, _: &Service, _: &[Arc<Node>]) -> Result<(), ProviderError> {
        match *self {}
    }

    async fn ensure_deleted(&self, _: &str, _: &Service) -> Result<(), ProviderError> {
        match *self {}
    }
}

impl Instances for NoInstances {
    async fn exists(&self, _: &Node) -> Result<bool, ProviderError> {
        match *self {}
    }

    async fn shutdown(&self, _: &Node) -> Result<bool, ProviderError> {
        match *self {}
    }

    async fn metadata(&self, _: &Node) -> Result<Option<InstanceMetadata>, ProviderError> {
        match *self {}
    }
}
