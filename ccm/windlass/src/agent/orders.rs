//! What the engine is told, and in which order: who may use what is in force before an address is announced.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use windlass_engine::{Engine, GuardStatus, Restrictions, RouterConfig, RouterKey};

use super::admission::{admit, admitted, restrictions};
use super::board::Board;
use super::desired::{Assignment, Desired};
use super::index::{Part, Update};

/// What the engine was told, and what it may be told.
pub(super) struct Orders {
    engine: Arc<Engine>,
    board: Arc<Board>,
    /// Whether the engine has a guard.
    guard: bool,
    wanted: Arc<Restrictions>,
    given: Vec<Assignment>,
}

impl Orders {
    pub(super) fn new(engine: Arc<Engine>, board: Arc<Board>, guard: bool) -> Self {
        Self { engine, board, guard, wanted: Arc::default(), given: Vec::new() }
    }

    /// How many addresses the engine has.
    pub(super) fn addresses(&self) -> usize {
        self.given.iter().map(|one| one.addresses.len()).sum()
    }

    /// Another state is desired. Who may use what first: no address is announced before that is in force.
    pub(super) fn give(&mut self, desired: &Desired, update: &Update) {
        match update {
            Update::Whole | Update::Part(Part { restricted: true, .. }) => {
                self.restrict(desired);
                self.look(Some(desired));
            }
            Update::Part(Part { restricted: false, routers }) => self.give_some(desired, routers),
        }
    }

    fn restrict(&mut self, desired: &Desired) {
        let wanted = restrictions(&desired.restricted);
        if *self.wanted != wanted {
            self.wanted = Arc::new(wanted);
            self.engine.restrict(Arc::clone(&self.wanted));
        }
    }

    /// What is in force may have changed.
    pub(super) fn look(&mut self, desired: Option<&Desired>) {
        let status = self.status();
        self.board.set_unguarded(status.error.as_deref());
        let Some(desired) = desired else { return };
        let announced = self.given.iter().flat_map(|one| &one.addresses).copied().collect();
        let new = admitted(desired, &self.wanted, &status, &announced);
        if self.given != new {
            self.board.restrict(&addresses(&new));
            self.given = new;
            self.apply();
        }
    }

    /// These virtual routers are to have other addresses; all else is as it was.
    fn give_some(&mut self, desired: &Desired, routers: &BTreeSet<String>) {
        let status = self.status();
        self.board.set_unguarded(status.error.as_deref());
        let mut changed = false;
        for at in 0..self.given.len() {
            let old = &self.given[at];
            if !routers.contains(&old.virtual_router) {
                continue;
            }
            let Some(wanted) =
                desired.assignments.iter().find(|one| one.virtual_router == old.virtual_router)
            else {
                return self.look(Some(desired));
            };
            let given = |address: &IpAddr| self.given.iter().any(|one| one.addresses.contains(address));
            let new = admit(wanted, &desired.restricted, &self.wanted, &status, given);
            if *old != new {
                if let Ok(key) = old.key() {
                    let others: Vec<IpAddr> =
                        old.addresses.symmetric_difference(&new.addresses).copied().collect();
                    self.board.forget(&key, &others);
                }
                self.given[at] = new;
                changed = true;
            }
        }
        if changed {
            self.apply();
        }
    }

    fn status(&self) -> GuardStatus {
        let mut status = (*self.engine.guard_status()).clone();
        if !self.guard {
            status.error = Some("its agent runs with --guard=false".to_owned());
        }
        status
    }

    fn apply(&self) {
        // `desired` and the state file let only valid ones through.
        let configs: Vec<RouterConfig> = self.given.iter().filter_map(|one| one.config().ok()).collect();
        self.engine.apply(configs);
    }
}

/// The virtual IPs of each virtual router.
fn addresses(assignments: &[Assignment]) -> BTreeMap<RouterKey, &BTreeSet<IpAddr>> {
    assignments.iter().filter_map(|one| Some((one.key().ok()?, &one.addresses))).collect()
}
