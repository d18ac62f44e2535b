//! VIPs that came here from another node: what the kernel still knows of closed connections to them is of an earlier time. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::Time;

use super::moves::ServedVip;
use crate::core::predecessor::HandedOverBy;

#[cfg(test)]
mod tests;

/// How long closed connections that are not forgotten yet may hold up the announcement of what a peer hands over, which serves it meanwhile.
const FORGETTING: Duration = Duration::from_millis(100);

/// The VIPs that this node serves, and which of them are new here.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// By the number of the takeover since which this node has them.
    takeovers: BTreeMap<IpAddr, u64>,
    /// The same of those to which closed connections are not forgotten yet, with the time at which they came.
    new: BTreeMap<IpAddr, (u64, Time)>,
}

impl Arrivals {
    /// This node serves these VIPs now.
    pub(super) fn follow(&mut self, served: impl IntoIterator<Item = ServedVip>, now: Time) {
        let mut takeovers = BTreeMap::new();
        for ServedVip { vip, interface: _, takeover, by } in served {
            let is_from_another = match by {
                HandedOverBy::Peer(_) | HandedOverBy::SilentPeer(_) => true,
                HandedOverBy::ThisNode | HandedOverBy::Nobody => false,
            };
            if is_from_another && self.takeovers.get(&vip) != Some(&takeover) {
                self.new.insert(vip, (takeover, now));
            }
            takeovers.insert(vip, takeover);
        }
        self.takeovers = takeovers;
    }

    /// VIPs that came here, by the number of the takeover: closed connections to them are to be forgotten. Until then a packet of another
    /// from the same port is dropped, and comes again.
    pub(super) fn new_vips(&self) -> BTreeMap<IpAddr, u64> {
        self.new.iter().map(|(vip, (takeover, _))| (*vip, *takeover)).collect()
    }

    /// Whether one of these is new and may wait for that.
    pub(super) fn waits(&self, mut vips: impl Iterator<Item = IpAddr>, now: Time) -> bool {
        vips.any(|vip| self.new.get(&vip).is_some_and(|(_, since)| now < *since + FORGETTING))
    }

    /// When [`Self::waits`] says something else by itself.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        self.new.values().map(|(_, since)| *since + FORGETTING).filter(|due| now < *due).min()
    }

    /// They are forgotten. What has come again since is not.
    pub(super) fn closed_forgotten(&mut self, forgotten: &BTreeMap<IpAddr, u64>) {
        self.new.retain(|vip, (takeover, _)| forgotten.get(vip) != Some(takeover));
    }

    /// Nobody can forget them.
    pub(super) fn give_up(&mut self) {
        self.new.clear();
    }
}
