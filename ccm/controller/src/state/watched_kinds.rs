//! The kinds that the controller watches: what a change of each means to the state, and how soon the planner is to run.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::ResourceExt as _;
use windlass_api::{
    Announcement, NodeNetwork, VIRTUAL_IP_ANNOTATIONS, VIRTUAL_ROUTER_ANNOTATIONS, VirtualIP, VirtualIPPool,
    VirtualRouter,
};
use windlass_ccm::ServiceKey;
use windlass_ccm::store::Change;

use super::ClusterState;
use crate::allocation::pools::UnusableAddresses;
use crate::allocation::traffic;
use crate::nodes::reports::reported;
use crate::placement::endpoints;
use crate::placement::node_traits::ready_since;
use crate::state::wakeup::Urgency;
use crate::stores::{ObjectStore, Stores, kept, service_key};

/// A kind that the controller watches.
pub(crate) trait WatchedKind: kube::Resource + std::fmt::Debug + Sized {
    /// The store of this kind.
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self>;

    /// The object without what nobody reads, as it is stored.
    fn slimmed(mut self) -> Self {
        kept::metadata(self.meta_mut(), &[]);
        self
    }

    /// Updates the state after a change of the store, and returns the Services to sync.
    fn on_change(_state: &mut ClusterState, _change: &Change<Self>) -> Vec<ServiceKey> {
        Vec::new()
    }

    /// Returns how soon the planner is to run after a change.
    fn urgency(_state: &ClusterState, _change: &Change<Self>) -> Urgency {
        Urgency::Now
    }
}

/// Returns true if the object existed before and after, with the same `part`.
fn same<K, T: PartialEq>(change: &Change<K>, part: impl Fn(&K) -> &T) -> bool {
    matches!((&change.old, &change.new), (Some(old), Some(new)) if part(old) == part(new))
}

impl WatchedKind for VirtualIPPool {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.pools
    }

    fn on_change(state: &mut ClusterState, change: &Change<Self>) -> Vec<ServiceKey> {
        if !state.ready {
            return Vec::new();
        }
        let mut keys = state.review_pools().1;
        let on_removal = |pool: &Option<Arc<Self>>| pool.as_ref().map(|pool| pool.spec.on_removal);
        if on_removal(&change.old) != on_removal(&change.new) {
            keys.extend(state.services_outside_pools());
        }
        keys
    }

    /// Its status is what the planner itself wrote last.
    fn urgency(_: &ClusterState, change: &Change<Self>) -> Urgency {
        if same(change, |pool| &pool.spec) { Urgency::Soon } else { Urgency::Now }
    }
}

impl WatchedKind for Announcement {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.announcements
    }

    fn on_change(state: &mut ClusterState, change: &Change<Self>) -> Vec<ServiceKey> {
        state.placement.on_announcement_change(&state.stores, change);
        Vec::new()
    }

    /// Its status is what the planner itself wrote last.
    fn urgency(_: &ClusterState, change: &Change<Self>) -> Urgency {
        let is_going = |one: &Option<Arc<Self>>| {
            one.as_ref().is_some_and(|one| one.metadata.deletion_timestamp.is_some())
        };
        let same = same(change, |one| &one.spec) && is_going(&change.old) == is_going(&change.new);
        if same { Urgency::Soon } else { Urgency::Now }
    }
}

impl WatchedKind for VirtualIP {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.vips
    }

    fn slimmed(mut self) -> Self {
        kept::metadata(&mut self.metadata, VIRTUAL_IP_ANNOTATIONS);
        self.spec.owners.shrink_to_fit();
        if let Some(status) = &mut self.status {
            status.conditions.shrink_to_fit();
        }
        self
    }

    fn on_change(state: &mut ClusterState, change: &Change<Self>) -> Vec<ServiceKey> {
        state.placement.on_vip_change(change);
        state.on_vip_change(change)
    }

    /// A VIP that is not placed waits for that. A changed status does not affect the plan.
    fn urgency(_: &ClusterState, change: &Change<Self>) -> Urgency {
        match &change.new {
            Some(new) if !new.is_placed() && !same(change, |vip| &vip.spec) => Urgency::Now,
            Some(_) | None => Urgency::Soon,
        }
    }
}

impl WatchedKind for VirtualRouter {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.routers
    }

    fn slimmed(mut self) -> Self {
        kept::metadata(&mut self.metadata, VIRTUAL_ROUTER_ANNOTATIONS);
        self
    }

    fn on_change(state: &mut ClusterState, change: &Change<Self>) -> Vec<ServiceKey> {
        state.placement.on_router_change(change);
        Vec::new()
    }

    /// Returns the urgency: a change of the Active node matters if another one is to be Active; the rest of the status is for people
    /// to read.
    fn urgency(state: &ClusterState, change: &Change<Self>) -> Urgency {
        let active = |router: &Option<Arc<Self>>| router.as_ref()?.active_node().map(str::to_owned);
        if !same(change, |router| &router.spec) || !same(change, |router| &router.metadata.annotations) {
            Urgency::Now
        } else if !state.placement.announcements().is_empty() && active(&change.old) != active(&change.new) {
            Urgency::Soon
        } else {
            Urgency::Never
        }
    }
}

