//! Windlass' custom resources, API group `windlass.dev/v1alpha1`, all cluster-scoped.
//!
//! | kind | who writes | what it says |
//! |---|---|---|
//! | [`IPPool`] | the admin (status: controller) | addresses to give to Services |
//! | [`VirtualIP`] | controller (status: agents) | one per address; creating it *is* the claim |
//! | [`VirtualRouter`] | controller (status: the Active agent) | VRID, segment, ranked nodes |
//! | [`NodeNetwork`] | each agent, for its node | interfaces, foreign VRRP routers heard |
//!
//! The YAML under `manifests/crds` is generated from these types by `make crds`.

mod ip_pool;
mod node_network;
mod validation;
mod virtual_ip;
mod virtual_router;

pub use ip_pool::{AddressCounts, IPPool, IPPoolSpec, IPPoolStatus};
pub use node_network::{ForeignRouter, InterfaceInfo, NodeNetwork, NodeNetworkSpec};
pub use virtual_ip::{ServiceRef, VirtualIP, VirtualIPSpec, VirtualIPStatus, virtual_ip_name};
pub use virtual_router::{RankedNode, VirtualRouter, VirtualRouterSpec, VirtualRouterStatus};

/// Condition on a [`VirtualIP`]: `True` while some node answers for the address.
pub const CONDITION_ANNOUNCED: &str = "Announced";
/// Condition on an [`IPPool`]: `False` when part of it is not used, with the reason.
pub const CONDITION_READY: &str = "Ready";

/// Default time between two VRRP adverts of a virtual router, in milliseconds.
pub const DEFAULT_ADVERTISEMENT_INTERVAL_MS: u32 = 100;

/// Annotation of a Service: the address it wants, as `192.0.2.10`. As `spec.loadBalancerIP`, which Kubernetes has
/// deprecated; both may be set if they agree.
pub const ANNOTATION_ADDRESSES: &str = "windlass.dev/addresses";
/// Annotation of a Service: the `IPPool` that its address must come from.
pub const ANNOTATION_POOL: &str = "windlass.dev/pool";

/// Every custom resource definition of the group, in a fixed order.
pub fn all_crds()
-> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> {
    use kube::CustomResourceExt as _;
    vec![IPPool::crd(), VirtualIP::crd(), VirtualRouter::crd(), NodeNetwork::crd()]
}
