//! Last reported state of the engine, shared by all parts of the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use windlass_api::{DuplicateAddress, ForeignRouter};
use windlass_engine::{Event, RouterKey, RouterStatus, State};

use super::activity::{ActivePeriod, RouterActivity};
use super::addresses::Answered;
use super::admission::Unguarded;
use super::changes::{ChangeQueue, Changed};
use super::duplicates::Duplicates;
use super::network::ForeignRouters;
use super::replication::Finding;
use super::sharing::finding::SharingState;
use crate::mac;

#[cfg(test)]
mod tests;

#[derive(Debug, Default)]
struct Inner {
    /// Activity in the routers in which this node recently was Active or claimed an address.
    activities: BTreeMap<RouterKey, RouterActivity>,
    periods: u64,
    foreign_routers: ForeignRouters,
    duplicates: Duplicates,
    conflicts: BTreeMap<String, u64>,
    /// The peers between which and this node multicast does not pass, by virtual router.
    without_multicast: BTreeMap<RouterKey, BTreeSet<IpAddr>>,
    unguarded: Arc<Unguarded>,
    /// Findings about the connections of virtual routers for which this node is Active.
    connections: Arc<BTreeMap<RouterKey, Finding>>,
    sharing: Arc<SharingState>,
    answered: Arc<Answered>,
}

impl Inner {
    fn enter(&mut self, key: &RouterKey, state: State, wall: Timestamp) {
        match state {
            State::Active => {
                self.periods += 1;
                let period = ActivePeriod { number: self.periods, since: wall };
                // Another of the engine's threads may have reported its claims before.
                self.activities.entry(key.clone()).or_default().period = Some(period);
            }
            State::Initialize | State::Backup => {
                self.activities.remove(key);
            }
        }
    }

    fn claim(&mut self, key: &RouterKey, addresses: &[IpAddr]) {
        for address in self.activities.entry(key.clone()).or_default().claim(addresses) {
            self.duplicates.clear(&key.interface, address);
        }
    }

    fn set_without_multicast(&mut self, key: &RouterKey, peers: &BTreeSet<IpAddr>) {
        if let Some(activity) = self.activities.get_mut(key).filter(|activity| activity.period.is_some()) {
            activity.deaf.clone_from(peers);
        }
        if peers.is_empty() {
            self.without_multicast.remove(key);
        } else {
            self.without_multicast.insert(key.clone(), peers.clone());
        }
    }

    /// Lists hosts that are confirmed to have an address that this node would claim.
    fn confirm_conflicts(&mut self, now: Instant) {
        for (key, activity) in &self.activities {
            for (address, host) in &activity.taken {
                if host.confirmed_at() <= now {
                    let (interface, mac) = (key.interface.clone(), mac(host.mac));
                    self.duplicates.see(DuplicateAddress { interface, address: *address, mac }, now);
                }
            }
        }
    }
}

/// State collected from the engine's events.
#[derive(Debug, Default)]
pub(crate) struct EngineState {
    inner: Mutex<Inner>,
    /// Objects whose status in the cluster may have to be updated.
    pub(crate) to_report: ChangeQueue,
}

