//! Which faults of a virtual router are reported, and how often.

use std::io;

use windlass_vrrp::Time;

use crate::config::RouterKey;
use crate::event::Event;
use crate::rate_limit::RateLimiter;

#[cfg(test)]
mod tests;

/// Adverts refused in a row that are reported: as many as a Backup misses before it takes over.
const REPORTED_AFTER: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    SourceInUse,
    AdvertsRefused,
}

/// Of one router.
pub(super) struct FaultReports {
    reported: RateLimiter<Fault>,
    /// Adverts refused since one was sent.
    refused: u32,
}

impl FaultReports {
    pub(super) fn new() -> Self {
        Self { reported: RateLimiter::new(), refused: 0 }
    }

    /// An advert came from the router's own address.
    pub(super) fn own_source(&mut self, key: &RouterKey, now: Time) -> Option<Event> {
        self.reported.permits(Fault::SourceInUse, now).then(|| Event::SourceInUse { key: key.clone() })
    }

    /// An advert was sent, or refused for this reason.
    pub(super) fn sent(&mut self, key: &RouterKey, refusal: Option<&io::Error>, now: Time) -> Option<Event> {
        let Some(refusal) = refusal else {
            self.refused = 0;
            return None;
        };
        self.refused = self.refused.saturating_add(1);
        let is_reported = self.refused >= REPORTED_AFTER && self.reported.permits(Fault::AdvertsRefused, now);
        is_reported.then(|| Event::AdvertsRefused {
            key: key.clone(),
            error: format!(
                "{key}: the kernel refuses to send its adverts: {refusal}; check that no packet filter drops outgoing packets \
                 of protocol 112, that the interface's queue is not full (`tc -s qdisc show dev {}`), and that the kernel's log has no \
                 `neighbor table overflow`, else raise net.ipv4.neigh.default.gc_thresh3 (net.ipv6…)",
                key.interface
            ),
        })
    }
}
