//! What the engine last said, for everybody who needs to know.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::Notify;
use windlass_api::ForeignRouter;
use windlass_engine::{Event, RouterKey, RouterStatus, State};

use super::network::Census;

/// A stretch of time in which this node was Active for a virtual router without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ActivePeriod {
    /// Counts the periods of all routers since the start of the process.
    pub(crate) number: u64,
    /// When it began, by the wall clock: it is for people to read.
    pub(crate) since: Timestamp,
}

#[derive(Debug, Default)]
struct Inner {
    active: BTreeMap<RouterKey, ActivePeriod>,
    periods: u64,
    census: Census,
    conflicts: BTreeMap<String, u64>,
}

impl Inner {
    fn enter(&mut self, key: &RouterKey, state: State, wall: Timestamp) {
        match state {
            State::Active => {
                self.periods += 1;
                let period = ActivePeriod { number: self.periods, since: wall };
                self.active.insert(key.clone(), period);
            }
            State::Initialize | State::Backup => {
                self.active.remove(key);
            }
        }
    }
}

/// The engine's news.
#[derive(Debug, Default)]
pub(crate) struct Board {
    inner: Mutex<Inner>,
    /// The Active periods changed.
    pub(crate) changed: Notify,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of an event.
    pub(crate) fn record(&self, event: &Event, now: Instant, wall: Timestamp) {
        match event {
            Event::StateChanged { key, state, .. } => {
                self.lock().enter(key, *state, wall);
                self.changed.notify_one();
            }
            Event::Stranger { interface, vrid, source, version, .. } => {
                let router = ForeignRouter {
                    interface: interface.clone(),
                    vrid: *vrid,
                    source: *source,
                    version: *version,
                };
                self.lock().census.hear(router, now);
            }
            Event::AddressConflict { interface, .. }
            | Event::AddressTaken { key: RouterKey { interface, .. }, .. } => {
                *self.lock().conflicts.entry(interface.clone()).or_default() += 1;
            }
            // Failed and Recovered come with a change of state; the engine's snapshot has the reason.
            _ => {}
        }
    }

    /// Puts right what events that were lost would have said.
    pub(crate) fn resync(&self, snapshot: &[RouterStatus], wall: Timestamp) {
        let mut inner = self.lock();
        inner.active.retain(|key, _| snapshot.iter().any(|router| router.key == *key));
        for router in snapshot {
            if (router.state == State::Active) != inner.active.contains_key(&router.key) {
                inner.enter(&router.key, router.state, wall);
            }
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// The routers that this node is Active for.
    pub(crate) fn active(&self) -> BTreeMap<RouterKey, ActivePeriod> {
        self.lock().active.clone()
    }

    /// Whether `period` lasts.
    pub(crate) fn lasts(&self, key: &RouterKey, period: ActivePeriod) -> bool {
        self.lock().active.get(key) == Some(&period)
    }

    /// Works with the census.
    pub(crate) fn census<T>(&self, work: impl FnOnce(&mut Census) -> T) -> T {
        work(&mut self.lock().census)
    }

    /// Foreign claims to addresses this node announces, by interface.
    pub(crate) fn conflicts(&self) -> BTreeMap<String, u64> {
        self.lock().conflicts.clone()
    }
}

/// One line of the log for an event.
pub(crate) fn log(event: &Event) {
    match event {
        Event::StateChanged { key, state, reason } => {
            tracing::info!(vrid = key.vrid.get(), interface = %key.interface, %state, ?reason, "state changed");
        }
        Event::Stranger { interface, vrid, source, version, carp, .. } => {
            tracing::debug!(%interface, vrid, %source, version, carp, "heard a VRRP router that is no peer");
        }
        Event::Failed { key, error } => {
            tracing::warn!(vrid = key.vrid.get(), interface = %key.interface, %error, "cannot run the virtual router");
        }
        Event::Recovered { key } => {
            tracing::info!(vrid = key.vrid.get(), interface = %key.interface, "the virtual router runs again");
        }
        Event::AddressConflict { interface, address, mac } => {
            let mac = super::network::mac(*mac);
            tracing::warn!(%interface, %address, %mac, "another station claims an address that this node announces");
        }
        Event::AddressTaken { key, address, mac } => {
            let mac = super::network::mac(*mac);
            tracing::warn!(
                vrid = key.vrid.get(), interface = %key.interface, %address, %mac,
                "the address is not announced: another station answers for it; asking again until it does not"
            );
        }
        Event::AddressOnInterface { key, address } => tracing::warn!(
            vrid = key.vrid.get(), interface = %key.interface, %address,
            "the virtual IP is an address of this node's interface: this node answers for it in Backup, too; remove it \
             there, or give the Service another address"
        ),
        Event::SourceInUse { key } => tracing::warn!(
            vrid = key.vrid.get(), interface = %key.interface,
            "adverts come in from this node's own address: another station has it, or the LAN sends frames back; \
             two nodes with one address both become Active"
        ),
        Event::AdvertsRefused { key, error } => tracing::warn!(
            vrid = key.vrid.get(), interface = %key.interface, %error,
            "the kernel refuses adverts: another node takes over, and both are Active; let IP protocol 112 out"
        ),
        _ => tracing::warn!(?event, "event of the VRRP engine"),
    }
}