impl EngineState {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event.
    pub(crate) fn record(&self, event: &Event, now: Instant, wall: Timestamp) {
        match event {
            Event::StateChanged { key, state, .. } => {
                self.lock().enter(key, *state, wall);
                self.to_report.add(Changed::all());
            }
            Event::AddressesClaimed { key, addresses } => {
                self.lock().claim(key, addresses);
                self.to_report.add(Changed::addresses(addresses));
            }
            Event::ForeignRouter { interface, vrid, source, version, .. } => {
                let router = ForeignRouter {
                    interface: interface.clone(),
                    vrid: *vrid,
                    source: *source,
                    version: *version,
                };
                self.lock().foreign_routers.hear(router, now);
            }
            Event::AddressConflict { interface, address, mac: host } => {
                let mut inner = self.lock();
                let here = inner.activities.iter_mut().filter(|(key, _)| key.interface == *interface);
                here.for_each(|(_, activity)| activity.note_claimant(*address, *host, now));
                let (interface, mac) = (interface.clone(), mac(*host));
                *inner.conflicts.entry(interface.clone()).or_default() += 1;
                inner.duplicates.see(DuplicateAddress { interface, address: *address, mac }, now);
                drop(inner);
                self.to_report.add(Changed::addresses([address]));
            }
            Event::AddressTaken { key, address, mac } => {
                let mut inner = self.lock();
                let activity = inner.activities.entry(key.clone()).or_default();
                // For an address in service, the conflict in which it is yielded was already counted.
                let is_yielded = activity.claimed.contains(address);
                activity.note_taken(*address, *mac, now);
                if !is_yielded {
                    *inner.conflicts.entry(key.interface.clone()).or_default() += 1;
                }
                drop(inner);
                self.to_report.add(Changed::addresses([address]));
            }
            Event::AddressLeftToPeer { key, address, .. } => {
                self.forget(key, &[*address]);
                self.to_report.add(Changed::addresses([address]));
            }
            Event::WithoutMulticast { key, peers } => {
                self.lock().set_without_multicast(key, peers);
                self.to_report.add(Changed::all());
            }
            // Failed and Recovered come with a change of state; the engine's snapshot has the reason.
            _ => {}
        }
    }

    /// Corrects the state after lost events. That an address is taken is reported again within a minute.
    pub(crate) fn resync(&self, snapshot: &[RouterStatus], wall: Timestamp) {
        let mut inner = self.lock();
        inner.activities.retain(|key, _| snapshot.iter().any(|router| router.key == *key));
        inner.without_multicast.clear();
        for router in snapshot {
            let known = inner.activities.get(&router.key).is_some_and(|activity| activity.period.is_some());
            if (router.state == State::Active) != known {
                inner.enter(&router.key, router.state, wall);
            }
            if router.state == State::Active {
                let claimed: Vec<IpAddr> = router.claimed.iter().copied().collect();
                inner.claim(&router.key, &claimed);
                if let Some(activity) = inner.activities.get_mut(&router.key) {
                    activity.claimed.clone_from(&router.claimed);
                }
            }
            inner.set_without_multicast(&router.key, &router.without_multicast);
        }
        drop(inner);
        self.to_report.add(Changed::all());
    }

    /// Sets this node's virtual routers and their virtual IPs: the state of others is dropped.
    pub(crate) fn restrict(&self, routers: &BTreeMap<RouterKey, &BTreeSet<IpAddr>>) {
        let mut inner = self.lock();
        for (key, activity) in &mut inner.activities {
            activity.restrict(routers.get(key).copied().unwrap_or(&BTreeSet::new()));
        }
    }

    /// Drops the state of addresses that a virtual router has lost or gained.
    pub(crate) fn forget(&self, key: &RouterKey, addresses: &[IpAddr]) {
        if let Some(activity) = self.lock().activities.get_mut(key) {
            activity.forget(addresses);
        }
    }

    /// Sets the reasons why this node cannot block clients that may not use an address.
    pub(crate) fn set_unguarded(&self, unguarded: Unguarded) {
        let mut inner = self.lock();
        if *inner.unguarded != unguarded {
            inner.unguarded = Arc::new(unguarded);
            drop(inner);
            self.to_report.add(Changed::all());
        }
    }

    /// Returns the reasons why this node cannot block clients that may not use an address.
    pub(crate) fn unguarded(&self) -> Arc<Unguarded> {
        Arc::clone(&self.lock().unguarded)
    }

    /// Sets the findings about connections, by virtual router.
    pub(crate) fn set_connections(&self, findings: BTreeMap<RouterKey, Finding>) {
        let mut inner = self.lock();
        if *inner.connections != findings {
            inner.connections = Arc::new(findings);
            drop(inner);
            self.to_report.add(Changed::all());
        }
    }

    /// Returns the findings about connections, by virtual router.
    pub(crate) fn connections(&self) -> Arc<BTreeMap<RouterKey, Finding>> {
        Arc::clone(&self.lock().connections)
    }

