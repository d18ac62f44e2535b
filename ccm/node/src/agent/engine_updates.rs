//! Updates of the engine and their order: restrictions are in force before an address is announced.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use windlass_engine::{Engine, GuardStatus, Restrictions, RouterConfig, RouterKey, RouterStatus, Shares};
use windlass_vrrp::Priority;

use super::admission::{Unguarded, admit, admitted, restrictions};
use super::desired::{Assignment, Desired, TURNS};
use super::engine_state::EngineState;
use super::health::FailedChecks;
use super::index::{Part, Update};
use super::replication::way_back::WaysBack;
use super::replication::{Known, Obstacle, Replication, Share, Standing};
use super::service_proxy::ServiceProxy;
use super::sharing::{Conversion, SharedAddress};
use crate::flaps::Flaps;
use crate::keys::Keys;

#[cfg(test)]
mod tests;

/// State passed to the engine, and the inputs that determine it.
pub(super) struct EngineUpdates {
    engine: Arc<Engine>,
    engine_state: Arc<EngineState>,
    /// Reason why this node's guard blocks nothing, although it may be installed.
    guard_obstacle: Option<String>,
    /// True if something else than netfilter handles the packets of Services: the guard then passes packets that it sees untranslated.
    passes_untranslated: bool,
    /// kube-proxy's mark for packets that it masquerades; `None`: not known.
    masquerade_mark: Option<u32>,
    wanted: Arc<Restrictions>,
    given: Vec<Assignment>,
    /// Addresses that the engine directs packets for, and its table of them; `None`: not given yet.
    shared: Option<(Vec<Arc<SharedAddress>>, Arc<Shares>)>,
    conversion: Conversion,
    /// Failed checks of this node: they lower its priority.
    failed: FailedChecks,
    keys: Arc<Keys>,
    /// Recent losses of this node's interfaces.
    flaps: BTreeMap<String, Flaps>,
    /// Replication of connections to other nodes.
    replication: Replication,
}

impl EngineUpdates {
    pub(super) fn new(
        engine: Arc<Engine>,
        engine_state: Arc<EngineState>,
        guard_obstacle: Option<String>,
        failed: FailedChecks,
        keys: Arc<Keys>,
    ) -> Self {
        let (wanted, given, flaps) = (Arc::default(), Vec::new(), BTreeMap::new());
        let (replication, passes_untranslated) = (Replication::default(), false);
        Self {
            engine,
            engine_state,
            guard_obstacle,
            passes_untranslated,
            masquerade_mark: None,
            wanted,
            given,
            shared: None,
            conversion: Conversion::default(),
            failed,
            keys,
            flaps,
            replication,
        }
    }

    /// Replaces this node's keys.
    pub(super) fn set_keys(&mut self, keys: Arc<Keys>) {
        if self.keys != keys {
            self.keys = keys;
            self.apply();
        }
    }

    /// Sets or clears the obstacle that keeps the guard from seeing the packets that it should block.
    pub(super) fn set_guard_obstacle(&mut self, obstacle: Option<String>, desired: Option<&Desired>) {
        if self.guard_obstacle != obstacle {
            self.guard_obstacle = obstacle;
            self.refresh(desired);
        }
    }

    /// Sets whether something else than netfilter handles the packets of Services.
    pub(super) fn set_passes_untranslated(&mut self, passes: bool, desired: Option<&Desired>) {
        if self.passes_untranslated == passes {
            return;
        }
        self.passes_untranslated = passes;
        if let Some(desired) = desired {
            self.restrict(desired);
        }
    }

    /// Sets the mark with which kube-proxy masquerades packets; `None`: not known.
    pub(super) fn set_masquerade_mark(&mut self, mark: Option<u32>, desired: Option<&Desired>) {
        if self.masquerade_mark == mark {
            return;
        }
        self.masquerade_mark = mark;
        if let Some(desired) = desired {
            self.restrict(desired);
        }
    }

