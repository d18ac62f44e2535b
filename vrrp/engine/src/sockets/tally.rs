//! What was refused on an interface, counted by several threads.

use std::sync::atomic::{AtomicU64, Ordering};

use windlass_vrrp::wire::Rejection;

/// Counters of an interface.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rejected: [AtomicU64; Rejection::LABELS.len()],
    strangers: AtomicU64,
}

impl Tally {
    pub(crate) fn reject(&self, rejection: Rejection) {
        self.rejected[rejection.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stranger(&self) {
        self.strangers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn strangers(&self) -> u64 {
        self.strangers.load(Ordering::Relaxed)
    }

    /// By reason, in the order of [`Rejection::LABELS`].
    pub(crate) fn rejected(&self) -> [u64; Rejection::LABELS.len()] {
        self.rejected.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Adds another's counts: new sockets go on counting where the old ones stopped.
    pub(crate) fn inherit(&self, old: &Self) {
        self.strangers.fetch_add(old.strangers(), Ordering::Relaxed);
        for (own, count) in self.rejected.iter().zip(old.rejected()) {
            own.fetch_add(count, Ordering::Relaxed);
        }
    }
}
