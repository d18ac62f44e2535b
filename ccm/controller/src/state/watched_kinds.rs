//! The kinds that the controller watches: what is kept of each, and how soon the planner is to run after a change.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use windlass_api::{
    Announcement, NodeNetwork, VIRTUAL_IP_ANNOTATIONS, VIRTUAL_ROUTER_ANNOTATIONS, VirtualIP, VirtualIPPool,
    VirtualRouter,
};
use windlass_ccm::store::Change;

use super::{ClusterState, kept};
use crate::allocation::pools::UnusableAddresses;
use crate::allocation::traffic;
use crate::placement::endpoints;
use crate::placement::node_traits::ready_since;
use crate::stores::{ObjectStore, Stores};
use crate::wakeup::Urgency;

/// A kind that the controller watches.
pub(crate) trait WatchedKind: kube::Resource + std::fmt::Debug + Sized {
    /// The store of this kind.
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self>;

    /// The object without what nobody reads, as it is stored.
    fn slimmed(mut self) -> Self {
        kept::metadata(self.meta_mut(), &[]);
        self
    }

    /// Returns the change for [`ClusterState::on_change`].
    fn watched(change: &Change<Self>) -> WatchedChange<'_>;

    /// Returns how soon the planner is to run after a change.
    fn urgency(_state: &ClusterState, _change: &Change<Self>) -> Urgency {
        Urgency::Now
    }
}

/// Change of an object of one of the watched kinds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WatchedChange<'a> {
    Pool(&'a Change<VirtualIPPool>),
    Announcement(&'a Change<Announcement>),
    VirtualIp(&'a Change<VirtualIP>),
    VirtualRouter(&'a Change<VirtualRouter>),
    NodeNetwork(&'a Change<NodeNetwork>),
    Service(&'a Change<Service>),
    Namespace(&'a Change<Namespace>),
    Node(&'a Change<Node>),
    ServiceCidr,
    EndpointSlice(&'a Change<EndpointSlice>),
}

/// Returns true if the object existed before and after, with the same `part`.
fn same<K, T: PartialEq>(change: &Change<K>, part: impl Fn(&K) -> &T) -> bool {
    matches!((&change.old, &change.new), (Some(old), Some(new)) if part(old) == part(new))
}

impl WatchedKind for VirtualIPPool {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.pools
    }

    fn watched(change: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::Pool(change)
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

    fn watched(change: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::Announcement(change)
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

    fn watched(change: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::VirtualIp(change)
    }

    fn slimmed(mut self) -> Self {
        kept::metadata(&mut self.metadata, VIRTUAL_IP_ANNOTATIONS);
        self.spec.owners.shrink_to_fit();
        if let Some(status) = &mut self.status {
            status.conditions.shrink_to_fit();
        }
        self
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

    fn watched(change: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::VirtualRouter(change)
    }

    fn slimmed(mut self) -> Self {
        kept::metadata(&mut self.metadata, VIRTUAL_ROUTER_ANNOTATIONS);
        self
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

    fn watched(change: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::NodeNetwork(change)
    }

    /// Its metadata does not matter here.
    fn urgency(_: &ClusterState, change: &Change<Self>) -> Urgency {
        if same(change, |network| &network.spec) { Urgency::Never } else { Urgency::Now }
    }
}

impl WatchedKind for Service {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.services
    }

    fn watched(change: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::Service(change)
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

    fn watched(change: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::Namespace(change)
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

    fn watched(change: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::Node(change)
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

    fn watched(_: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::ServiceCidr
    }
}

impl WatchedKind for EndpointSlice {
    fn store(stores: &mut Stores) -> &mut impl ObjectStore<Self> {
        &mut stores.endpoint_slices
    }

    fn watched(change: &Change<Self>) -> WatchedChange<'_> {
        WatchedChange::EndpointSlice(change)
    }

    fn slimmed(self) -> Self {
        endpoints::slimmed(self)
    }

    /// Pods come and go all the time; where they are matters to few Services.
    fn urgency(state: &ClusterState, change: &Change<Self>) -> Urgency {
        let is_local = || endpoints::services(change).any(|service| state.stores.is_local(&service));
        if endpoints::may_differ(change) && is_local() { Urgency::Now } else { Urgency::Never }
    }
}
