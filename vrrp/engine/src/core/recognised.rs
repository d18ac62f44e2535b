//! Peers that are not named in the configuration: they are known by the VIPs that they advertise.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use windlass_vrrp::Time;

use crate::config::{MOST_RECOGNISED, RouterConfig};
use crate::neighbour::token_bucket::{BURST, TokenBucket};

/// New peers a second that are recognised, beyond a burst: for each the adverts of this node are built anew.
const NEW_A_SECOND: NonZeroU32 = NonZeroU32::new(8).unwrap();
/// Part of the burst that is left to senders received before.
const RESERVE: usize = BURST as usize / 2;
/// Number of adverts that tell a real router from a forged one. Forged adverts can bear any source, and rarely the same one for so long.
const SETTLED: u32 = 30;
/// Minimum time for which a sender that was not taken for a peer stays recorded: several intervals of the usual 100 ms.
const HEARD_BEFORE: Duration = Duration::from_secs(1);
/// Maximum number of such senders in one period.
const MOST_WAITING: usize = 4096;

/// Recognised peers, in bounds: a sender of forged adverts can have many that do not exist recognised, but only at a limited pace, and
/// peers that do exist are not removed for them.
#[derive(Debug)]
pub(super) struct RecognisedPeers {
    known: BTreeMap<IpAddr, Known>,
    pace: TokenBucket,
    /// Senders that are no peers yet, in this period and in the one before.
    waiting: [HashSet<IpAddr>; 2],
    /// Start of this period.
    waiting_since: Time,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    last: Time,
    adverts: u32,
}

impl Default for RecognisedPeers {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            pace: TokenBucket::new(NEW_A_SECOND),
            waiting: Default::default(),
            waiting_since: Time::default(),
        }
    }
}

impl RecognisedPeers {
    /// Returns true if a router of this configuration's VRID that lists these VIPs counts as a peer without being named.
    pub(super) fn recognises(
        config: &RouterConfig,
        source: IpAddr,
        mut listed: impl Iterator<Item = IpAddr>,
    ) -> bool {
        config.recognise_peers
            && source != config.source
            && listed.any(|address| config.addresses.contains(&address))
    }

    /// Admits a recognised sender that is not known yet. Returns true if it becomes a peer now. A sender received for the first time is put
    /// off where many come in a short time: one that exists sends again.
    pub(super) fn admit(&mut self, source: IpAddr, now: Time) -> bool {
        let age = now.since(self.waiting_since);
        if age >= HEARD_BEFORE {
            let last = std::mem::take(&mut self.waiting[0]);
            self.waiting[1] = if age < HEARD_BEFORE.saturating_mul(2) { last } else { HashSet::new() };
            self.waiting_since = now;
        }
        let was_heard = self.waiting.iter().any(|waiting| waiting.contains(&source));
        let may_be_new = self.pace.allowance(now) > if was_heard { 0 } else { RESERVE };
        if !may_be_new {
            if self.waiting[0].len() < MOST_WAITING {
                self.waiting[0].insert(source);
            }
            return false;
        }
        self.pace.spend(1, now);
        if self.known.len() >= MOST_RECOGNISED {
            // One that settled here only for another that did, however long it has been silent, as Backups are.
            let least = self.known.iter().min_by_key(|(_, known)| (known.adverts.min(SETTLED), known.last));
            if let Some(least) = least.map(|(peer, _)| *peer) {
                self.known.remove(&least);
            }
        }
        self.known.insert(source, Known { last: now, adverts: 1 });
        true
    }

    /// Records an advert of a peer: a recognised one is then not the next to be removed.
    pub(super) fn heard(&mut self, source: IpAddr, now: Time) {
        if let Some(known) = self.known.get_mut(&source) {
            *known = Known { last: now, adverts: known.adverts.saturating_add(1) };
        }
    }