    /// Sets the state of sharing on this node.
    pub(crate) fn set_sharing(&self, sharing: SharingState) {
        let mut inner = self.lock();
        if *inner.sharing != sharing {
            inner.sharing = Arc::new(sharing);
            drop(inner);
            self.to_report.add(Changed::all());
        }
    }

    /// Returns the state of sharing on this node.
    pub(crate) fn sharing(&self) -> Arc<SharingState> {
        Arc::clone(&self.lock().sharing)
    }

    /// Sets the addresses that the kernel of this node answers for. Returns true if they changed.
    pub(crate) fn set_answered(&self, answered: Answered) -> bool {
        let mut inner = self.lock();
        let is_news = *inner.answered != answered;
        if is_news {
            inner.answered = Arc::new(answered);
        }
        is_news
    }

    /// Returns the addresses that the kernel of this node answers for.
    pub(crate) fn answered(&self) -> Arc<Answered> {
        Arc::clone(&self.lock().answered)
    }

    /// Reads this node's activity in its routers: it is Active in those that have a period.
    pub(crate) fn read<T>(
        &self,
        now: Instant,
        read: impl FnOnce(&BTreeMap<RouterKey, RouterActivity>) -> T,
    ) -> T {
        let mut inner = self.lock();
        inner.confirm_conflicts(now);
        read(&inner.activities)
    }

    /// Returns a copy of the activities of the routers that this node is Active for.
    #[cfg(test)]
    pub(crate) fn activities(&self, now: Instant) -> BTreeMap<RouterKey, RouterActivity> {
        let is_active = |(_, activity): &(RouterKey, RouterActivity)| activity.period.is_some();
        self.read(now, |activities| activities.clone().into_iter().filter(is_active).collect())
    }

    /// Returns the addresses that another host has, or may have.
    pub(crate) fn taken(&self) -> Vec<IpAddr> {
        self.lock().activities.values().flat_map(|activity| activity.taken.keys().copied()).collect()
    }

    /// Returns the next instant at which an address becomes confirmed as another host's.
    pub(crate) fn next_confirmation(&self, now: Instant) -> Option<Instant> {
        let inner = self.lock();
        let hosts = inner.activities.values().flat_map(|activity| activity.taken.values());
        hosts.map(super::activity::ConflictingHost::confirmed_at).filter(|at| *at > now).min()
    }

    /// Returns true if this node is Active for a virtual router.
    pub(crate) fn is_active(&self, key: &RouterKey) -> bool {
        self.lock().activities.get(key).is_some_and(|activity| activity.period.is_some())
    }

    /// Returns true if `period` is still the current one.
    pub(crate) fn lasts(&self, key: &RouterKey, period: ActivePeriod) -> bool {
        self.lock().activities.get(key).is_some_and(|activity| activity.period == Some(period))
    }

    /// Calls `work` with the observed foreign routers.
    pub(crate) fn foreign_routers<T>(&self, work: impl FnOnce(&mut ForeignRouters) -> T) -> T {
        work(&mut self.lock().foreign_routers)
    }

    /// Returns the peers between which and this node multicast does not pass, with this node's interface.
    pub(crate) fn without_multicast(&self) -> BTreeSet<(String, IpAddr)> {
        let inner = self.lock();
        let all = inner.without_multicast.iter();
        all.flat_map(|(key, peers)| peers.iter().map(|peer| (key.interface.clone(), *peer))).collect()
    }

    /// Returns the hosts that have or claim virtual IPs.
    pub(crate) fn duplicates(&self, now: Instant, is_vip: impl Fn(IpAddr) -> bool) -> Vec<DuplicateAddress> {
        let mut inner = self.lock();
        inner.confirm_conflicts(now);
        inner.duplicates.list(now, is_vip)
    }

    /// Returns the number of foreign claims to addresses this node announces, by interface.
    pub(crate) fn conflicts(&self) -> BTreeMap<String, u64> {
        self.lock().conflicts.clone()
    }
}
