//! What was seen of others, and when it is time to say so again. Bounded: a flood of forged packets fills neither memory
//! nor the log.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Time until the same thing is reported again.
const REPEAT: Duration = Duration::from_mins(1);
/// Most things remembered. Beyond it new ones wait until older ones were not seen for [`REPEAT`].
const LIMIT: usize = 1024;

/// Remembers things seen, to report each once a minute.
pub(crate) struct Sightings<K> {
    reported: HashMap<K, Time>,
}

impl<K: Eq + Hash> Sightings<K> {
    pub(crate) fn new() -> Self {
        Self { reported: HashMap::new() }
    }

    /// Notes `seen` and tells whether to report it now.
    pub(crate) fn note(&mut self, seen: K, now: Time) -> bool {
        if self.reported.get(&seen).is_some_and(|&last| now.since(last) < REPEAT) {
            return false;
        }
        if self.reported.len() >= LIMIT {
            self.reported.retain(|_, last| now.since(*last) < REPEAT);
            if self.reported.len() >= LIMIT {
                return false;
            }
        }
        self.reported.insert(seen, now);
        true
    }
}

/// Time a claim must stand before it is a conflict: at a hand-over the next Active's ARP may overtake its advert.
const GRACE: Duration = Duration::from_secs(1);

/// Foreign claims to our addresses.
pub(crate) struct Claims<K> {
    pending: HashMap<K, Time>,
    reported: Sightings<K>,
}

impl<K: Eq + Hash + Copy> Claims<K> {
    pub(crate) fn new() -> Self {
        Self { pending: HashMap::new(), reported: Sightings::new() }
    }

    /// Notes a claim seen while Active.
    pub(crate) fn note(&mut self, claim: K, now: Time) {
        if self.pending.len() < LIMIT {
            self.pending.entry(claim).or_insert(now);
        }
    }

    /// Claims to report: older than the grace and contested still, that is, `contested` says we are Active.
    pub(crate) fn due(&mut self, now: Time, contested: impl Fn(&K) -> bool) -> Vec<K> {
        let ripe: Vec<K> = self
            .pending
            .iter()
            .filter(|(_, since)| now.since(**since) >= GRACE)
            .map(|(claim, _)| *claim)
            .collect();
        for claim in &ripe {
            self.pending.remove(claim);
        }
        ripe.into_iter().filter(|claim| contested(claim) && self.reported.note(*claim, now)).collect()
    }

    /// When [`Self::due`] may have something.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.pending.values().min().map(|since| *since + GRACE)
    }
}
