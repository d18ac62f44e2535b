//! The objects of the cluster.
//!
//! In: what the watches and the answers to our own writes show. Out: the newest version of each object, by kind. Only the watches
//! and the answers change it. Services and Nodes are those that the controllers of `windlass-ccm` read and write, too; what is
//! the provider's alone is under the lock of [`SharedState`](super::state::shared::SharedState), changed in one step with the ledger.

pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod key_queue;

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::Resource;
use windlass_api::{
    Announcement, NodeNetwork, ServiceRef, VirtualIP, VirtualIPPool, VirtualRouter, virtual_ip_name,
};
use windlass_ccm::ServiceKey;
use windlass_ccm::store::{Change, Informer, Store, key};
use windlass_ccm::watch::Event;
use windlass_ipam::Requester;

use crate::nodes::reports::{NodeReports, ReviewedReports};

/// The newest known version of each object.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    pub(crate) pools: Store<VirtualIPPool>,
    pub(crate) announcements: Store<Announcement>,
    pub(crate) vips: Store<VirtualIP>,
    pub(crate) routers: Store<VirtualRouter>,
    pub(crate) networks: Store<NodeNetwork>,
    /// Believed parts of the networks.
    pub(crate) reports: NodeReports,
    pub(crate) services: Informer<Service>,
    pub(crate) nodes: Informer<Node>,
    pub(crate) namespaces: Store<Namespace>,
    pub(crate) service_cidrs: Store<ServiceCIDR>,
    pub(crate) endpoint_slices: Store<EndpointSlice>,
}

/// A store of one kind, shared with the controllers of `windlass-ccm` or not.
pub(crate) trait ObjectStore<K> {
    /// Takes in an event of the watch.
    fn handle(&mut self, event: Event<K>) -> Vec<Change<K>>;

    /// Takes in the answer to a write of ours.
    fn learn(&mut self, object: K) -> Option<Change<K>>;
}

impl<K: Resource + PartialEq> ObjectStore<K> for Store<K> {
    fn handle(&mut self, event: Event<K>) -> Vec<Change<K>> {
        Self::handle(self, event.map(Arc::new))
    }

    fn learn(&mut self, object: K) -> Option<Change<K>> {
        Self::learn(self, Arc::new(object))
    }
}

impl<K: Resource + PartialEq> ObjectStore<K> for Informer<K> {
    fn handle(&mut self, event: Event<K>) -> Vec<Change<K>> {
        Self::handle(self, event)
    }

    fn learn(&mut self, object: K) -> Option<Change<K>> {
        Self::learn(self, object)
    }
}

impl Stores {
    /// Returns true if every list is complete. (An API server may not have ServiceCIDRs.)
    pub(crate) fn are_complete(&self) -> bool {
        let Self {
            pools,
            announcements,
            vips,
            routers,
            networks,
            services,
            nodes,
            namespaces,
            endpoint_slices,
            service_cidrs: _,
            reports: _,
        } = self;
        pools.is_synced()
            && announcements.is_synced()
            && vips.is_synced()
            && routers.is_synced()
            && networks.is_synced()
            && services.is_synced()
            && nodes.is_synced()
            && namespaces.is_synced()
            && endpoint_slices.is_synced()
    }

    /// The object that claims `address`.
    pub(crate) fn vip(&self, address: IpAddr) -> Option<&Arc<VirtualIP>> {
        self.vips.get(&virtual_ip_name(address))
    }

    /// The reports of the nodes, as far as they are believed.
    pub(crate) fn reports(&self) -> &Arc<ReviewedReports> {
        self.reports.reviewed(|| self.nodes.list(), &self.networks, &self.routers)
    }

    /// The Service of that name, whatever its UID.
    pub(crate) fn service(&self, owner: &ServiceRef) -> Option<Arc<Service>> {
        self.services.get(&key(Some(&owner.namespace), &owner.name))
    }

    /// Returns true if the Service of this key sends its traffic only to endpoints of the node that receives it.
    pub(crate) fn is_local(&self, service: &str) -> bool {
        let policy = |service: &Service| service.spec.as_ref()?.external_traffic_policy.clone();
        self.services.get(service).is_some_and(|service| policy(&service).as_deref() == Some("Local"))
    }

    /// The Service, if it is the same and not just one of that name.
    pub(crate) fn live(&self, owner: &ServiceRef) -> Option<Arc<Service>> {
        self.service(owner).filter(|service| service.metadata.uid.as_ref() == Some(&owner.uid))
    }

    /// The Service as the selectors of pools and Announcements see it.
    pub(crate) fn requester(&self, service: &Service) -> Requester {
        let namespace = service.metadata.namespace.clone().unwrap_or_default();
        let labels = self.namespaces.get(&namespace).and_then(|one| one.metadata.labels.clone());
        Requester {
            namespace,
            namespace_labels: labels.unwrap_or_default(),
            labels: service.metadata.labels.clone().unwrap_or_default(),
        }
    }
}

/// Name of a Service for the service controller.
pub(crate) fn service_key(owner: &ServiceRef) -> ServiceKey {
    ServiceKey { namespace: owner.namespace.clone(), name: owner.name.clone() }
}

/// Returns the creation time of the Service.
pub(crate) fn created(service: &Service) -> Option<Timestamp> {
    service.metadata.creation_timestamp.as_ref().map(|time| time.0)
}
