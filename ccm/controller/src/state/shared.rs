//! The state under its lock, and the queues of what changed.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use tokio::sync::SetOnce;
use windlass_api::{ServiceRef, VirtualIP};
use windlass_ccm::ServiceKey;
use windlass_ccm::store::{Change, Informer};
use windlass_ccm::watch::Event;

use super::ClusterState;
use super::watched_kinds::WatchedKind;
use crate::allocation::allocation_state::AllocationState;
use crate::allocation::settings::Settings;
use crate::nodes::inventory::MachineInventory;
use crate::stores::clock::Clock;
use crate::stores::key_queue::KeyQueue;
use crate::stores::{ObjectStore as _, Stores};
use crate::wakeup::{Urgency, Wakeup};

/// The state, shared by the watches, the provider and the planner. The lock is held for decisions only, never while
/// something is waited for.
#[derive(Debug, Default)]
pub struct SharedState {
    state: Mutex<ClusterState>,
    /// Services for the service controller to sync.
    pub(crate) services_to_sync: Arc<KeyQueue<ServiceKey>>,
    /// Nodes for the node controller to sync.
    pub(crate) nodes_to_sync: Arc<KeyQueue<String>>,
    /// The machines as the admin lists them.
    pub(crate) inventory: MachineInventory,
    /// Requests for another pass of the planner.
    pub(crate) planner_wakeup: Wakeup,
    /// Requests for another pass of the upkeep.
    pub(crate) upkeep_wakeup: Wakeup,
    /// Set once the ledger is built.
    pub(crate) ready: SetOnce<()>,
}

impl SharedState {
    /// Nothing is known yet but what these informers know.
    pub(crate) fn new(
        settings: Settings,
        clock: Clock,
        services: Informer<Service>,
        nodes: Informer<Node>,
    ) -> Self {
        let stores = Stores { services, nodes, ..Stores::default() };
        let allocation = AllocationState::new(settings);
        Self {
            state: Mutex::new(ClusterState { stores, allocation, clock, ..ClusterState::default() }),
            ..Self::default()
        }
    }

    /// Decides on the state.
    pub(crate) fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an event of a watch.
    pub(crate) fn handle<K: WatchedKind>(&self, event: Event<K>) {
        let event = event.map(K::slimmed);
        self.update(|state| (K::store(&mut state.stores).handle(event), Vec::new()));
    }

    /// Takes in the API server's answer to a write.
    pub(crate) fn learn<K: WatchedKind>(&self, object: K) {
        let object = object.slimmed();
        self.update(|state| (K::store(&mut state.stores).learn(object).into_iter().collect(), Vec::new()));
    }

    /// Takes in changes of a shared store, which has them already.
    pub(crate) fn changed<K: WatchedKind>(&self, changes: &[Change<K>]) {
        self.update(|_| (changes.to_vec(), Vec::new()));
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.state().clock.now()
    }

    /// Takes in the API server's answer to a call made for the Service `requester`.
    pub(crate) fn learn_vip(&self, vip: VirtualIP, requester: &ServiceRef) {
        let vip = vip.slimmed();
        self.update(|state| {
            let ClusterState { stores, allocation, clock, .. } = state;
            // The watch was faster: the object is gone again. Ledger and store are updated in one step, or a deletion in
            // between would reach only one of them.
            if stores.vips.is_gone(&vip) {
                let keys = allocation.cancel_promise(stores, clock.now(), vip.spec.address, requester, false);
                return (Vec::new(), keys);
            }
            let keys = allocation.observe_vip(stores, clock.now(), &vip, Some(requester));
            (stores.vips.learn(Arc::new(vip)).into_iter().collect(), keys)
        });
        self.request_reconcile(Urgency::Soon);
    }

    /// The addresses that are promised to Services changed, which no object may show: pools count them. `keys`: the Services to
    /// sync.
    fn promises_changed(&self, keys: Vec<ServiceKey>) {
        self.services_to_sync.push(keys);
        self.request_reconcile(Urgency::Soon);
    }

    /// The API server has no object for `address`.
    /// `known`: the object as it was known before that call. One that was made since is not gone.
    pub(crate) fn vip_absent(&self, address: IpAddr, requester: &ServiceRef, known: Option<&VirtualIP>) {
        if let Some(known) = known {
            self.forget(known);
        }
        self.cancel_promise(address, requester, false);
    }

    /// `holder` has released `address`, unless the object still names it.
    pub(crate) fn holder_left(&self, address: IpAddr, holder: &ServiceRef) {
        self.cancel_promise(address, holder, true);
    }

    fn cancel_promise(&self, address: IpAddr, holder: &ServiceRef, parts: bool) {
        let keys = {
            let ClusterState { stores, allocation, clock, .. } = &mut *self.state();
            allocation.cancel_promise(stores, clock.now(), address, holder, parts)
        };
        self.promises_changed(keys);
    }

    /// We deleted the object with this UID, and no Service is to create it again.
    pub(crate) fn vip_deleted(&self, address: IpAddr, uid: &str) {
        let (keys, known) = {
            let ClusterState { stores, allocation, clock, .. } = &mut *self.state();
            let keys = allocation.vip_deleted(stores, clock.now(), address, uid, false);
            (keys, stores.vip(address).filter(|vip| vip.metadata.uid.as_deref() == Some(uid)).cloned())
        };
        self.promises_changed(keys);
        if let Some(known) = known {
            self.forget(&*known);
        }
    }

    /// An object is gone.
    pub(crate) fn forget<K: WatchedKind + Clone>(&self, object: &K) {
        self.handle(Event::Delete(object.clone()));
    }

    /// Changes the state by `update`, which returns the changed objects and Services to sync.
    fn update<K: WatchedKind>(
        &self,
        update: impl FnOnce(&mut ClusterState) -> (Vec<Change<K>>, Vec<ServiceKey>),
    ) {
        let mut state = self.state();
        let (notify, mut keys) = update(&mut state);
        for one in &notify {
            keys.extend(state.on_change(K::watched(one)));
        }
        let rebuilt = state.rebuild_when_complete();
        let urgency = notify.iter().map(|change| K::urgency(&state, change)).max();
        let nodes = std::mem::take(&mut state.readdressed_nodes);
        drop(state);
        if !nodes.is_empty() {
            self.nodes_to_sync.push(nodes);
        }
        if rebuilt {
            tracing::info!("every list is complete; addresses in use are known");
            // Fails only if it was set before, which comes to the same.
            drop(self.ready.set(()));
        }
        if !keys.is_empty() {
            self.services_to_sync.push(keys);
        }
        let urgency = if rebuilt { Some(Urgency::Now) } else { urgency };
        self.request_reconcile(urgency.unwrap_or(Urgency::Never));
    }

    fn request_reconcile(&self, urgency: Urgency) {
        self.planner_wakeup.request(urgency);
        self.upkeep_wakeup.request(urgency);
    }

    /// Reviews the pools, and queues the affected Services. `false`: the lists are not complete yet.
    pub(crate) fn review_pools(&self) -> bool {
        let woken = {
            let ClusterState { stores, allocation, .. } = &mut *self.state();
            if !allocation.is_ready() {
                return false;
            }
            allocation.review_pools(stores).1
        };
        self.services_to_sync.push(woken);
        true
    }
}
