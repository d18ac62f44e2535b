//! What is known of the cluster.
//!
//! In: what the watches and the answers to our own writes show. Out: the newest version of each object, by kind. Only the watches
//! and the answers change it; everybody reads it under the lock of [`Shared`](super::state::Shared).

pub(crate) mod cache;
pub(crate) mod changes;
pub(crate) mod clock;
pub(crate) mod limited;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use windlass_api::{NodeNetwork, ServiceRef, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_ccm::ServiceKey;

use self::cache::{Cache, key};

/// The newest version of each object that is known.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    pub(crate) pools: Cache<VirtualIPPool>,
    pub(crate) vips: Cache<VirtualIP>,
    pub(crate) routers: Cache<VirtualRouter>,
    pub(crate) networks: Cache<NodeNetwork>,
    pub(crate) services: Cache<Service>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) service_cidrs: Cache<ServiceCIDR>,
}

impl Stores {
    /// The Service of that name, whatever its UID.
    pub(crate) fn service(&self, owner: &ServiceRef) -> Option<&Arc<Service>> {
        self.services.get(&key(Some(&owner.namespace), &owner.name))
    }

    /// The Service, if it is the same and not just one of that name.
    pub(crate) fn live(&self, owner: &ServiceRef) -> Option<&Arc<Service>> {
        self.service(owner).filter(|service| service.metadata.uid.as_ref() == Some(&owner.uid))
    }
}

/// Name of a Service for the service controller.
pub(crate) fn service_key(owner: &ServiceRef) -> ServiceKey {
    ServiceKey { namespace: owner.namespace.clone(), name: owner.name.clone() }
}

/// When the Service was made.
pub(crate) fn created(service: &Service) -> Option<Timestamp> {
    service.metadata.creation_timestamp.as_ref().map(|time| time.0)
}
