//! Windlass' custom resources, API group `windlass.dev/v1alpha1`, all cluster-scoped.
//!
//! | kind | who writes | what it says |
//! |---|---|---|
//! | [`VirtualIPPool`] | the admin (status: controller) | addresses to give to Services |
//! | [`VirtualIP`] | controller (status: agents) | one per address; creating it *is* the claim |
//! | [`VirtualRouter`] | controller (status: the Active agent) | VRID, segment, ranked nodes |
//! | [`NodeNetwork`] | each agent, for its node | interfaces, foreign VRRP routers heard |
//!
//! The YAML under `manifests/crds` is generated from these types by `make crds`.

pub mod address_allocated;
mod node_network;
mod validation;
mod virtual_ip;
mod virtual_ip_pool;
mod virtual_router;

pub use node_network::{DuplicateAddress, ForeignRouter, InterfaceInfo, NodeNetwork, NodeNetworkSpec};
pub use virtual_ip::{
    PortProtocol, PortSources, Quarantine, QuarantineReason, RestrictedPort, ServiceRef, VirtualIP,
    VirtualIPSpec, VirtualIPStatus, virtual_ip_name,
};
pub use virtual_ip_pool::{
    AddressCounts, AllocationOrder, AvoidReserved, OnRemoval, VirtualIPPool, VirtualIPPoolSpec,
    VirtualIPPoolStatus,
};
pub use virtual_router::{RankedNode, VirtualRouter, VirtualRouterSpec, VirtualRouterStatus};

/// Condition on a [`VirtualIP`]: `True` while some node answers for the address.
pub const CONDITION_ANNOUNCED: &str = "Announced";
/// Condition on an [`VirtualIPPool`]: `False` when part of it is not used, with the reason.
pub const CONDITION_READY: &str = "Ready";

/// Condition on an [`VirtualIPPool`]: whether some node can announce each address that it gives, with the share, the nodes and, if
/// not, the remedy. There is none before an agent has reported its node's network.
pub const CONDITION_ANNOUNCEABLE: &str = "Announceable";

/// Condition on an [`VirtualIPPool`]: `True` while Services keep addresses that were given from it and that no pool holds any more.
pub const CONDITION_ADDRESSES_KEPT: &str = "AddressesKept";
/// Condition on an [`VirtualIPPool`]: `True` while another station of the LAN has addresses of it.
pub const CONDITION_ADDRESS_CONFLICT: &str = "AddressConflict";

/// Default time between two VRRP adverts of a virtual router, in milliseconds.
pub const DEFAULT_ADVERTISEMENT_INTERVAL_MS: u32 = 100;

/// Condition on a Service: `True` while clients reach it, at every address that its status shows, as far as the controller
/// knows; with the [reason](address_allocated).
pub const CONDITION_ADDRESS_ALLOCATED: &str = "windlass.dev/AddressAllocated";
/// `reason` of [`CONDITION_ANNOUNCED`] = `False`: another station of the LAN has the address.
pub const REASON_ADDRESS_TAKEN: &str = "AddressTaken";

/// `reason` of [`CONDITION_ANNOUNCED`] = `False`: a node's kernel answers for the address, or no host can have it.
pub const REASON_ADDRESS_REFUSED: &str = "AddressRefused";

/// `reason` of [`CONDITION_ANNOUNCED`] = `False`: not everybody may use the address, and the node that would announce it
/// cannot keep the others out.
pub const REASON_UNGUARDED: &str = "Unguarded";
/// `reason` of [`CONDITION_ANNOUNCED`] = `False`: the agent of the only node that may announce it was stopped.
pub const REASON_AGENT_STOPPED: &str = "AgentStopped";

/// `spec.loadBalancerClass` of Services that Windlass always serves.
pub const LOAD_BALANCER_CLASS: &str = "windlass.dev/windlass";

/// Annotation of a Service: the addresses it wants, as `192.0.2.10` or `192.0.2.10, 2001:db8::10`. As
/// `spec.loadBalancerIP`, which Kubernetes has deprecated; both may be set if they agree.
pub const ANNOTATION_ADDRESSES: &str = "windlass.dev/addresses";
/// Annotation of a Service: the `VirtualIPPool` that its addresses must come from.
pub const ANNOTATION_POOL: &str = "windlass.dev/pool";
/// Annotation of a Service: how many addresses of each of its families it wants, `"1"` to `"8"`. They are kept on
/// different nodes as far as there are nodes.
pub const ANNOTATION_ADDRESS_COUNT: &str = "windlass.dev/address-count";
/// Annotation of a Service: it may share its address with Services that have the same key and other ports.
pub const ANNOTATION_SHARING_KEY: &str = "windlass.dev/sharing-key";
/// Annotation of a Service: other namespaces, as `a, b`, whose Services may share its address. Both sides must name each
/// other.
pub const ANNOTATION_SHARE_WITH: &str = "windlass.dev/share-with";
/// Annotation of a `VirtualIP` with the value `"true"`: its Services may be given another address although its pool does
/// not say `onRemoval: Move`, once no pool holds it any more.
pub const ANNOTATION_ALLOW_MOVE: &str = "windlass.dev/allow-move";

/// Every custom resource definition of the group, in a fixed order.
pub fn all_crds()
-> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> {
    use kube::CustomResourceExt as _;
    vec![VirtualIPPool::crd(), VirtualIP::crd(), VirtualRouter::crd(), NodeNetwork::crd()]
}
