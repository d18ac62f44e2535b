//! Multicast that does not arrive: to which peers an Active sends its adverts by unicast, too.
//!
//! A LAN may carry unicast and lose multicast, between some nodes or in one direction: a switch that snoops IGMP or MLD and
//! hears no querier does. Who hears no Active becomes a second one, and nobody notices. With [`Config::unicast_fallback`]
//!
//! | who | does |
//! |---|---|
//! | a Backup that misses two adverts of its Active | asks it for unicast: an advert of priority 0 to it alone |
//! | a Backup that has heard no Active for as long, since it was started | asks every peer likewise, if they are [`MOST_ASKED`] or fewer |
//! | a Backup that hears its Active by unicast only | asks again every [`ASK_EVERY`] intervals |
//! | an Active that is asked, or hears a claim that its own adverts ought to have ended | sends each advert to that peer, too, for [`LEASE`] intervals |
//! | a router that becomes Active | sends its first advert to every peer, too: an Active that hears nothing by multicast answers |
//! | an Active | sends one of its adverts to one peer in turn, unless its driver hears multicast of that peer in another virtual router: two Actives that were parted meet again though no multicast passes |
//!
//! So silence ends it: when multicast passes again, nobody asks any more. Who is asked by mistake spends a few packets.

use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::config::Config;
use crate::units::Time;

/// For how many intervals a peer is sent each advert after a sign that it hears no multicast: three questions and a bit.
pub(super) const LEASE: u32 = 16;
/// More peers than these are not all asked who is Active: where many start at once, each would ask each.
pub(super) const MOST_ASKED: usize = 16;
/// After how many intervals of unicast alone a Backup asks for more of it.
pub(super) const ASK_EVERY: u32 = 5;
/// An Active shows itself to one peer in turn at least this often,
pub(crate) const TURN: Duration = Duration::from_secs(5);
/// and to each peer at least this often, as far as it sends so many adverts.
const ROUND: Duration = Duration::from_mins(1);

/// Whom an advert is sent to by unicast, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Copies {
    /// Those that hear no multicast.
    Needed,
    /// And this peer.
    Also(IpAddr),
    /// Those that hear no multicast. If it is time, one peer in turn is to be told, too.
    InTurn,
    /// Every peer.
    All,
}

/// A peer that hears no multicast, as far as is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lease {
    peer: IpAddr,
    /// Since when, without a gap.
    since: Time,
    until: Time,
}

/// What an Active knows of its peers. Has room for every peer, so that nothing is allocated when one needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct UnicastFallback {
    leases: Vec<Lease>,
    /// Whom the last advert goes to, too.
    copies: Vec<IpAddr>,
    /// Whose turn the last advert is.
    in_turn: Option<IpAddr>,
    /// Whose turn it was last, and when the next one's is.
    last_turn: Option<IpAddr>,
    next_turn: Time,
}

impl UnicastFallback {
    pub(super) fn new(config: &Config) -> Self {
        let mut fallback = Self::default();
        fallback.adapt(config);
        fallback
    }

    /// Forgets who is no peer any more and makes room for those who are.
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

    /// The router is not Active any more: what it knew may not be so when it is again.
    pub(super) fn end_active(&mut self) {
        self.leases.clear();
    }

    /// This peer does not hear the multicast, or did not until now; whether that is news.
    pub(super) fn grant(&mut self, peer: IpAddr, config: &Config, now: Time) -> bool {
        if !config.unicast_fallback {
            return false;
        }
        let until = now + config.interval.duration() * LEASE;
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

    /// Decides whom the advert that is sent now goes to, too.
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

    /// The unicast that is sent now goes to these alone.
    pub(super) fn choose_only<'a>(&mut self, peers: impl IntoIterator<Item = &'a IpAddr>) {
        self.copies.clear();
        self.copies.extend(peers);
    }

    /// Whom the last advert goes to, too.
    pub(super) fn copies(&self) -> &[IpAddr] {
        &self.copies
    }

    /// Whose turn the last advert is.
    pub(super) fn poll_turn(&mut self) -> Option<IpAddr> {
        self.in_turn.take()
    }

    /// The peers that have not heard the multicast for longer than a mistake lasts.
    pub(super) fn deaf<'a>(&'a self, config: &Config, now: Time) -> impl Iterator<Item = IpAddr> + use<'a> {
        let mistake = config.interval.duration() * LEASE;
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
    let peers = u32::try_from(config.peers.len()).unwrap_or(u32::MAX).max(1);
    TURN.min(ROUND / peers)
}
