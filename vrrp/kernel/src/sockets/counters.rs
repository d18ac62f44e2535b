//! Counters of packets that were rejected on an interface, shared by several threads.

use std::sync::atomic::{AtomicU64, Ordering};

use windlass_vrrp::auth::AuthError;
use windlass_vrrp::wire::Rejection;

/// Counters of an interface.
#[derive(Debug, Default)]
pub struct LinkCounters {
    rejected: [AtomicU64; Rejection::LABELS.len()],
    unauthenticated: [AtomicU64; AuthError::LABELS.len()],
    foreign_adverts: AtomicU64,
}

impl LinkCounters {
    /// Counts an advert that is malformed or not permitted.
    pub fn count_rejected(&self, rejection: Rejection) {
        self.rejected[rejection.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an advert whose authentication failed.
    pub fn count_unauthenticated(&self, error: AuthError) {
        self.unauthenticated[error.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an advert of a foreign router.
    pub fn count_foreign(&self) {
        self.foreign_adverts.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of adverts of foreign routers.
    pub fn foreign_adverts(&self) -> u64 {
        self.foreign_adverts.load(Ordering::Relaxed)
    }

    /// Returns the numbers of rejected adverts, by label.
    pub fn rejected(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let labels = Rejection::LABELS.into_iter().chain(AuthError::LABELS);
        labels.zip(self.refusals().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Adds the counts of the old sockets: the new ones continue them.
    pub fn inherit(&self, old: &Self) {
        self.foreign_adverts.fetch_add(old.foreign_adverts(), Ordering::Relaxed);
        for (own, (_, count)) in self.refusals().zip(old.rejected()) {
            own.fetch_add(count, Ordering::Relaxed);
        }
    }

    fn refusals(&self) -> impl Iterator<Item = &AtomicU64> {
        self.rejected.iter().chain(&self.unauthenticated)
    }
}
