//! Choice of the VRID of a virtual router for which the administrator set none. Time is an argument; observations and decisions are
//! values.
//!
//! A node that starts listens first. If a router advertises the address, it is a peer, and its VRID is chosen. Otherwise the node
//! chooses the first VRID of an order that follows from the address, and that no foreign router uses: nodes that start at the same
//! moment choose the same, and virtual routers of other addresses mostly choose others.
//!
//! While it runs, new adverts may arrive: of a foreign router that has begun to use the VRID, or of a peer that chose another.
//! - A foreign router: the Active leaves the VRID to it. Its Backups receive their address under another VRID, from the node that was
//!   their Active, and follow.
//! - A peer that is Active under another VRID, beside this Active: the node that uses a foreign router's VRID moves to that of the
//!   other node, otherwise the node that comes later in the order, otherwise, after a while, either node that can.
//!
//! A VRID is left at most once in [`REST`]: forged adverts cannot drive a virtual router around for long.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::units::{Time, Vrid};

mod order;
#[cfg(test)]
mod tests;

use order::Order;

/// Time to listen before a VRID is chosen: three adverts of a foreign router that sends one each second, as keepalived does by
/// default.
pub const LISTEN: Duration = Duration::from_millis(3500);
/// Time after its last advert for which a router counts as present. Routers are reported once a second, and may send one advert a
/// second.
const PRESENT: Duration = Duration::from_secs(4);
/// Longest time between two adverts of a foreign router (RFC 9568 §5.2.7).
const LONGEST_INTERVAL: Duration = Duration::from_millis(40_950);
/// Time after a foreign router's last advert until its VRID is free.
const REMEMBERED: Duration = Duration::from_secs(123);
/// Time over which adverts of a foreign router arrive until it is no momentary mistake.
const SETTLED: Duration = Duration::from_secs(2);
/// Shortest time between two changes of the VRID.
pub const REST: Duration = Duration::from_secs(10);
/// Time for which a node that has moved to a VRID listens there before it follows a peer elsewhere.
const ARRIVAL: Duration = Duration::from_secs(1);
/// Time for which an Active waits for another one, under another VRID, to move to its own.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most routers recorded; those received last the longest ago are removed first.
const MOST_HEARD: usize = 1024;

/// Kind of addresses that the advert of a router lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "it lists it, others or none")]
pub enum Listing {
    /// The address whose VRID is to be chosen: a peer's.
    Ours,
    /// Other addresses.
    Others,
    /// None. A peer sends this under a VRID that it is about to leave.
    Nothing,
}

/// State of this node in its virtual router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the states of RFC 9568 §6.4")]
pub enum Role {
    /// It does not run.
    Initialize,
    /// Another node may be Active.
    Backup {
        /// The Active, if an advert of it arrived.
        active: Option<IpAddr>,
    },
    /// This node.
    Active,
}

/// Decision on the VRID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a caller must not overlook one")]
pub enum Decision {
    /// None yet: the node still listens.
    Listen,
    /// Run with this VRID.
    Use(Vrid),
    /// Foreign routers use all 255. The caller asks again.
    NoneFree,
}

/// Chooses the VRID of one virtual router with one address.
#[derive(Clone, Debug)]
pub struct VridChoice {
    order: Order,
    source: IpAddr,
    started: Time,
    vrid: Option<Vrid>,
    changed: Option<Time>,
    heard: BTreeMap<(Vrid, IpAddr), Heard>,
    /// Time since which another Active advertises the address under another VRID.
    contested_since: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    first: Time,
    last: Time,
    listing: Listing,
}

impl VridChoice {
    /// For the virtual router of this address, on a node that sends from `source` and begins to listen now.
    pub fn new(address: IpAddr, source: IpAddr, now: Time) -> Self {
        Self {
            order: Order::of(address),
            source,
            started: now,
            vrid: None,
            changed: None,
            heard: BTreeMap::new(),
            contested_since: None,
        }
    }

    /// The VRID that was chosen.
    pub fn vrid(&self) -> Option<Vrid> {
        self.vrid
    }

