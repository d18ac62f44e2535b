//! Stations that were seen to have or claim a virtual IP of ours. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use windlass_api::DuplicateAddress;

#[cfg(test)]
mod tests;

/// A station that is not seen any more is forgotten after this time.
pub(crate) const FORGET_AFTER: Duration = Duration::from_mins(10);
/// More than these are not kept: an attacker must not fill the memory or the API server.
const MOST: usize = 256;

/// The stations seen lately.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    seen: BTreeMap<DuplicateAddress, Sightings>,
}

/// When a station was seen.
#[derive(Debug, Clone, Copy)]
struct Sightings {
    first: Instant,
    last: Instant,
}

impl Duplicates {
    /// A station has or claims an address.
    pub(crate) fn see(&mut self, duplicate: DuplicateAddress, now: Instant) {
        if let Some(sightings) = self.seen.get_mut(&duplicate) {
            sightings.last = now;
        } else if self.seen.len() < MOST {
            self.seen.insert(duplicate, Sightings { first: now, last: now });
        }
    }

    /// Nobody else has the address any more.
    pub(crate) fn clear(&mut self, interface: &str, address: IpAddr) {
        self.seen.retain(|one, _| one.address != address || one.interface != interface);
    }

    /// Those seen in the last ten minutes with an address that still is a virtual IP.
    pub(crate) fn list(&mut self, now: Instant, is_vip: impl Fn(IpAddr) -> bool) -> Vec<DuplicateAddress> {
        self.seen.retain(|one, seen| now.duration_since(seen.last) < FORGET_AFTER && is_vip(one.address));
        self.seen.keys().cloned().collect()
    }

    /// The link-layer address of the station that has or claims each address on this interface: of several the first that was
    /// seen, so that forged claims of further ones are no news.
    pub(crate) fn stations(&self, interface: &str, now: Instant) -> BTreeMap<IpAddr, String> {
        let is_fresh = |seen: &Sightings| now.duration_since(seen.last) < FORGET_AFTER;
        let mut firsts: BTreeMap<IpAddr, (Instant, &str)> = BTreeMap::new();
        for (one, seen) in self.seen.iter().filter(|(one, seen)| one.interface == interface && is_fresh(seen))
        {
            let first = firsts.entry(one.address).or_insert((seen.first, &one.mac));
            *first = (*first).min((seen.first, &one.mac));
        }
        firsts.into_iter().map(|(address, (_, mac))| (address, mac.to_owned())).collect()
    }
}
