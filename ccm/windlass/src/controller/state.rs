//! What the controller knows: the cluster as the watches show it, the ledger, and who waits for an address. Decisions
//! here are synchronous and touch nothing outside; they return the Services to look at again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tokio::sync::SetOnce;
use windlass_api::{
    CONDITION_ANNOUNCED, NodeNetwork, REASON_ADDRESS_REFUSED, REASON_ADDRESS_TAKEN, REASON_UNGUARDED,
    ServiceRef, VirtualIP, VirtualIPPool, VirtualRouter, virtual_ip_name,
};
use windlass_ccm::service::is_stable;
use windlass_ccm::{ServiceKey, conditions, slim};
use windlass_ipam::Pool;

use super::cache::{Cache, News, key};
use super::changes::Changes;
use super::clock::Clock;
use super::contest::Contests;
use super::external::Told;
use super::ground::Ground;
use super::holdings::allows_move;
use super::inventory::Inventory;
use super::ledger::Ledger;
use super::loads::Loads;
use super::plan::Unplaced;
use super::pools::{Findings, Obstacles, Reviewed, Reviewer};
use super::replan::{Replan, Urgency};
use super::settings::Settings;
use super::sources;
use super::unsettled::Unsettled;
use super::waiting::{Chance, Waiting};

/// The cluster.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) pools: Cache<VirtualIPPool>,
    pub(crate) vips: Cache<VirtualIP>,
    pub(crate) routers: Cache<VirtualRouter>,
    pub(crate) networks: Cache<NodeNetwork>,
    pub(crate) services: Cache<Service>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) namespaces: Cache<Namespace>,
    pub(crate) service_cidrs: Cache<ServiceCIDR>,
}

/// Everything known.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) world: World,
    pub(crate) ledger: Ledger,
    /// VIPs of each virtual router.
    pub(crate) loads: Loads,
    /// Where they can be.
    pub(crate) ground: Ground,
    /// What changed since all was as planned.
    pub(crate) unsettled: Unsettled,
    /// What pools have to tell of, by their names, unless it is to be looked for anew.
    pub(super) findings: Option<Arc<BTreeMap<String, Findings>>>,
    pub(crate) waiting: Waiting,
    reviewer: Reviewer,
    /// Services with external IPs.
    pub(super) external: BTreeSet<ServiceRef>,
    /// What was told of external IPs that are refused.
    pub(super) told: Told,
    /// Services that may have addresses that nobody sees to: changed since they were looked at.
    pub(super) suspects: BTreeSet<ServiceRef>,
    /// The pools that Services named when they were given what they have.
    pub(super) named_pools: BTreeMap<ServiceRef, String>,
    /// Services whose status another controller writes, too.
    pub(super) contests: Contests,
    pub(crate) clock: Clock,
    /// Nodes whose agents reported other addresses since they were looked at.
    readdressed: Vec<String>,
    pools: Vec<Pool>,
    /// All lists are complete and the ledger was built from them: before that nobody may be given anything.
    pub(crate) ready: bool,
}

/// Name of a Service for the service controller.
pub(crate) fn service_key(owner: &ServiceRef) -> ServiceKey {
    ServiceKey { namespace: owner.namespace.clone(), name: owner.name.clone() }
}

/// What the agents, or the planner, say of whether some node answers for the address.
pub(crate) fn announced_condition(vip: &VirtualIP) -> Option<&Condition> {
    conditions::find(&vip.status.as_ref()?.conditions, CONDITION_ANNOUNCED)
}

/// Whether some node answers for the address. An address in quarantine, or in no virtual router, may still be said to be
/// announced for a moment after it was withdrawn.
pub(crate) fn is_announced(vip: &VirtualIP) -> bool {
    vip.spec.quarantine.is_none()
        && vip.spec.virtual_router.is_some()
        && announced_condition(vip).is_some_and(|one| one.status == "True")
}

/// Why no virtual router carries the address, if the planner said so. What an agent said before, say that the address is in
/// quarantine, is no reason to believe that none will.
pub(crate) fn why_unplaced(vip: &VirtualIP) -> Option<&str> {
    if vip.spec.virtual_router.is_some() {
        return None;
    }
    let of_planner = |one: &&Condition| Unplaced::REASONS.contains(&one.reason.as_str());
    announced_condition(vip).filter(of_planner).map(|one| one.message.as_str())
}

impl World {
    /// The Service of that name, whatever its UID.
    pub(crate) fn service(&self, owner: &ServiceRef) -> Option<&Arc<Service>> {
        self.services.get(&key(Some(&owner.namespace), &owner.name))
    }
}

