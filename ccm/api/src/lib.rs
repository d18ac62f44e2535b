//! Windlass' custom resources, API group `windlass.dev/v1alpha1`, all cluster-scoped.
//!
//! | kind | writer | content |
//! |---|---|---|
//! | [`VirtualIPPool`] | the admin (status: controller) | addresses to give to Services |
//! | [`Announcement`] | the admin (status: controller) | which nodes announce which virtual IPs, and how |
//! | [`VirtualIP`] | controller (status: agents) | one per address; creating it *is* the claim |
//! | [`VirtualRouter`] | controller (status: the Active agent) | VRID, segment, ranked nodes |
//! | [`NodeNetwork`] | each agent, for its node | interfaces, foreign VRRP routers seen |
//!
//! The YAML under `manifests/crds` is generated from these types by `make crds`.

mod announcement;
mod identifiers;
mod load_sharing;
mod node_check;
mod node_network;
mod validation;
mod virtual_ip;
mod virtual_ip_pool;
mod virtual_router;

pub use announcement::{
    AddressConflictPolicy, Announcement, AnnouncementSpec, AnnouncementStatus, Authentication,
    ConnectionPolicy, DEFAULT_ADVERTISEMENT_INTERVAL_MS, DEFAULT_EXCLUDED_INTERFACES, PreferredNodes,
    Transport, UnschedulableNodePolicy, VridRange, VrrpSettings,
};
pub use identifiers::*;
pub use load_sharing::{
    FORMER_SERVERS, LOTS, LoadSharing, LotTable, SHARING_NODES, SharedBy, SharedLoad, SharedLoadError,
    SharingNode,
};
pub use node_check::{CheckAction, GrpcCheck, HttpGet, LinkCheck, NodeCheck, Scheme, TcpSocket};
pub use node_network::{
    Capability, DuplicateAddress, ForeignRouter, InterfaceInfo, KnownRouter, NodeNetwork, NodeNetworkSpec,
    UnicastPeer,
};
pub use virtual_ip::{
    PortProtocol, PortSources, Quarantine, QuarantineReason, RestrictedPort, ServiceRef, VirtualIP,
    VirtualIPSpec, VirtualIPStatus, virtual_ip_name,
};
pub use virtual_ip_pool::{
    AddressCounts, AllocationOrder, AvoidReserved, OnAddressInUse, OnRemoval, VirtualIPPool,
    VirtualIPPoolSpec, VirtualIPPoolStatus, WhenFull,
};
pub use virtual_router::{
    ExternalTrafficPolicy, RankedNode, VirtualRouter, VirtualRouterSpec, VirtualRouterStatus,
};

/// Every custom resource definition of the group, in a fixed order.
pub fn all_crds()
-> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> {
    use kube::CustomResourceExt as _;
    vec![
        VirtualIPPool::crd(),
        Announcement::crd(),
        VirtualIP::crd(),
        VirtualRouter::crd(),
        NodeNetwork::crd(),
    ]
}
