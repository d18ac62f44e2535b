//! Peers that nobody named: they are known by the VIPs that they advertise.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_vrrp::Time;

use crate::config::{MOST_RECOGNISED, RouterConfig};

/// When each was last heard.
#[derive(Debug, Default)]
pub(super) struct RecognisedPeers {
    last: BTreeMap<IpAddr, Time>,
}

impl RecognisedPeers {
    /// Whether a router of this configuration's VRID that lists these VIPs is a peer though none of that name is known.
    pub(super) fn recognises(
        config: &RouterConfig,
        source: IpAddr,
        mut listed: impl Iterator<Item = IpAddr>,
    ) -> bool {
        config.recognise_peers
            && source != config.source
            && listed.any(|address| config.addresses.contains(&address))
    }

    /// A peer was heard that is not among those that were named.
    pub(super) fn note(&mut self, source: IpAddr, now: Time) {
        if !self.last.contains_key(&source) && self.last.len() >= MOST_RECOGNISED {
            let oldest = self.last.iter().min_by_key(|(_, last)| **last).map(|(peer, _)| *peer);
            if let Some(oldest) = oldest {
                self.last.remove(&oldest);
            }
        }
        self.last.insert(source, now);
    }

    /// A peer was heard; if it was recognised it is not the next to be forgotten.
    pub(super) fn heard(&mut self, source: IpAddr, now: Time) {
        if let Some(last) = self.last.get_mut(&source) {
            *last = now;
        }
    }

    /// All peers of a virtual router: those that were named for it and these.
    pub(super) fn with(&self, named: &BTreeSet<IpAddr>, config: &RouterConfig) -> BTreeSet<IpAddr> {
        let others = self.last.keys().filter(|peer| config.recognise_peers && **peer != config.source);
        named.iter().chain(others).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windlass_vrrp::Vrid;

    use super::*;

    fn host(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    fn config() -> RouterConfig {
        let mut config = RouterConfig::new("eth0", Vrid::new(7).unwrap(), host(1));
        config.recognise_peers = true;
        config.addresses = [host(100)].into();
        config.peers = [host(2)].into();
        config
    }

    #[test]
    fn who_lists_a_vip_is_a_peer_and_nobody_else() {
        let recognises = |config: &RouterConfig, source: u8, listed: &[u8]| {
            RecognisedPeers::recognises(config, host(source), listed.iter().map(|number| host(*number)))
        };
        assert!(recognises(&config(), 3, &[99, 100]));
        assert!(!recognises(&config(), 3, &[99]));
        assert!(!recognises(&config(), 3, &[]));
        assert!(!recognises(&config(), 1, &[100]), "this node");
        let named_alone = RouterConfig { recognise_peers: false, ..config() };
        assert!(!recognises(&named_alone, 3, &[100]));
    }

    #[test]
    fn the_peer_that_was_heard_last_the_longest_ago_is_forgotten_for_one_too_many() {
        let mut peers = RecognisedPeers::default();
        let at = |seconds| Time::from_nanos(1) + Duration::from_secs(seconds);
        let many = u8::try_from(MOST_RECOGNISED).unwrap();
        for number in 0..many {
            peers.note(host(10 + number), at(u64::from(number)));
        }
        peers.heard(host(10), at(1000));
        peers.note(host(200), at(1001));
        let named = config().peers;
        let known = peers.with(&named, &config());
        assert!(known.contains(&host(10)) && known.contains(&host(200)) && !known.contains(&host(11)));
        assert!(known.contains(&host(2)), "the named one");
        assert_eq!(known.len(), MOST_RECOGNISED + 1);
        let named_alone = RouterConfig { recognise_peers: false, ..config() };
        assert_eq!(peers.with(&named, &named_alone), named);
    }
}
