//! Other hosts that claim addresses this node is Active for: when that is a conflict, when it is reported and when the
//! address is defended. Bounded: a flood of forged claims fills neither memory nor the log nor the LAN.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::Time;

use crate::rate_limit::RateLimiter;

use super::packet::Claim;

#[cfg(test)]
mod tests;

/// Time a claim must stand before it is a conflict: at a hand-over the next Active's announcement may overtake its advert.
const GRACE: Duration = Duration::from_secs(1);
/// Time between two defences of an address (RFC 5227 §2.4 (c), DEFEND_INTERVAL): two hosts that both defend must not
/// fill the LAN.
const DEFEND: Duration = Duration::from_secs(10);
/// Most claims that are recorded.
const LIMIT: usize = 1024;

/// Foreign claims. `K` identifies the virtual router.
pub(super) struct Conflicts<K> {
    pending: HashMap<(K, Claim), Time>,
    reported: RateLimiter<(K, Claim)>,
    defended: RateLimiter<(K, IpAddr)>,
}

/// Action on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Conflict<K> {
    pub(super) router: K,
    pub(super) claim: Claim,
    /// True if it is to be reported.
    pub(super) report: bool,
    /// True if the address is to be announced once more, if it is to be defended.
    pub(super) defend: bool,
}

/// State of a claim when its grace has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Contest {
    /// This node announces the address, and the other host is another.
    Stands,
    /// This node is about to announce the address.
    Pending,
    /// It is no conflict.
    Over,
}

impl<K: Eq + Hash + Copy> Conflicts<K> {
    pub(super) fn new() -> Self {
        Self {
            pending: HashMap::new(),
            reported: RateLimiter::new(),
            defended: RateLimiter::with_period(DEFEND),
        }
    }

    /// Records a claim to an address that the router is Active for.
    pub(super) fn note(&mut self, router: K, claim: Claim, now: Time) {
        if self.pending.len() < LIMIT {
            self.pending.entry((router, claim)).or_insert(now);
        }
    }

    /// Returns claims that have stood for the grace and stand still. One that is pending is looked at again after another grace.
    pub(super) fn due(
        &mut self,
        now: Time,
        mut contest: impl FnMut(K, &Claim) -> Contest,
    ) -> Vec<Conflict<K>> {
        let mut conflicts = Vec::new();
        let (reported, defended) = (&mut self.reported, &mut self.defended);
        self.pending.retain(|(router, claim), since| {
            if now.since(*since) < GRACE {
                return true;
            }
            let (router, claim) = (*router, *claim);
            match contest(router, &claim) {
                Contest::Stands => {
                    let report = reported.permits((router, claim), now);
                    let defend = defended.permits((router, claim.address), now);
                    conflicts.push(Conflict { router, claim, report, defend });
                    false
                }
                Contest::Pending => {
                    *since = now;
                    true
                }
                Contest::Over => false,
            }
        });
        conflicts
    }

    /// Returns the time at which [`Self::due`] may have something.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.pending.values().min().map(|since| *since + GRACE)
    }
}
