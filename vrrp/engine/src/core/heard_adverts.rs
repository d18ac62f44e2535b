//! What a router's peers said last: who, with which priority, and which VIPs were listed.
//!
//! The list tells which VIPs the Active has. What it does not have may be another host's, whoever takes over from it: a VIP that
//! has left for another virtual router, of which this node has not heard yet, is that one's Active's.

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
    /// How often that was another list than before.
    lists: u64,
}

#[derive(Clone, Copy, Debug)]
struct LastAdvert {
    from: IpAddr,
    /// The one that was told last: by it, or by one before it that has resigned since.
    priority: Option<Priority>,
}

impl HeardAdverts {
    /// An advert has come; whether it says otherwise than the last who has which VIPs. `priority`: `None` if it is a resignation.
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
            self.lists += 1;
        }
        is_first || is_other || were_taken_away != self.were_taken_away()
    }

    /// The peer whose advert was heard last.
    pub(super) fn from(&self) -> Option<IpAddr> {
        self.last.map(|last| last.from)
    }

    /// The priority that it told last.
    pub(super) fn priority(&self) -> Option<Priority> {
        self.last.and_then(|last| last.priority)
    }

    /// Whether its VIPs were taken away, and who had them is Active without any: that one tells the priority of an owner.
    fn were_taken_away(&self) -> bool {
        self.priority() == Some(Priority::OWNER)
    }

    /// Whether somebody had its VIPs, when it was heard last.
    pub(super) fn tells_of_vips(&self) -> bool {
        self.priority().is_some() && !self.were_taken_away()
    }

    /// Whether this VIP was listed.
    pub(super) fn lists(&self, address: IpAddr) -> bool {
        self.listed.contains(&address)
    }

    /// Grows whenever peers list other VIPs than before.
    pub(super) fn list_number(&self) -> u64 {
        self.lists
    }

    /// Whether the list may be one VIP in place of so many, of which an advert can list no more than the `capacity`, if that is known.
    pub(super) fn is_list_short(&self, vips: usize, capacity: Option<usize>) -> bool {
        self.listed.len() <= 1 && capacity.is_none_or(|capacity| vips > capacity)
    }

    /// Those of these VIPs that whoever was heard last does not have.
    pub(super) fn not_listed(&self, vips: &BTreeSet<IpAddr>, capacity: Option<usize>) -> BTreeSet<IpAddr> {
        if self.last.is_none() || !self.were_taken_away() && self.is_list_short(vips.len(), capacity) {
            return BTreeSet::new();
        }
        let listed: BTreeSet<IpAddr> = self.listed.iter().copied().collect();
        vips.difference(&listed).copied().collect()
    }
}