impl State {
    /// Reviews the pools and lets the ledger give what can be used. Also says which Services may be served by it.
    pub(crate) fn review_pools(&mut self) -> (Arc<[Reviewed]>, Vec<ServiceKey>) {
        let external = self.external_uses();
        let changed = self.reviewer.refresh(&self.world, external);
        let reviewed = self.reviewer.reviewed();
        if !changed {
            return (reviewed, Vec::new());
        }
        // Who has external IPs may not have them any more: load balancers are seen to by the service controller.
        self.suspects.extend(self.external.iter().cloned());
        let external = self.external.iter().map(service_key).collect::<Vec<_>>();
        let usable: Vec<Pool> = reviewed.iter().map(|one| one.pool.clone()).collect();
        if usable == self.pools {
            return (reviewed, external);
        }
        let owners_and_pools = |state: &Self| -> Vec<(IpAddr, Option<String>)> {
            let held = state.ledger.claims().map(|(address, _)| address);
            held.map(|address| (address, state.ledger.pool_of(address).map(|pool| pool.name.clone())))
                .collect()
        };
        let before = owners_and_pools(self);
        self.ledger.set_pools(usable.iter().cloned());
        self.addresses_concern();
        let before_pools = std::mem::replace(&mut self.pools, usable);
        let after = owners_and_pools(self);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        let mut keys: Vec<_> =
            moved.flat_map(|((address, _), _)| self.ledger.holders(*address)).map(service_key).collect();
        // What a status shows already is its Service's before anybody is given it who waits.
        if self.ready {
            keys.extend(self.adopt_all_shown());
        }
        keys.extend(self.serve(&[Chance::Pools(&before_pools)]));
        keys.extend(external);
        (reviewed, keys)
    }

    /// The pools as they were reviewed last.
    pub(crate) fn reviewed(&self) -> Arc<[Reviewed]> {
        self.reviewer.reviewed()
    }

    /// The node that has `address` itself.
    pub(crate) fn node_with(&self, address: IpAddr) -> Option<&str> {
        self.reviewer.node_with(address)
    }

    /// The Service of that name, whatever its UID.
    pub(crate) fn service(&self, owner: &ServiceRef) -> Option<&Service> {
        self.world.service(owner).map(|service| &**service)
    }

    /// The object that claims `address`.
    pub(crate) fn vip(&self, address: IpAddr) -> Option<&Arc<VirtualIP>> {
        self.world.vips.get(&virtual_ip_name(address))
    }

    fn vip_news(&mut self, news: &News<VirtualIP>) -> Vec<ServiceKey> {
        if !self.ready {
            return Vec::new();
        }
        match (&news.old, &news.new) {
            (old, Some(new)) => {
                let mut keys = self.note(new, None);
                let said = Said::by(new);
                if old.as_ref().map_or_else(|| said.at_first(), |old| Said::by(old)) != said {
                    keys.extend(new.spec.owners.iter().map(service_key));
                }
                keys
            }
            (Some(old), None) => self.gone(old.spec.address, &old.uid().unwrap_or_default(), true),
            (None, None) => Vec::new(),
        }
    }

    fn service_news(&mut self, news: &News<Service>) -> Vec<ServiceKey> {
        if !self.ready {
            return Vec::new();
        }
        let mut keys = self.wishes_changed(news);
        keys.extend(self.service_changed(news.old.as_deref(), news.new.as_deref()));
        keys.extend(self.status_changed(news));
        keys
    }
}

/// What an object says that its Services have to hear of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    announced: bool,
    unplaced: Option<String>,
    /// Why a node that could announce the address does not.
    hindrance: Option<String>,
    pool: String,
    may_move: bool,
}

impl Said {
    /// What an object is expected to say when it is new.
    fn at_first(&self) -> Self {
        Self { pool: self.pool.clone(), may_move: self.may_move, ..Self::default() }
    }

    fn by(vip: &VirtualIP) -> Self {
        let is_hindrance = |one: &&Condition| {
            matches!(one.reason.as_str(), REASON_ADDRESS_TAKEN | REASON_ADDRESS_REFUSED | REASON_UNGUARDED)
        };
        Self {
            announced: is_announced(vip),
            unplaced: why_unplaced(vip).map(str::to_owned),
            hindrance: announced_condition(vip).filter(is_hindrance).map(|one| one.message.clone()),
            pool: vip.spec.pool.clone(),
            may_move: allows_move(vip),
        }
    }
}

