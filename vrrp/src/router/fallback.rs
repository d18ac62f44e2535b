//! Fallback for lost multicast: the peers to which an Active also sends its adverts by unicast.
//!
//! A LAN may carry unicast and lose multicast, between some nodes or in one direction: a switch that snoops IGMP or MLD and has no
//! querier does. A Backup that receives no advert becomes a second Active, unnoticed. With [`Config::unicast_fallback`]
//!
//! | router | action |
//! |---|---|
//! | a Backup that misses two adverts of its Active | asks it for unicast: an advert of priority 0 to it alone |
//! | a Backup that has heard no Active for as long, since it was started | asks every peer likewise, if they are [`MOST_ASKED`] or fewer |
//! | a Backup that receives its Active by unicast only | asks again every [`ASK_EVERY`] intervals |
//! | an Active that is asked, or hears a claim that its own adverts ought to have ended | sends each advert to that peer, too, for [`LEASE`] intervals |
//! | a router that becomes Active | sends its first advert to every peer, too: an Active that receives no multicast answers |
//! | an Active | sends one of its adverts to one peer in turn, unless its driver hears multicast of that peer in another virtual router: two Actives that were parted meet again though no multicast passes |
//!
//! The leases end by silence: when multicast passes again, no router asks any more. A mistaken question costs a few packets.

use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::config::Config;
use crate::units::Time;

/// Intervals for which a peer gets each advert after a sign that it receives no multicast: three questions and a bit.
pub(super) const LEASE: u32 = 16;
/// Most peers that a Backup asks for the Active. With more it asks none: where many start together, each would ask each.
pub(super) const MOST_ASKED: usize = 16;
/// Intervals of unicast alone after which a Backup asks for more of it.
pub(super) const ASK_EVERY: u32 = 5;
/// An Active shows itself to one peer in turn at least this often,
pub(crate) const TURN: Duration = Duration::from_secs(5);
/// and to each peer at least this often, as far as it sends so many adverts.
const ROUND: Duration = Duration::from_mins(1);

/// Peers to which an advert also goes by unicast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Copies {
    /// Peers that receive no multicast.
    Needed,
    /// The same, and this peer.
    Also(IpAddr),
    /// Peers that receive no multicast, and one further peer in turn if it is time.
    InTurn,
    /// Every peer.
    All,
}

/// A peer that receives no multicast, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lease {
    peer: IpAddr,
    /// Start of the lease, without a gap since.
    since: Time,
    until: Time,
}

/// State that an Active keeps of its peers. Has room for every peer, so that granting a lease allocates nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct UnicastFallback {
    leases: Vec<Lease>,
    /// Peers to which the last advert also goes.
    copies: Vec<IpAddr>,
    /// Peer in turn for the last advert.
    in_turn: Option<IpAddr>,
    /// Last peer in turn, and the time of the next turn.
    last_turn: Option<IpAddr>,
    next_turn: Time,
}

impl UnicastFallback {
    pub(super) fn new(config: &Config) -> Self {
        let mut fallback = Self::default();
        fallback.adapt(config);
        fallback
    }

    /// Removes the leases of former peers, and reserves room for the present ones.
    pub(super) fn adapt(&mut self, config: &Config) {
        if !config.unicast_fallback {
            *self = Self::default();
            return;
        }
        self.leases.retain(|lease| config.peers.contains(&lease.peer));
        self.leases.reserve(config.peers.len().saturating_sub(self.leases.len()));
        self.copies.clear();
        self.copies.reserve(config.peers.len());
    }

    /// Removes the leases when the router stops being Active: they may be wrong when it is Active again.
    pub(super) fn end_active(&mut self) {
        self.leases.clear();
    }

    /// Grants a lease to a peer that does not receive multicast, or did not until now. Returns true if it had none.
    pub(super) fn grant(&mut self, peer: IpAddr, config: &Config, now: Time) -> bool {
        if !config.unicast_fallback {
            return false;
        }
        let until = now + config.interval.duration().saturating_mul(LEASE);
        if let Some(lease) = self.leases.iter_mut().find(|lease| lease.peer == peer) {
            let is_news = lease.until <= now;
            if is_news {
                lease.since = now;
            }
            lease.until = until;
            return is_news;
        }
        self.leases.push(Lease { peer, since: now, until });
        true
    }

    /// Chooses the peers to which the present advert also goes.
    pub(super) fn choose(&mut self, copies: Copies, config: &Config, now: Time) {
        self.copies.clear();
        self.in_turn = None;
        if !config.unicast_fallback {
            return;
        }
        self.leases.retain(|lease| now < lease.until);
        if copies == Copies::All {
            self.copies.extend(&config.peers);
            self.next_turn = now + turn(config);
            return;
        }
        self.copies.extend(self.leases.iter().map(|lease| lease.peer));
        match copies {
            Copies::Also(peer) if !self.copies.contains(&peer) => self.copies.push(peer),
            Copies::InTurn => {
                self.in_turn = self.take_turn(config, now).filter(|peer| !self.copies.contains(peer));
            }
            Copies::Needed | Copies::Also(_) | Copies::All => {}
        }
    }

    /// Chooses these peers alone for the present unicast.
    pub(super) fn choose_only<'a>(&mut self, peers: impl IntoIterator<Item = &'a IpAddr>) {
        self.copies.clear();
        self.copies.extend(peers);
    }

    /// Peers to which the last advert also goes.
    pub(super) fn copies(&self) -> &[IpAddr] {
        &self.copies
    }

    /// Takes the peer in turn for the last advert.
    pub(super) fn poll_turn(&mut self) -> Option<IpAddr> {
        self.in_turn.take()
    }

    /// Peers that have not received multicast for longer than a mistake lasts.
    pub(super) fn deaf<'a>(&'a self, config: &Config, now: Time) -> impl Iterator<Item = IpAddr> + use<'a> {
        let mistake = config.interval.duration().saturating_mul(LEASE);
        let is_deaf = move |lease: &&Lease| now < lease.until && now.since(lease.since) >= mistake;
        self.leases.iter().filter(is_deaf).map(|lease| lease.peer)
    }

    fn take_turn(&mut self, config: &Config, now: Time) -> Option<IpAddr> {
        if now < self.next_turn {
            return None;
        }
        self.next_turn = now + turn(config);
        let after = self.last_turn.map_or(Bound::Unbounded, Bound::Excluded);
        let next = config.peers.range((after, Bound::Unbounded)).next().or_else(|| config.peers.first());
        self.last_turn = next.copied();
        self.last_turn
    }
}

/// Time between the turns of two peers.
fn turn(config: &Config) -> Duration {
    let peers = u32::try_from(config.peers.len()).unwrap_or(u32::MAX);
    ROUND.checked_div(peers).map_or(TURN, |turn| TURN.min(turn))
}
