//! Last advert received from a router's peers: its sender, its priority, and the VIPs it listed.
//!
//! The list contains the VIPs that the Active has. A VIP that it does not have may be another host's, whichever node takes over from it: a
//! VIP that has left for another virtual router, of which this node has not learnt yet, belongs to that router's Active.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_vrrp::Priority;

#[cfg(test)]
mod tests;

/// Nothing is allocated for an advert that lists no more VIPs than one before it.
#[derive(Debug, Default)]
pub(super) struct HeardAdverts {
    last: Option<LastAdvert>,
    /// The VIPs that it listed.
    listed: Vec<IpAddr>,
    /// Number of times that it was another list than before.
    lists: u64,
}

#[derive(Clone, Copy, Debug)]
struct LastAdvert {
    from: IpAddr,
    /// Priority in the last advert that had one: of this peer, or of one before it that has resigned since.
    priority: Option<Priority>,
}

impl HeardAdverts {
    /// Records an advert. Returns true if it changes what adverts show of which VIPs the Active has. `priority`: `None` if it is a
    /// resignation.
    pub(super) fn hear(
        &mut self,
        from: IpAddr,
        priority: Option<Priority>,
        listed: impl Iterator<Item = IpAddr> + Clone,
    ) -> bool {
        let priority = priority.or(self.priority());
        let is_first = self.last.is_none();
        let were_taken_away = self.were_taken_away();
        self.last = Some(LastAdvert { from, priority });
        let is_other = !listed.clone().eq(self.listed.iter().copied());
        if is_other {
            self.listed.clear();
            self.listed.extend(listed);
            self.lists = self.lists.saturating_add(1);
        }
        is_first || is_other || were_taken_away != self.were_taken_away()
    }

    /// The peer whose advert was heard last.
    pub(super) fn from(&self) -> Option<IpAddr> {
        self.last.map(|last| last.from)
    }

    /// Returns the priority that it sent last.
    pub(super) fn priority(&self) -> Option<Priority> {
        self.last.and_then(|last| last.priority)
    }

    /// Returns true if its VIPs were taken away and the node that had them is Active without any: that node sends the priority of an owner.
    fn were_taken_away(&self) -> bool {
        self.priority() == Some(Priority::OWNER)
    }

    /// Returns true if a peer had its VIPs as of the last advert.
    pub(super) fn tells_of_vips(&self) -> bool {
        self.priority().is_some() && !self.were_taken_away()
    }

    /// Returns true if this VIP was listed.
    pub(super) fn lists(&self, address: IpAddr) -> bool {
        self.listed.contains(&address)
    }

    /// Grows whenever peers list other VIPs than before.
    pub(super) fn list_number(&self) -> u64 {
        self.lists
    }

    /// Returns true if the list may be one VIP in place of `vips`, as an advert can list no more than the `capacity`, if that is known.
    pub(super) fn is_list_short(&self, vips: usize, capacity: Option<usize>) -> bool {
        self.listed.len() <= 1 && capacity.is_none_or(|capacity| vips > capacity)
    }

    /// Returns the VIPs among these that the sender of the last advert does not have.
    pub(super) fn not_listed(&self, vips: &BTreeSet<IpAddr>, capacity: Option<usize>) -> BTreeSet<IpAddr> {
        if self.last.is_none() || !self.were_taken_away() && self.is_list_short(vips.len(), capacity) {
            return BTreeSet::new();
        }
        let listed: BTreeSet<IpAddr> = self.listed.iter().copied().collect();
        vips.difference(&listed).copied().collect()
    }
}
