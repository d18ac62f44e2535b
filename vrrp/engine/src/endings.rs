//! The thread `windlass-endings`: removes the entries of connections that outlive the claim to their address, port or source range
//! from the kernel's connection tracking.
//!
//! The guard refuses the packets of such connections from the moment at which the restrictions change: each end that sends gets a
//! reset. An entry that stayed would serve its client again when another owner gets the address and the port. No election needs
//! this thread, and it has no real-time priority: a list of entries may take long.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_dataplane::restriction::Restrictions;
use windlass_kernel::clock;
use windlass_kernel::connections::{Tracking, TrackingError};
use windlass_vrrp::Family;

use crate::handle::SharedState;
use crate::supervisor::Helper;

mod plan;

use plan::{Pass, Plan};

/// Pause after the kernel refused a list or a removal.
const RETRY: Duration = Duration::from_secs(10);
/// Pauses between two passes, as a multiple of the time that a pass takes: a table of a million entries is not walked all the time.
const REST: u32 = 10;

/// Shared by the engine's handle and the thread.
pub(crate) struct Endings {
    state: Mutex<State>,
    changed: Condvar,
    shared: Arc<SharedState>,
}

struct State {
    plan: Plan,
    stopping: bool,
}

impl Endings {
    /// `notice`: time in which both ends of a connection can get a reset before its entry is removed.
    pub(crate) fn new(shared: Arc<SharedState>, notice: Duration) -> Self {
        let state = Mutex::new(State { plan: Plan::new(notice), stopping: false });
        Self { state, changed: Condvar::new(), shared }
    }

    /// Has the guard enforce these restrictions, and refuse connections to addresses that lost all their owners.
    pub(crate) fn follow(&self, wanted: Arc<Restrictions>) {
        let mut state = self.lock();
        state.plan.follow(wanted, clock::now());
        self.publish(&state);
        self.changed.notify_one();
    }

    /// Ends the thread soon.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_one();
    }

    /// The thread's body; returns when the engine stops.
    pub(crate) fn run(&self, helper: &Helper) {
        let mut tracking = None;
        helper.end_round();
        while let Some(mut pass) = self.next_pass() {
            helper.begin_round();
            let begun = clock::now();
            let outcome = remove(&mut tracking, &mut pass);
            let now = clock::now();
            let mut state = self.lock();
            match outcome {
                Ok(0) => state.plan.done(pass, now),
                Ok(connections) => {
                    tracing::info!(
                        connections,
                        "removed connections to addresses, ports or from sources that no Service has any more"
                    );
                    state.plan.done(pass, now);
                }
                Err(error) => {
                    tracing::warn!(%error, "connections to addresses and ports that no Service has any more stay known; trying again");
                    tracking = None;
                    state.plan.retry(pass, now + RETRY);
                }
            }
            self.publish(&state);
            helper.end_round();
            let pause = now.since(begun).saturating_mul(REST);
            let stops = self.changed.wait_timeout_while(state, pause, |state| !state.stopping);
            drop(stops);
        }
        // Nothing is due any more once this process has ended.
        let mut pass = self.lock().plan.take_all();
        if let Err(error) = remove(&mut tracking, &mut pass) {
            tracing::warn!(%error, "connections to addresses and ports that no Service has any more stay known until they expire");
        }
    }

    /// Waits until entries are due to be removed; `None`: the engine stops.
    fn next_pass(&self) -> Option<Pass> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            let now = clock::now();
            state = match state.plan.due() {
                Some(due) if due <= now => return Some(state.plan.take(now)),
                Some(due) => {
                    let waited = self.changed.wait_timeout(state, due.since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn publish(&self, state: &State) {
        let restrictions = state.plan.restrictions();
        if *self.shared.restrictions() != *restrictions {
            self.shared.restrict(restrictions);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the entries that the pass is about; returns how many.
fn remove(tracking: &mut Option<Tracking>, pass: &mut Pass) -> Result<usize, TrackingError> {
    let tracking = match tracking {
        Some(tracking) => tracking,
        None => tracking.insert(Tracking::open()?),
    };
    let mut removed = 0_usize;
    for family in [Family::V4, Family::V6] {
        if !pass.has(family) {
            continue;
        }
        let mut keys = Vec::new();
        tracking.list_translated(family, |connection| {
            if !pass.is_full() && pass.ends(&connection) {
                pass.note(&connection);
                keys.push(connection.key);
            }
        })?;
        removed = removed.saturating_add(tracking.delete(&keys)?);
    }
    Ok(removed)
}