    /// Replaces the set of failing checks.
    pub(super) fn set_failed(&mut self, failed: FailedChecks) {
        if self.failed != failed {
            self.failed = failed;
            self.apply();
        }
    }

    /// Records that an interface can no longer be used.
    pub(super) fn note_lost(&mut self, interface: &str, now: Instant) {
        if self.flaps.entry(interface.to_owned()).or_default().note(now) {
            self.apply();
        }
    }

    /// Returns the next instant at which [`Self::shorten_delays`] has an effect.
    pub(super) fn next_delay_change(&self) -> Option<Instant> {
        let now = Instant::now();
        self.flaps.values().filter_map(|flaps| flaps.next_change(now)).min()
    }

    /// Applies delays again, without losses that have expired.
    pub(super) fn shorten_delays(&self) {
        self.apply();
    }

    /// Reapplies priorities after this node became Active for a virtual router or ceased to be.
    pub(super) fn follow_activity(&self) {
        if self.failed.spares_active() {
            self.apply();
        }
    }

    /// Returns true if connections of some virtual router are to be replicated.
    pub(super) fn replicates(&self) -> bool {
        !self.replication.is_idle() || self.given.iter().any(Assignment::replicates)
    }

    /// Reads the state of the replication of connections, and passes the result to the engine and the report.
    pub(super) fn follow_replication(
        &mut self,
        proxy: ServiceProxy,
        ways: &WaysBack,
        (now, wall): (Instant, Timestamp),
    ) {
        let unguarded = self.status().error;
        let mark = self.masquerade_mark;
        let way =
            |assignment: &Assignment| Obstacle::look(unguarded.as_deref(), proxy, mark, ways.of(assignment));
        let known = Known::from(&*self.engine.replication_status());
        let routers = self.engine.snapshot();
        let standing =
            |router: RouterStatus| (router.key, Standing { state: router.state, active: router.active });
        let standings = routers.into_iter().map(standing).collect();
        if self.replication.look(&self.given, &standings, way, &known, now, wall) {
            self.apply();
        }
        self.engine_state.set_connections(self.replication.findings());
    }

    /// Returns the number of addresses the engine has.
    pub(super) fn addresses(&self) -> usize {
        self.given.iter().map(|one| one.addresses.len()).sum()
    }

    /// Applies another desired state. Restrictions and shared addresses come first: no address is announced before its restrictions are in
    /// force.
    pub(super) fn update(&mut self, desired: &Desired, update: &Update) {
        match update {
            Update::Whole | Update::Part(Part { restricted: true, .. }) => {
                self.restrict(desired);
                self.share(desired);
                self.refresh(Some(desired));
            }
            Update::Part(Part { restricted: false, shared, routers }) => {
                if *shared {
                    self.share(desired);
                }
                self.update_routers(desired, routers);
            }
        }
    }

    /// Passes the last orders to the engine again: a panic may have interrupted them.
    pub(super) fn repeat(&self) {
        self.engine.restrict(Arc::clone(&self.wanted));
        if let Some((_, shares)) = &self.shared {
            self.engine.share(Arc::clone(shares));
        }
        self.apply();
    }

    fn restrict(&mut self, desired: &Desired) {
        let mut wanted = restrictions(&desired.restricted);
        if self.passes_untranslated {
            wanted.pass_untranslated();
        }
        if let Some(mark) = self.masquerade_mark {
            wanted.set_masquerade_mark(mark);
        }
        if *self.wanted != wanted {
            self.wanted = Arc::new(wanted);
            self.engine.restrict(Arc::clone(&self.wanted));
        }
    }

    /// Passes the shared addresses to the engine if they changed. Also if none is shared at first: an earlier process may have left a table.
    fn share(&mut self, desired: &Desired) {
        if self.shared.as_ref().is_none_or(|(known, _)| *known != desired.shared) {
            let new = Arc::new(self.conversion.of(&desired.shared));
            self.engine.share(Arc::clone(&new));
            self.shared = Some((desired.shared.clone(), new));
        }
    }