impl WatchedKind for NodeNetwork {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.networks
    }

    fn on_change(state: &mut ClusterState, change: &Change<Self>) -> Vec<ServiceKey> {
        state.placement.on_network_change(change);
        let [old, new] = [&change.old, &change.new].map(|network| network.as_ref().map(|one| &one.spec));
        if old != new {
            state.stores.reports.changed();
        }
        if old.map(|spec| &spec.duplicates) != new.map(|spec| &spec.duplicates) {
            state.pools.findings_changed();
        }
        let addresses = |network: &Arc<Self>| {
            let spec = &network.spec;
            (spec.interfaces.clone(), spec.primary_addresses.clone(), spec.further_addresses.clone())
        };
        if let Some(new) = &change.new
            && change.old.as_ref().map(addresses) != Some(addresses(new))
        {
            state.readdressed_nodes.push(new.name_any());
        }
        services_with_strangers_seen(state, change)
    }

    /// Its metadata does not matter here.
    fn urgency(_: &ClusterState, change: &Change<Self>) -> Urgency {
        if same(change, |network| &network.spec) { Urgency::Never } else { Urgency::Now }
    }
}

/// The Services of addresses that the node sees at other hosts now and did not before.
fn services_with_strangers_seen(state: &ClusterState, change: &Change<NodeNetwork>) -> Vec<ServiceKey> {
    let seen = |network: &Option<Arc<NodeNetwork>>| -> BTreeSet<IpAddr> {
        network.iter().flat_map(|network| &network.spec.duplicates).map(|seen| seen.address).collect()
    };
    let (old, new) = (seen(&change.old), seen(&change.new));
    new.difference(&old).flat_map(|address| state.ledger.holders(*address)).map(service_key).collect()
}

impl WatchedKind for Service {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.services
    }

    fn on_change(state: &mut ClusterState, change: &Change<Self>) -> Vec<ServiceKey> {
        state.on_service_change(change)
    }

    /// Returns the urgency: an address that the Service left is not urgent; a change of the clients that may send to it, or of the
    /// nodes that serve it, is.
    fn urgency(_: &ClusterState, change: &Change<Self>) -> Urgency {
        if traffic::may_differ(change) { Urgency::Now } else { Urgency::Soon }
    }
}

impl WatchedKind for Namespace {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.namespaces
    }

    fn on_change(state: &mut ClusterState, change: &Change<Self>) -> Vec<ServiceKey> {
        state.on_namespace_change(change)
    }

    /// Its labels matter to pools, for new addresses, and to Announcements.
    fn urgency(_: &ClusterState, _: &Change<Self>) -> Urgency {
        Urgency::Soon
    }
}

impl WatchedKind for Node {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.nodes
    }

    fn on_change(state: &mut ClusterState, change: &Change<Self>) -> Vec<ServiceKey> {
        let [old, new] = [&change.old, &change.new].map(|node| node.as_ref().map(|node| reported(node)));
        if old != new {
            state.stores.reports.changed();
            state.pools.findings_changed();
        }
        state.placement.on_node_change(change, old != new);
        Vec::new()
    }

    /// Kubelets write again and again how their nodes are: hundreds of them would keep the planner busy for nothing. It
    /// looks at their traits, the pools at their addresses and those of their pods.
    fn urgency(state: &ClusterState, change: &Change<Self>) -> Urgency {
        let unusable = |node: &Self| UnusableAddresses::new(&[node], &[], &[]);
        let traits = |node: &Self| state.placement.announcements().traits(node);
        match (&change.old, &change.new) {
            (Some(old), Some(new)) if traits(old) == traits(new) && unusable(old) == unusable(new) => {
                // Who is ready again may be given more, minutes later.
                if ready_since(old) == ready_since(new) { Urgency::Never } else { Urgency::Soon }
            }
            (_, _) => Urgency::Now,
        }
    }
}

impl WatchedKind for ServiceCIDR {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.service_cidrs
    }
}

impl WatchedKind for EndpointSlice {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.endpoint_slices
    }

    fn slimmed(self) -> Self {
        endpoints::slimmed(self)
    }

    fn on_change(state: &mut ClusterState, change: &Change<Self>) -> Vec<ServiceKey> {
        state.placement.on_endpoints_change(&state.stores, state.ready, change);
        Vec::new()
    }

    /// Pods come and go all the time; where they are matters to few Services.
    fn urgency(state: &ClusterState, change: &Change<Self>) -> Urgency {
        let is_local = || endpoints::services(change).any(|service| state.stores.is_local(&service));
        if endpoints::may_differ(change) && is_local() { Urgency::Now } else { Urgency::Never }
    }
}