/// When the Service was made.
pub(crate) fn created(service: &Service) -> Option<Timestamp> {
    service.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// A kind that the controller watches.
pub(crate) trait Watched: kube::Resource + std::fmt::Debug + Sized {
    /// Its cache.
    fn cache(world: &mut World) -> &mut Cache<Self>;

    /// As it is kept: without what nobody reads.
    fn slimmed(mut self) -> Self {
        self.meta_mut().managed_fields = None;
        self
    }

    /// Takes in what changed, and names the Services to look at again.
    fn news(_state: &mut State, _news: &News<Self>) -> Vec<ServiceKey> {
        Vec::new()
    }

    /// How soon the planner has to look at what changed.
    fn urgency(_news: &News<Self>) -> Urgency {
        Urgency::Now
    }
}

impl Watched for VirtualIPPool {
    fn cache(world: &mut World) -> &mut Cache<Self> {
        &mut world.pools
    }

    fn news(state: &mut State, news: &News<Self>) -> Vec<ServiceKey> {
        state.pool_concerns(news);
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
    fn urgency(news: &News<Self>) -> Urgency {
        match (&news.old, &news.new) {
            (Some(old), Some(new)) if old.spec == new.spec => Urgency::Soon,
            (_, _) => Urgency::Now,
        }
    }
}

impl Watched for VirtualIP {
    fn cache(world: &mut World) -> &mut Cache<Self> {
        &mut world.vips
    }

    fn slimmed(mut self) -> Self {
        self.metadata.managed_fields = None;
        self.spec.owners.shrink_to_fit();
        if let Some(status) = &mut self.status {
            status.conditions.shrink_to_fit();
        }
        self
    }

    fn news(state: &mut State, news: &News<Self>) -> Vec<ServiceKey> {
        state.vip_concerns(news);
        state.vip_news(news)
    }

    /// What has no virtual router waits for one. A status that changed does not concern the plan.
    fn urgency(news: &News<Self>) -> Urgency {
        match (&news.old, &news.new) {
            (Some(old), Some(new)) if old.spec == new.spec => Urgency::Soon,
            (_, Some(new)) if new.spec.virtual_router.is_none() => Urgency::Now,
            (_, Some(_) | None) => Urgency::Soon,
        }
    }
}

impl Watched for VirtualRouter {
    fn cache(world: &mut World) -> &mut Cache<Self> {
        &mut world.routers
    }

    fn news(state: &mut State, news: &News<Self>) -> Vec<ServiceKey> {
        state.router_concerns(news);
        Vec::new()
    }

    /// Agents write the status for people to read.
    fn urgency(news: &News<Self>) -> Urgency {
        match (&news.old, &news.new) {
            (Some(old), Some(new)) if old.spec == new.spec => Urgency::Never,
            (_, _) => Urgency::Now,
        }
    }
}

impl Watched for NodeNetwork {
    fn cache(world: &mut World) -> &mut Cache<Self> {
        &mut world.networks
    }

    fn news(state: &mut State, news: &News<Self>) -> Vec<ServiceKey> {
        state.network_concerns(news);
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
    fn urgency(news: &News<Self>) -> Urgency {
        match (&news.old, &news.new) {
            (Some(old), Some(new)) if old.spec == new.spec => Urgency::Never,
            (_, _) => Urgency::Now,
        }
    }
}

impl Watched for Service {
    fn cache(world: &mut World) -> &mut Cache<Self> {
        &mut world.services
    }

    fn slimmed(mut self) -> Self {
        slim::service(&mut self);
        self
    }

    fn news(state: &mut State, news: &News<Self>) -> Vec<ServiceKey> {
        state.note_external(news);
        state.service_concerns(news);
        state.service_news(news)
    }

    /// It may have left an address behind, for which nobody waits. Who is to be kept out is kept out at once.
    fn urgency(news: &News<Self>) -> Urgency {
        if sources::may_differ(news) { Urgency::Now } else { Urgency::Soon }
    }
}

impl Watched for Namespace {
    fn cache(world: &mut World) -> &mut Cache<Self> {
        &mut world.namespaces
    }

    fn news(state: &mut State, news: &News<Self>) -> Vec<ServiceKey> {
        state.namespace_changed(news)
    }

    /// Only pools look at its labels, for what is new.
    fn urgency(_: &News<Self>) -> Urgency {
        Urgency::Soon
    }
}

impl Watched for Node {
    fn cache(world: &mut World) -> &mut Cache<Self> {
        &mut world.nodes
    }

    fn slimmed(mut self) -> Self {
        slim::node(&mut self);
        self
    }

    fn news(state: &mut State, news: &News<Self>) -> Vec<ServiceKey> {
        state.node_concerns(news);
        Vec::new()
    }

    /// Kubelets write again and again how their nodes are: hundreds of them would keep the planner busy for nothing. It
    /// looks at whether they are stable, the pools at their addresses and those of their pods.
    fn urgency(news: &News<Self>) -> Urgency {
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
    fn cache(world: &mut World) -> &mut Cache<Self> {
        &mut world.service_cidrs
    }
}

/// The state, shared by the watches, the provider and the planner. The lock is held for decisions only, never while
/// something is waited for.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Services for the service controller to look at.
    pub(crate) changes: Arc<Changes<ServiceKey>>,
    /// Nodes for the node controller to look at.
    pub(crate) node_changes: Arc<Changes<String>>,
    /// The machines as the admin lists them.
    pub(crate) inventory: Inventory,
    /// Wishes for another look of the planner.
    pub(crate) replan: Replan,
    /// Set once the ledger is built: nobody needs to ask before.
    pub(crate) ready: SetOnce<()>,
}

impl Shared {
    /// Nothing is known yet.
    pub(crate) fn new(settings: Settings, clock: Clock) -> Self {
        Self { state: Mutex::new(State { settings, clock, ..State::default() }), ..Self::default() }
    }

    /// Decides on the state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object as a watch or the answer to a write shows it.
    pub(crate) fn learn<K: Watched>(&self, object: K) {
        let object = Arc::new(object.slimmed());
        self.take_in(|world| K::cache(world).apply(object).into_iter().collect());
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.state().clock.now()
    }

    /// The API server's answer to a call made for the Service `asked`.
    pub(crate) fn answer(&self, vip: VirtualIP, asked: &ServiceRef) {
        let vip = Arc::new(vip.slimmed());
        self.change(|state| {
            // The watch was faster: the object is gone again. Ledger and cache learn the same in one step, or news of a
            // deletion in between would reach only one of them.
            if state.world.vips.is_gone(&vip) {
                return (Vec::new(), state.absent(vip.spec.address, asked));
            }
            let keys = state.note(&vip, Some(asked));
            (state.world.vips.apply(vip).into_iter().collect(), keys)
        });
    }

    /// The API server has no object for `address`.
    /// `known`: the object as it was known before that call. One that was made since is not gone.
    pub(crate) fn absent(&self, address: IpAddr, asked: &ServiceRef, known: Option<&VirtualIP>) {
        if let Some(known) = known {
            self.forget(known);
        }
        let keys = self.state().absent(address, asked);
        self.changes.push(keys);
    }

    /// We deleted the object with this UID, and nobody is to make it again.
    pub(crate) fn deleted(&self, address: IpAddr, uid: &str) {
        let (keys, known) = {
            let mut state = self.state();
            let keys = state.gone(address, uid, false);
            (keys, state.vip(address).filter(|vip| vip.metadata.uid.as_deref() == Some(uid)).cloned())
        };
        self.changes.push(keys);
        if let Some(known) = known {
            self.forget(&*known);
        }
    }

    /// An object is gone.
    pub(crate) fn forget<K: Watched>(&self, object: &K) {
        self.take_in(|world| K::cache(world).delete(object).into_iter().collect());
    }

    /// Changes a cache and lets the state take in what was news.
    pub(crate) fn take_in<K: Watched>(&self, change: impl FnOnce(&mut World) -> Vec<News<K>>) {
        self.change(|state| (change(&mut state.world), Vec::new()));
    }

    /// Changes the state, which takes in what was news. `change` also names Services to look at again.
    fn change<K: Watched>(&self, change: impl FnOnce(&mut State) -> (Vec<News<K>>, Vec<ServiceKey>)) {
        let mut state = self.state();
        let (news, mut keys) = change(&mut state);
        for one in &news {
            keys.extend(K::news(&mut state, one));
        }
        let rebuilt = state.rebuild_when_complete();
        let nodes = std::mem::take(&mut state.readdressed);
        drop(state);
        if !nodes.is_empty() {
            self.node_changes.push(nodes);
        }
        if rebuilt {
            tracing::info!("every list is complete; addresses in use are known");
            // Fails only if it was set before, which comes to the same.
            drop(self.ready.set(()));
        }
        if !keys.is_empty() {
            self.changes.push(keys);
        }
        let urgency = if rebuilt { Some(Urgency::Now) } else { news.iter().map(K::urgency).max() };
        self.replan.ask(urgency.unwrap_or(Urgency::Never));
    }
}

#[cfg(test)]
mod tests;