    /// Admits the desired state again: the restrictions in force may have changed.
    pub(super) fn refresh(&mut self, desired: Option<&Desired>) {
        let status = self.status();
        self.engine_state.set_unguarded(Unguarded::of(&status));
        let Some(desired) = desired else { return };
        let announced = self.given.iter().flat_map(|one| &one.addresses).copied().collect();
        let new = admitted(desired, &self.wanted, &status, &announced);
        if self.given != new {
            self.engine_state.restrict(&addresses(&new));
            self.given = new;
            self.apply();
        }
    }

    /// Applies the new addresses of these virtual routers; all else is unchanged.
    fn update_routers(&mut self, desired: &Desired, routers: &BTreeSet<String>) {
        let status = self.status();
        self.engine_state.set_unguarded(Unguarded::of(&status));
        let mut changed = false;
        for at in 0..self.given.len() {
            let old = &self.given[at];
            if !routers.contains(&old.virtual_router) {
                continue;
            }
            let Some(wanted) =
                desired.assignments.iter().find(|one| one.virtual_router == old.virtual_router)
            else {
                return self.refresh(Some(desired));
            };
            let given = |address: &IpAddr| self.given.iter().any(|one| one.addresses.contains(address));
            let new = admit(wanted, &desired.restricted, &self.wanted, &status, given);
            if *old != new {
                if let Ok(key) = old.key() {
                    let others: Vec<IpAddr> =
                        old.addresses.symmetric_difference(&new.addresses).copied().collect();
                    self.engine_state.forget(&key, &others);
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
        if self.guard_obstacle.is_none() {
            return (*self.engine.guard_status()).clone();
        }
        // The rules in the kernel block no client.
        let mut status = GuardStatus::default();
        status.error.clone_from(&self.guard_obstacle);
        status
    }

    fn apply(&self) {
        self.engine.apply(self.given.iter().filter_map(|one| self.config(one)).collect());
    }

    fn config(&self, assignment: &Assignment) -> Option<RouterConfig> {
        let is_active = assignment.key().is_ok_and(|key| self.engine_state.is_active(&key));
        let flaps = self.flaps.get(&assignment.interface);
        let delay = flaps.map_or(Duration::ZERO, |flaps| flaps.delay(Instant::now()));
        let share = match assignment.key() {
            Ok(key) if assignment.replicates() => self.replication.share(&key),
            Ok(_) | Err(_) => Share::default(),
        };
        config(assignment, &self.failed, is_active, delay, &self.keys).map(|config| share.applied_to(config))
    }
}

/// Builds the engine's config. `delay`: shortest time for which another node is left in place. `desired` and the state file admit valid
/// assignments only; `None`: this node lacks the key, as is possible with an assignment from the state file.
fn config(
    assignment: &Assignment,
    failed: &FailedChecks,
    is_active: bool,
    delay: Duration,
    keys: &Keys,
) -> Option<RouterConfig> {
    let priority = Priority::new(failed.priority(assignment, is_active)).ok()?;
    let config = assignment.config().ok()?;
    let authentication = match assignment.key_id {
        Some(id) => Some(keys.authentication(id, config.interval)?),
        None => None,
    };
    // A node that is not fit comes after all others, whatever the list says: where two nodes' checks fail, it must not be faster than the
    // fit ones.
    let mut preferred = config.preferred;
    if priority < config.priority {
        let others: Vec<IpAddr> =
            config.peers.iter().filter(|peer| !preferred.contains(*peer)).copied().collect();
        let missing = TURNS.saturating_sub(preferred.len());
        preferred.extend(others.into_iter().take(missing));
    }
    let preempt_delay = config.preempt_delay.max(delay);
    Some(RouterConfig { priority, authentication, preferred, preempt_delay, ..config })
}

/// The virtual IPs of each virtual router.
fn addresses(assignments: &[Assignment]) -> BTreeMap<RouterKey, &BTreeSet<IpAddr>> {
    assignments.iter().filter_map(|one| Some((one.key().ok()?, &one.addresses))).collect()
}
