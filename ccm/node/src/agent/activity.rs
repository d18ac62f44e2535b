//! How this node stands in each virtual router, from what the engine tells. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::duplicates::FORGET_AFTER;

/// An address that another host answered for is called taken after this time only: a node of the cluster that learns
/// later of an address's move still answers for it, and it is asked for again each second.
pub(crate) const CONFIRM_AFTER: Duration = Duration::from_millis(2500);

/// A stretch of time in which this node was Active for a virtual router without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ActivePeriod {
    /// Counts the periods of all routers since the start of the process.
    pub(crate) number: u64,
    /// When it began, by the wall clock: it is for people to read.
    pub(crate) since: Timestamp,
}

/// A host that has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConflictingHost {
    pub(crate) mac: [u8; 6],
    /// When it was first found.
    pub(crate) found: Instant,
}

impl ConflictingHost {
    /// When the address is called taken.
    pub(crate) fn confirmed_at(&self) -> Instant {
        self.found + CONFIRM_AFTER
    }
}

/// A host that claims an address while this node answers for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claimant {
    pub(crate) mac: [u8; 6],
    /// When it last did.
    pub(crate) heard: Instant,
}

impl Claimant {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) < FORGET_AFTER
    }
}

/// What this node does in one virtual router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RouterActivity {
    /// While it is Active.
    pub(crate) period: Option<ActivePeriod>,
    /// What it answers for.
    pub(crate) claimed: BTreeSet<IpAddr>,
    /// What it would answer for if nobody else did.
    pub(crate) taken: BTreeMap<IpAddr, ConflictingHost>,
    /// Who claimed what it answers for, since it does.
    pub(crate) claimants: BTreeMap<IpAddr, Claimant>,
    /// The peers that do not hear its multicast, while it is Active.
    pub(crate) deaf: BTreeSet<IpAddr>,
}

impl RouterActivity {
    /// It answers for these from now on; gives those that another host had.
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

    /// Another host has an address.
    pub(crate) fn note_taken(&mut self, address: IpAddr, mac: [u8; 6], now: Instant) {
        self.claimed.remove(&address);
        self.claimants.remove(&address);
        self.taken.entry(address).or_insert(ConflictingHost { mac, found: now }).mac = mac;
    }

    /// A host claims an address, which is of interest while this node answers for it. Of several the first is kept until it is
    /// silent, so that forged claims of further ones are no news.
    pub(crate) fn note_claimant(&mut self, address: IpAddr, mac: [u8; 6], now: Instant) {
        if !self.claimed.contains(&address) {
            return;
        }
        let claimant = self.claimants.entry(address).or_insert(Claimant { mac, heard: now });
        if claimant.mac == mac || !claimant.is_fresh(now) {
            *claimant = Claimant { mac, heard: now };
        }
    }

    /// Who claims an address that this node answers for.
    pub(crate) fn claimant(&self, address: IpAddr, now: Instant) -> Option<&Claimant> {
        self.claimants.get(&address).filter(|claimant| claimant.is_fresh(now))
    }

    /// Its virtual IPs are these.
    pub(crate) fn restrict(&mut self, addresses: &BTreeSet<IpAddr>) {
        self.claimed.retain(|address| addresses.contains(address));
        self.claimants.retain(|address, _| addresses.contains(address));
        self.taken.retain(|address, _| addresses.contains(address));
    }

    /// Nothing is known of these.
    pub(crate) fn forget(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            self.claimed.remove(address);
            self.claimants.remove(address);
            self.taken.remove(address);
        }
    }

    /// Who has the address, once that is believed.
    pub(crate) fn host(&self, address: IpAddr, now: Instant) -> Option<&ConflictingHost> {
        self.taken.get(&address).filter(|host| host.confirmed_at() <= now)
    }
}
