//! Which peers are heard in which groups of a LAN, whatever the virtual router.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::Time;

/// A peer that was heard so long ago or earlier is not heard now.
const LATELY: Duration = Duration::from_secs(10);

/// Time of the last advert of each peer in each group. Only peers whose adverts pass authentication are recorded.
#[derive(Debug, Default)]
pub(super) struct HeardPeers {
    last: HashMap<(IpAddr, IpAddr), Time>,
}

impl HeardPeers {
    /// Records an advert of this peer to this group.
    pub(super) fn note(&mut self, peer: IpAddr, group: IpAddr, now: Time) {
        if let Some(last) = self.last.get_mut(&(peer, group)) {
            *last = now;
            return;
        }
        self.last.retain(|_, last| now.since(*last) < LATELY);
        self.last.insert((peer, group), now);
    }

    /// Returns true if an advert of this peer to this group was received within [`LATELY`].
    pub(super) fn hears(&self, peer: IpAddr, group: IpAddr, now: Time) -> bool {
        self.last.get(&(peer, group)).is_some_and(|last| now.since(*last) < LATELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_heard_lately_is_heard_and_others_are_forgotten() {
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let (group, another) = (IpAddr::from([224, 0, 0, 18]), IpAddr::from([224, 0, 0, 19]));
        let start = Time::from_nanos(1);
        let mut heard = HeardPeers::default();
        assert!(!heard.hears(one, group, start));
        heard.note(one, group, start);
        assert!(heard.hears(one, group, start + Duration::from_secs(9)));
        assert!(!heard.hears(other, group, start) && !heard.hears(one, another, start));
        assert!(!heard.hears(one, group, start + LATELY));
        heard.note(other, group, start + LATELY);
        assert_eq!(heard.last.len(), 1);
    }
}
