//! VIPs, and lots of shared addresses, that came here from another node: what the kernel still knows of closed connections to them is of an
//! earlier time. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::Time;

use super::moves::ServedVip;
use crate::core::predecessor::HandedOverBy;

#[cfg(test)]
mod tests;

/// Maximum time for which forgetting closed connections may hold up the announcement of what a peer hands over.
const FORGETTING: Duration = Duration::from_millis(500);
/// Time for which VIPs are gathered that join a virtual router whose other VIPs are here already: for each list the kernel walks its whole
/// table of connections, and thousands of VIPs may come one by one.
const GATHERING: Duration = Duration::from_secs(1);
/// The same for shared addresses whose lots have moved: less than the time after which packets are directed to the new servers.
const GATHERING_LOTS: Duration = Duration::from_millis(200);

/// The VIPs that this node serves, and which of them are new here.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// By the number of the takeover since which this node has them.
    takeovers: BTreeMap<IpAddr, u64>,
    /// Closed connections to these are to be forgotten; with the time until which an announcement waits for that.
    new: BTreeMap<IpAddr, Time>,
    /// Likewise, but these joined others that were here, or lots of theirs have moved; with the time until which more are gathered.
    joined: BTreeMap<IpAddr, Time>,
    /// Closed connections to these are being forgotten.
    under_way: BTreeMap<IpAddr, Time>,
    /// Number of moves of lots, by shared address.
    moves: BTreeMap<IpAddr, u32>,
}

impl Arrivals {
    /// This node serves these VIPs now.
    pub(super) fn follow(&mut self, served: impl IntoIterator<Item = ServedVip>, now: Time) {
        let before = std::mem::take(&mut self.takeovers);
        let here: BTreeSet<u64> = before.values().copied().collect();
        for ServedVip { vip, interface: _, takeover, by } in served {
            let is_from_another = match by {
                HandedOverBy::Peer(_) | HandedOverBy::SilentPeer(_) => true,
                HandedOverBy::ThisNode | HandedOverBy::Nobody => false,
            };
            if is_from_another && before.get(&vip) != Some(&takeover) {
                if here.contains(&takeover) {
                    self.joined.entry(vip).or_insert(now + GATHERING);
                } else {
                    self.new.insert(vip, now + FORGETTING);
                }
            }
            self.takeovers.insert(vip, takeover);
        }
    }

    /// Records how often lots of each shared address have moved, to this node or to one that passes packets on to it.
    pub(super) fn follow_lots(&mut self, moves: &BTreeMap<IpAddr, u32>, now: Time) {
        let before = |vip| self.moves.get(vip).copied().unwrap_or_default();
        for (vip, _) in moves.iter().filter(|(vip, moves)| **moves != before(vip)) {
            self.joined.entry(*vip).or_insert(now + GATHERING_LOTS);
        }
        if self.moves != *moves {
            self.moves.clone_from(moves);
        }
    }

    /// Returns true if there are VIPs that came here: closed connections to them are to be forgotten. Until then a packet of another from
    /// the same port is dropped, and comes again.
    pub(super) fn has_new(&self, now: Time) -> bool {
        !self.new.is_empty() || self.joined.values().any(|until| *until <= now)
    }

    /// Takes those VIPs; [`Self::forgotten`] is to be called next.
    pub(super) fn take_new(&mut self) -> BTreeSet<IpAddr> {
        self.under_way = std::mem::take(&mut self.new);
        std::mem::take(&mut self.joined).into_keys().chain(self.under_way.keys().copied()).collect()
    }

    /// They are forgotten, as far as they will be.
    pub(super) fn forgotten(&mut self) {
        self.under_way.clear();
    }

    /// Returns true if an announcement of one of these VIPs, by a node to which a peer hands them over, still waits: that peer serves them
    /// meanwhile.
    pub(super) fn hold_up(&self, mut vips: impl Iterator<Item = IpAddr>, now: Time) -> bool {
        let waits = |vip: &IpAddr, of: &BTreeMap<IpAddr, Time>| of.get(vip).is_some_and(|until| now < *until);
        (!self.new.is_empty() || !self.under_way.is_empty())
            && vips.any(|vip| waits(&vip, &self.new) || waits(&vip, &self.under_way))
    }

    /// Returns when the next announcement no longer waits, or those that joined are gathered.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let all = self.new.values().chain(self.under_way.values()).chain(self.joined.values());
        all.filter(|at| **at > now).min().copied()
    }
}
