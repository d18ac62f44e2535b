//! VIPs that came here from another node: what the kernel still knows of closed connections to them is of an earlier time. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::moves::ServedVip;
use crate::core::predecessor::HandedOverBy;

#[cfg(test)]
mod tests;

/// The VIPs that this node serves, and which of them are new here.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// By the number of the takeover since which this node has them.
    takeovers: BTreeMap<IpAddr, u64>,
    new: BTreeSet<IpAddr>,
}

impl Arrivals {
    /// This node serves these VIPs now.
    pub(super) fn follow(&mut self, served: impl IntoIterator<Item = ServedVip>) {
        let mut takeovers = BTreeMap::new();
        for ServedVip { vip, interface: _, takeover, by } in served {
            let is_from_another = match by {
                HandedOverBy::Peer(_) | HandedOverBy::SilentPeer(_) => true,
                HandedOverBy::ThisNode | HandedOverBy::Nobody => false,
            };
            if is_from_another && self.takeovers.get(&vip) != Some(&takeover) {
                self.new.insert(vip);
            }
            takeovers.insert(vip, takeover);
        }
        self.takeovers = takeovers;
    }

    /// VIPs that came here: closed connections to them are to be forgotten. Until then a packet of another from the same port is
    /// dropped, and comes again.
    pub(super) fn new_vips(&self) -> &BTreeSet<IpAddr> {
        &self.new
    }

    /// They are forgotten.
    pub(super) fn closed_forgotten(&mut self) {
        self.new.clear();
    }
}
