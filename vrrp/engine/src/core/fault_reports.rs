//! Which faults of a virtual router are reported, and how often.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::{Interval, Time};

use crate::config::RouterKey;
use crate::event::Event;
use crate::rate_limit::RateLimiter;

#[cfg(test)]
mod tests;

/// Adverts refused in a row that are reported: as many as a Backup misses before it takes over.
const REPORTED_AFTER: u32 = 3;
/// Time for which a peer of lower claim stays Active, in intervals and at least, until that is reported: one that receives this node's
/// adverts stops immediately.
const CONTENDED_FOR: (u32, Duration) = (5, Duration::from_secs(3));
/// Adverts that it may miss, as a Backup may, without having fallen silent.
const MISSED: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    SourceInUse,
    AdvertsRefused,
    SecondActive,
    PeersNotRecognised,
}

/// Adverts of a peer of lower claim while this node is Active.
#[derive(Clone, Copy, Debug)]
struct Contention {
    source: IpAddr,
    since: Time,
    last: Time,
}

/// Fault reports of one router.
pub(super) struct FaultReports {
    reported: RateLimiter<Fault>,
    /// Adverts refused since one was sent.
    refused: u32,
    contention: Option<Contention>,
}

impl FaultReports {
    pub(super) fn new() -> Self {
        Self { reported: RateLimiter::new(), refused: 0, contention: None }
    }

    /// An advert came from the router's own address.
    pub(super) fn own_source(&mut self, key: &RouterKey, now: Time) -> Option<Event> {
        self.reported.permits(Fault::SourceInUse, now).then(|| Event::SourceInUse { key: key.clone() })
    }

    /// Reports a sender that is not taken for a peer, because new peers are admitted at a limited pace.
    pub(super) fn not_recognised(&mut self, key: &RouterKey, now: Time) -> Option<Event> {
        let is_reported = self.reported.permits(Fault::PeersNotRecognised, now);
        is_reported.then(|| Event::PeersNotRecognised { key: key.clone() })
    }

    /// A peer's advert came that is beaten by this node's own, while this node was Active.
    pub(super) fn contended(
        &mut self,
        key: &RouterKey,
        source: IpAddr,
        interval: Interval,
        now: Time,
    ) -> Option<Event> {
        let (intervals, at_least) = CONTENDED_FOR;
        let goes_on = |known: &Contention| {
            known.source == source && now.since(known.last) <= interval.duration().saturating_mul(MISSED)
        };
        let since = self.contention.filter(goes_on).map_or(now, |known| known.since);
        self.contention = Some(Contention { source, since, last: now });
        let is_reported = now.since(since) >= interval.duration().saturating_mul(intervals).max(at_least)
            && self.reported.permits(Fault::SecondActive, now);
        is_reported.then(|| Event::SecondActive { key: key.clone(), source })
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