    /// Records that the virtual router still runs under another VRID, as Backup of `active`: the chosen VRID has not taken effect, as
    /// when it was forged. After [`REST`] the running one counts as a peer's and is taken.
    pub fn note_running(&mut self, running: Vrid, active: IpAddr, now: Time) {
        let is_new = self.changed.is_some_and(|changed| now.since(changed) < REST);
        if self.vrid.is_some_and(|vrid| vrid != running) && !is_new {
            self.hear(running, active, Listing::Ours, now);
        }
    }

    /// Sets the address that the node sends from.
    pub fn set_source(&mut self, source: IpAddr) {
        self.source = source;
    }

    /// Records an advert of a router that is not obeyed: under another VRID, or no peer.
    pub fn hear(&mut self, vrid: Vrid, source: IpAddr, listing: Listing, now: Time) {
        let heard = self.heard.entry((vrid, source)).or_insert(Heard { first: now, last: now, listing });
        // A router that was silent for long begins anew.
        if now.since(heard.last) >= REMEMBERED {
            heard.first = now;
        }
        (heard.last, heard.listing) = (now, listing);
        if self.heard.len() > MOST_HEARD {
            let oldest = self.heard.iter().min_by_key(|(_, heard)| heard.last).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                self.heard.remove(&oldest);
            }
        }
    }

    /// Decides on the VRID now. `taken`: VRIDs that cannot be used on this node for another reason.
    pub fn decide(&mut self, role: Role, taken: impl Fn(Vrid) -> bool, now: Time) -> Decision {
        self.heard.retain(|_, heard| now.since(heard.last) < REMEMBERED);
        let wanted = match self.vrid {
            None => self.first(&taken, now),
            Some(vrid) => self.next(vrid, role, &taken, now),
        };
        match wanted {
            Wanted::NoneFree if self.vrid.is_none() => return Decision::NoneFree,
            Wanted::Stay | Wanted::NoneFree => {}
            Wanted::Vrid(vrid) => {
                self.changed = self.vrid.map(|_| now);
                self.vrid = Some(vrid);
                self.contested_since = None;
            }
        }
        self.vrid.map_or(Decision::Listen, Decision::Use)
    }

    /// Time at which [`Self::decide`] may change its decision although no advert arrives.
    pub fn due(&self, now: Time) -> Time {
        match self.vrid {
            None => (self.started + LISTEN).max(now + Duration::from_secs(1)),
            Some(_) => now + Duration::from_secs(1),
        }
    }

    /// Chooses for a node that has no VRID yet.
    fn first(&self, taken: &impl Fn(Vrid) -> bool, now: Time) -> Wanted {
        match self
            .peers(now)
            .map(|(vrid, _)| vrid)
            .filter(|vrid| !taken(*vrid))
            .min_by_key(|vrid| self.order.place(*vrid))
        {
            Some(vrid) => Wanted::Vrid(vrid),
            None if now.since(self.started) < LISTEN => Wanted::Stay,
            None => self.free(taken),
        }
    }

    /// Chooses for a node that has a VRID.
    fn next(&mut self, own: Vrid, role: Role, taken: &impl Fn(Vrid) -> bool, now: Time) -> Wanted {
        let may_move = self.changed.is_none_or(|changed| now.since(changed) >= REST);
        let peers: Vec<_> = self.peers(now).filter(|(vrid, _)| *vrid != own && !taken(*vrid)).collect();
        let first = peers.iter().copied().min_by_key(|(vrid, _)| self.order.place(*vrid));
        // A node that has just moved here has received no advert here yet: adverts that it received before must not lead it back.
        let is_later = |key: &&(Vrid, IpAddr)| {
            let after = |changed: Time| {
                self.heard.get(key).is_some_and(|heard| heard.last > changed) && now.since(changed) >= ARRIVAL
            };
            self.changed.is_none_or(after)
        };
        let first_since =
            peers.iter().filter(is_later).map(|(vrid, _)| *vrid).min_by_key(|vrid| self.order.place(*vrid));
        let follow = match role {
            // Where another process of the node has the VRID, this one is not run.
            Role::Initialize if first.is_none() && may_move && self.is_strangers(own, SETTLED, now) => {
                return self.free(taken);
            }
            Role::Initialize | Role::Backup { active: None } => first_since,
            // Another one is Active here: those two have to agree first.
            Role::Backup { active: Some(active) } => {
                peers.iter().find(|(_, source)| *source == active).map(|(vrid, _)| *vrid)
            }
            Role::Active => {
                return match first {
                    Some(other) if may_move => self.contest(own, other, taken, now),
                    Some(_) => Wanted::Stay,
                    None => {
                        self.contested_since = None;
                        if may_move && self.is_strangers(own, SETTLED, now) {
                            self.free(taken)
                        } else {
                            Wanted::Stay
                        }
                    }
                };
            }
        };
        self.contested_since = None;
        follow.map_or(Wanted::Stay, Wanted::Vrid)
    }

    /// This node and another one are Active for the address, each under its own VRID.
    fn contest(
        &mut self,
        own: Vrid,
        (other, source): (Vrid, IpAddr),
        taken: &impl Fn(Vrid) -> bool,
        now: Time,
    ) -> Wanted {
        let since = *self.contested_since.get_or_insert(now);
        let (here, there) =
            (self.is_strangers(own, Duration::ZERO, now), self.is_strangers(other, Duration::ZERO, now));
        match (here, there) {
            (true, false) => Wanted::Vrid(other),
            // The other node does not receive what this node receives, or neither would stay: a third VRID.
            (false | true, true)
                if now.since(since) >= PATIENCE.saturating_mul(2) && self.source > source =>
            {
                self.free(taken)
            }
            (false, true) => Wanted::Stay,
            (true, true) | (false, false) => {
                let is_later = self.order.place(other) < self.order.place(own);
                if is_later || now.since(since) >= PATIENCE { Wanted::Vrid(other) } else { Wanted::Stay }
            }
        }
    }

    /// Peers that are Active now, each with its VRID.
    fn peers(&self, now: Time) -> impl Iterator<Item = (Vrid, IpAddr)> + '_ {
        let is_peer = move |heard: &Heard| heard.listing == Listing::Ours && now.since(heard.last) < PRESENT;
        self.heard.iter().filter(move |(_, heard)| is_peer(heard)).map(|(key, _)| *key)
    }

    /// Returns true if a foreign router that may still be present has sent adverts under this VRID for at least `long`.
    fn is_strangers(&self, vrid: Vrid, long: Duration, now: Time) -> bool {
        let counts =
            |heard: &Heard| now.since(heard.last) < LONGEST_INTERVAL && heard.last.since(heard.first) >= long;
        self.strangers(vrid).any(counts)
    }

    /// Foreign routers that sent adverts under this VRID.
    fn strangers(&self, vrid: Vrid) -> impl Iterator<Item = &Heard> {
        let of_vrid = self.heard.iter().filter(move |((of, _), _)| *of == vrid);
        of_vrid
            .filter(|((_, source), heard)| match heard.listing {
                Listing::Ours => false,
                Listing::Others => true,
                Listing::Nothing => !self.is_peer(*source),
            })
            .map(|(_, heard)| heard)
    }

    /// Returns true if the router at `source` has advertised the address.
    fn is_peer(&self, source: IpAddr) -> bool {
        self.heard.iter().any(|((_, of), heard)| *of == source && heard.listing == Listing::Ours)
    }

    /// Returns the first VRID of the order that is not in use, nor the one to be left.
    fn free(&self, taken: &impl Fn(Vrid) -> bool) -> Wanted {
        let is_free =
            |vrid: &Vrid| Some(*vrid) != self.vrid && !taken(*vrid) && self.strangers(*vrid).next().is_none();
        self.order.iter().find(is_free).map_or(Wanted::NoneFree, Wanted::Vrid)
    }
}

enum Wanted {
    Stay,
    Vrid(Vrid),
    NoneFree,
}
