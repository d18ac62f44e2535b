//! What the kernel's connection tracking is to forget. To find it the kernel is asked for lists, which this thread must not wait for: it
//! has a takeover to prepare. What is forgotten late costs a client one packet that is sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::Time;

use super::arrivals::Arrivals;
use super::moves::Moves;
use crate::clock;
use crate::connections::{Tracking, TrackingError};
use crate::guard::connections;
use crate::handle::SharedState;
use crate::lists::{Listing, Lists};

/// Connections that are forgotten at the end, in milliseconds: the others expire.
const AT_THE_END: usize = 512;

/// What is being forgotten.
pub(super) struct Forgetting {
    shared: Arc<SharedState>,
    /// Name of the guard's table.
    table: String,
    closed: Listing<BTreeMap<IpAddr, u64>>,
    marked: Listing<BTreeSet<(IpAddr, u32)>>,
    strays: Listing<()>,
}

impl Forgetting {
    pub(super) fn new(shared: Arc<SharedState>, table: String, lists: &Lists) -> Self {
        let [closed, marked, strays] = [(); 3].map(|()| lists.clone());
        let (closed, marked, strays) = (Listing::new(closed), Listing::new(marked), Listing::new(strays));
        Self { shared, table, closed, marked, strays }
    }

    /// Has closed connections to VIPs that came here be forgotten, at once: as long as the kernel knows one, packets of another from the same
    /// port, which began on another node, are dropped and sent again.
    pub(super) fn forget_closed(&mut self, arrivals: &mut Arrivals, now: Time) {
        if let Some(forgotten) = self.closed.answer(now) {
            arrivals.closed_forgotten(&forgotten);
        }
        let takeovers = arrivals.new_vips();
        if self.closed.is_asked() || takeovers.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.closed.ask(move || {
            let vips = takeovers.keys().copied().collect();
            let outcome = tracked(|tracking| connections::forget_closed(tracking, &vips));
            note(&outcome);
            shared.wake_hold();
            takeovers
        });
    }

    /// Has connections be forgotten that are forwarded no more, when the guard marks none of them any more.
    pub(super) fn forget_marked(&mut self, moves: &mut Moves, now: Time) {
        if let Some(forgotten) = self.marked.answer(now) {
            moves.forgotten(&forgotten);
        }
        let marked = moves.over();
        if !self.marked.has_rested(now) || marked.is_empty() {
            return;
        }
        let (shared, marked) = (Arc::clone(&self.shared), marked.clone());
        self.marked.ask(move || {
            forget_marked(&marked, usize::MAX);
            shared.wake_hold();
            marked
        });
    }

    /// When there is something to forget without a cause. What is being forgotten wakes the thread.
    pub(super) fn due(&self, moves: &Moves) -> Option<Time> {
        self.marked.rested().filter(|_| !moves.over().is_empty())
    }

    /// Has connections be forgotten that are over, as packets of others show.
    pub(super) fn forget_strays(&mut self, moves: &mut Moves, now: Time) {
        let _ = self.strays.answer(now);
        let Some(had_for) = moves.strays(now).filter(|_| self.strays.has_rested(now)) else { return };
        let table = self.table.clone();
        self.strays.ask(move || forget_strays(&table, &had_for));
    }

    /// Forgets some of what is forwarded no more, and waits for that.
    pub(super) fn end(marked: &BTreeSet<(IpAddr, u32)>) {
        if !marked.is_empty() {
            forget_marked(marked, AT_THE_END);
        }
    }
}

fn forget_marked(marked: &BTreeSet<(IpAddr, u32)>, most: usize) {
    let outcome = tracked(|tracking| connections::forget_marked(tracking, marked, most));
    if let Err(error) = &outcome {
        tracing::warn!(%error, "connections that were forwarded stay known until they expire");
    }
    note(&outcome);
}

fn forget_strays(table: &str, had_for: &BTreeMap<IpAddr, Duration>) {
    let outcome = tracked(|tracking| connections::forget_strays(tracking, table, had_for));
    note(&outcome);
}

fn tracked(
    forget: impl FnOnce(&mut Tracking) -> Result<usize, TrackingError>,
) -> Result<(usize, Duration), TrackingError> {
    let begun = clock::now();
    let forgotten = forget(&mut Tracking::open()?)?;
    Ok((forgotten, clock::now().since(begun)))
}

fn note(outcome: &Result<(usize, Duration), TrackingError>) {
    match outcome {
        Ok((0, _)) => {}
        Ok((count, took)) => tracing::debug!(count, ?took, "forgot connections that are over here"),
        Err(error) => tracing::debug!(%error, "connections that are over stay known until they expire"),
    }
}
