//! What each kind of object means to the state, and how soon the planner has to look.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::ResourceExt as _;
use windlass_api::{NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_ccm::ServiceKey;
use windlass_ccm::service::is_stable;
use windlass_ccm::store::Change;

use super::State;
use crate::controller::allocation::pools::Obstacles;
use crate::controller::allocation::sources;
use crate::controller::state::wakeup::Urgency;
use crate::controller::stores::{Objects, Stores};

/// A kind that the controller watches.
pub(crate) trait Watched: kube::Resource + std::fmt::Debug + Sized {
    /// Those that are known.
    fn objects(stores: &mut Stores) -> &mut impl Objects<Self>;

    /// As it is kept: without what nobody reads.
    fn slimmed(mut self) -> Self {
        self.meta_mut().managed_fields = None;
        self
    }

    /// Takes in what changed, and names the Services to look at again.
    fn news(_state: &mut State, _news: &Change<Self>) -> Vec<ServiceKey> {
        Vec::new()
    }

    /// How soon the planner has to look at what changed.
    fn urgency(_news: &Change<Self>) -> Urgency {
        Urgency::Now
    }
}

impl Watched for VirtualIPPool {
    fn objects(stores: &mut Stores) -> &mut impl Objects<Self> {
        &mut stores.pools
    }

    fn news(state: &mut State, news: &Change<Self>) -> Vec<ServiceKey> {
        state.invalidate_by_pool(news);
        if !state.ready {
            return Vec::new();
        }
        let mut keys = state.review_pools().1;
        let on_removal = |pool: &Option<Arc<Self>>| pool.as_ref().map(|pool| pool.spec.on_removal);
        if on_removal(&news.old) != on_removal(&news.new) {
            keys.extend(state.without_pool());
        }
        keys
    }

    /// Its status is what the planner itself wrote last.
    fn urgency(news: &Change<Self>) -> Urgency {
        match (&news.old, &news.new) {
            (Some(old), Some(new)) if old.spec == new.spec => Urgency::Soon,
            (_, _) => Urgency::Now,
        }
    }
}

impl Watched for VirtualIP {
    fn objects(stores: &mut Stores) -> &mut impl Objects<Self> {
        &mut stores.vips
    }

    fn slimmed(mut self) -> Self {
        self.metadata.managed_fields = None;
        self.spec.owners.shrink_to_fit();
        if let Some(status) = &mut self.status {
            status.conditions.shrink_to_fit();
        }
        self
    }

    fn news(state: &mut State, news: &Change<Self>) -> Vec<ServiceKey> {
        state.invalidate_by_vip(news);
        state.vip_news(news)
    }

    /// What has no virtual router waits for one. A status that changed does not concern the plan.
    fn urgency(news: &Change<Self>) -> Urgency {
        match (&news.old, &news.new) {
            (Some(old), Some(new)) if old.spec == new.spec => Urgency::Soon,
            (_, Some(new)) if new.spec.virtual_router.is_none() => Urgency::Now,
            (_, Some(_) | None) => Urgency::Soon,
        }
    }
}

impl Watched for VirtualRouter {
    fn objects(stores: &mut Stores) -> &mut impl Objects<Self> {
        &mut stores.routers
    }

    fn news(state: &mut State, news: &Change<Self>) -> Vec<ServiceKey> {
        state.invalidate_by_router(news);
        Vec::new()
    }

    /// Agents write the status for people to read.
    fn urgency(news: &Change<Self>) -> Urgency {
        match (&news.old, &news.new) {
            (Some(old), Some(new)) if old.spec == new.spec => Urgency::Never,
            (_, _) => Urgency::Now,
        }
    }
}

impl Watched for NodeNetwork {
    fn objects(stores: &mut Stores) -> &mut impl Objects<Self> {
        &mut stores.networks
    }

    fn news(state: &mut State, news: &Change<Self>) -> Vec<ServiceKey> {
        state.invalidate_by_network(news);
        let addresses = |network: &Arc<Self>| {
            let spec = &network.spec;
            (spec.interfaces.clone(), spec.primary_addresses.clone(), spec.further_addresses.clone())
        };
        if let Some(new) = &news.new
            && news.old.as_ref().map(addresses) != Some(addresses(new))
        {
            state.readdressed.push(new.name_any());
        }
        Vec::new()
    }

    /// Nobody here looks at its metadata.
    fn urgency(news: &Change<Self>) -> Urgency {
        match (&news.old, &news.new) {
            (Some(old), Some(new)) if old.spec == new.spec => Urgency::Never,
            (_, _) => Urgency::Now,
        }
    }
}

impl Watched for Service {
    fn objects(stores: &mut Stores) -> &mut impl Objects<Self> {
        &mut stores.services
    }

    fn news(state: &mut State, news: &Change<Self>) -> Vec<ServiceKey> {
        state.note_external(news);
        state.service_news(news)
    }

    /// It may have left an address behind, for which nobody waits. Who is to be kept out is kept out at once.
    fn urgency(news: &Change<Self>) -> Urgency {
        if sources::may_differ(news) { Urgency::Now } else { Urgency::Soon }
    }
}

impl Watched for Namespace {
    fn objects(stores: &mut Stores) -> &mut impl Objects<Self> {
        &mut stores.namespaces
    }

    fn news(state: &mut State, news: &Change<Self>) -> Vec<ServiceKey> {
        state.namespace_changed(news)
    }

    /// Only pools look at its labels, for what is new.
    fn urgency(_: &Change<Self>) -> Urgency {
        Urgency::Soon
    }
}

impl Watched for Node {
    fn objects(stores: &mut Stores) -> &mut impl Objects<Self> {
        &mut stores.nodes
    }

    fn news(state: &mut State, news: &Change<Self>) -> Vec<ServiceKey> {
        state.invalidate_by_node(news);
        Vec::new()
    }

    /// Kubelets write again and again how their nodes are: hundreds of them would keep the planner busy for nothing. It
    /// looks at whether they are stable, the pools at their addresses and those of their pods.
    fn urgency(news: &Change<Self>) -> Urgency {
        let obstacles = |node: &Self| Obstacles::new(&[node], &[], &[]);
        match (&news.old, &news.new) {
            (Some(old), Some(new))
                if is_stable(old) == is_stable(new) && obstacles(old) == obstacles(new) =>
            {
                Urgency::Never
            }
            (_, _) => Urgency::Now,
        }
    }
}

impl Watched for ServiceCIDR {
    fn objects(stores: &mut Stores) -> &mut impl Objects<Self> {
        &mut stores.service_cidrs
    }
}
