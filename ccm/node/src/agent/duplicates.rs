//! Hosts that were seen to have or claim a virtual IP of this cluster. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use windlass_api::DuplicateAddress;

#[cfg(test)]
mod tests;

/// Time after which a host that is not seen any more is removed.
pub(crate) const FORGET_AFTER: Duration = Duration::from_mins(10);
/// Largest number of entries: an attacker must not fill the memory or the API server.
const MOST: usize = 256;

/// Hosts seen lately.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    /// Last sighting of each.
    seen: BTreeMap<DuplicateAddress, Instant>,
}

impl Duplicates {
    /// Records that a host has or claims an address.
    pub(crate) fn see(&mut self, duplicate: DuplicateAddress, now: Instant) {
        if self.seen.len() < MOST || self.seen.contains_key(&duplicate) {
            self.seen.insert(duplicate, now);
        }
    }

    /// Removes the hosts that had the address: no other host has it any more.
    pub(crate) fn clear(&mut self, interface: &str, address: IpAddr) {
        self.seen.retain(|one, _| one.address != address || one.interface != interface);
    }

    /// Returns the hosts seen in the last ten minutes with an address that still is a virtual IP.
    pub(crate) fn list(&mut self, now: Instant, is_vip: impl Fn(IpAddr) -> bool) -> Vec<DuplicateAddress> {
        self.seen.retain(|one, last| now.duration_since(*last) < FORGET_AFTER && is_vip(one.address));
        self.seen.keys().cloned().collect()
    }
}