    /// Returns all peers of a virtual router: those named for it and these.
    pub(super) fn with(&self, named: &BTreeSet<IpAddr>, config: &RouterConfig) -> BTreeSet<IpAddr> {
        let others = self.known.keys().filter(|peer| config.recognise_peers && **peer != config.source);
        named.iter().chain(others).copied().collect()
    }
}

#[cfg(test)]
mod tests {
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

    fn at(ms: u64) -> Time {
        Time::from_nanos(1) + Duration::from_hours(1) + Duration::from_millis(ms)
    }

    fn stranger(number: u32) -> IpAddr {
        (0x0a00_0000 + number).to_be_bytes().into()
    }

    #[test]
    fn the_peer_that_was_heard_last_the_longest_ago_is_forgotten_for_one_too_many() {
        let mut peers = RecognisedPeers::default();
        let many = u8::try_from(MOST_RECOGNISED).unwrap();
        for number in 0..many {
            assert!(peers.admit(host(10 + number), at(1000 * u64::from(number))));
        }
        for ms in 0..2 {
            peers.heard(host(10), at(1_000_000 + ms));
            peers.heard(host(11), at(500_000 + ms));
        }
        assert!(peers.admit(host(200), at(1_001_000)));
        let named = config().peers;
        let known = peers.with(&named, &config());
        assert!(known.contains(&host(10)) && known.contains(&host(11)) && known.contains(&host(200)));
        assert!(!known.contains(&host(12)), "heard once, before all others");
        assert!(known.contains(&host(2)), "the named one");
        assert_eq!(known.len(), MOST_RECOGNISED + 1);
        let named_alone = RouterConfig { recognise_peers: false, ..config() };
        assert_eq!(peers.with(&named, &named_alone), named);
    }

    /// Adverts of so many strangers a second, each of which exists no more than once, for twenty seconds; among them a peer that is known and
    /// silent, and one that begins to speak, each 100 ms, after ten. How many were taken for peers, and after how many of its
    /// adverts the new one.
    fn flood(a_second: u32) -> (u32, Option<u32>) {
        let mut peers = RecognisedPeers::default();
        assert!(peers.admit(host(3), at(0)));
        (0..SETTLED).for_each(|_| peers.heard(host(3), at(0)));
        let (mut taken, mut spoken, mut heard_after) = (0, 0, None);
        for number in 0..20 * a_second {
            let ms = 1000 * u64::from(number) / u64::from(a_second);
            taken += u32::from(peers.admit(stranger(number), at(ms)));
            assert!(peers.known.contains_key(&host(3)), "after {ms} ms");
            assert!(peers.known.len() <= MOST_RECOGNISED);
            assert!(peers.waiting.iter().all(|one| one.len() <= MOST_WAITING));
            if ms >= 10_400 + 100 * u64::from(spoken) {
                spoken += 1;
                if peers.known.contains_key(&host(4)) {
                    peers.heard(host(4), at(ms));
                } else if peers.admit(host(4), at(ms)) {
                    heard_after = heard_after.or(Some(spoken));
                }
            }
        }
        assert!(peers.known.contains_key(&host(4)));
        (taken, heard_after)
    }

    #[test]
    fn a_flood_of_forged_peers_is_taken_at_a_pace_and_pushes_no_real_one_out() {
        for a_second in [100, 700, 3000] {
            let (taken, heard_after) = flood(a_second);
            let most = BURST + 20 * NEW_A_SECOND.get();
            assert!(taken <= most, "{taken} of {a_second} a second");
            assert!(
                heard_after.is_some_and(|adverts| adverts <= 2),
                "{heard_after:?} of {a_second} a second"
            );
        }
    }

    #[test]
    fn the_nodes_of_a_cluster_that_begin_at_once_are_recognised_by_their_first_adverts() {
        let mut peers = RecognisedPeers::default();
        assert!((0..30).all(|number| peers.admit(host(10 + number), at(0))));
    }
}
