//! State of this node in each virtual router, built from the engine's events. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::duplicates::FORGET_AFTER;

/// Delay before an address that another host answered for is reported as taken. A node of the cluster that learns later of an address's
/// move still answers for it, and the engine probes it again each second.
pub(crate) const CONFIRM_AFTER: Duration = Duration::from_millis(2500);

/// A stretch of time in which this node was Active for a virtual router without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ActivePeriod {
    /// Counts the periods of all routers since the start of the process.
    pub(crate) number: u64,
    /// Wall-clock start of the period, for display.
    pub(crate) since: Timestamp,
}

/// A host that has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConflictingHost {
    pub(crate) mac: [u8; 6],
    /// First detection.
    pub(crate) found: Instant,
}

impl ConflictingHost {
    /// Returns the instant from which the address is reported as taken.
    pub(crate) fn confirmed_at(&self) -> Instant {
        self.found + CONFIRM_AFTER
    }
}

/// A host that claims an address while this node answers for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claimant {
    pub(crate) mac: [u8; 6],
    /// Last claim.
    pub(crate) heard: Instant,
}

impl Claimant {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) < FORGET_AFTER
    }
}

/// Activity of this node in one virtual router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RouterActivity {
    /// Current Active period; `None` while this node is not Active.
    pub(crate) period: Option<ActivePeriod>,
    /// Addresses that this node answers for.
    pub(crate) claimed: BTreeSet<IpAddr>,
    /// Addresses that this node would answer for if another host did not.
    pub(crate) taken: BTreeMap<IpAddr, ConflictingHost>,
    /// Hosts that claimed an address in `claimed` since this node answers for it.
    pub(crate) claimants: BTreeMap<IpAddr, Claimant>,
    /// Peers that do not receive this node's multicast, while it is Active.
    pub(crate) deaf: BTreeSet<IpAddr>,
}

impl RouterActivity {
    /// Adds addresses that this node answers for from now on. Returns the ones that another host had.
    pub(crate) fn claim(&mut self, addresses: &[IpAddr]) -> Vec<IpAddr> {
        for address in addresses {
            if self.claimed.insert(*address) {
                self.claimants.remove(address);
            }
        }
        if self.taken.is_empty() {
            return Vec::new();
        }
        addresses.iter().copied().filter(|address| self.taken.remove(address).is_some()).collect()
    }

    /// Records that another host has an address.
    pub(crate) fn note_taken(&mut self, address: IpAddr, mac: [u8; 6], now: Instant) {
        self.claimed.remove(&address);
        self.claimants.remove(&address);
        self.taken.entry(address).or_insert(ConflictingHost { mac, found: now }).mac = mac;
    }

    /// Records that a host claims an address, if this node answers for it. Of several claimants the first is kept until it stops claiming,
    /// so that forged claims of further ones cause no update.
    pub(crate) fn note_claimant(&mut self, address: IpAddr, mac: [u8; 6], now: Instant) {
        if !self.claimed.contains(&address) {
            return;
        }
        let claimant = self.claimants.entry(address).or_insert(Claimant { mac, heard: now });
        if claimant.mac == mac || !claimant.is_fresh(now) {
            *claimant = Claimant { mac, heard: now };
        }
    }

    /// Returns the host that claims an address that this node answers for.
    pub(crate) fn claimant(&self, address: IpAddr, now: Instant) -> Option<&Claimant> {
        self.claimants.get(&address).filter(|claimant| claimant.is_fresh(now))
    }

    /// Drops all state of addresses that are not virtual IPs of this router.
    pub(crate) fn restrict(&mut self, addresses: &BTreeSet<IpAddr>) {
        self.claimed.retain(|address| addresses.contains(address));
        self.claimants.retain(|address, _| addresses.contains(address));
        self.taken.retain(|address, _| addresses.contains(address));
    }

    /// Drops all state of these addresses.
    pub(crate) fn forget(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            self.claimed.remove(address);
            self.claimants.remove(address);
            self.taken.remove(address);
        }
    }

    /// Returns the host that has the address, once [`CONFIRM_AFTER`] has passed.
    pub(crate) fn host(&self, address: IpAddr, now: Instant) -> Option<&ConflictingHost> {
        self.taken.get(&address).filter(|host| host.confirmed_at() <= now)
    }
}
