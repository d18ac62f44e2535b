//! Binds addresses through netlink, as [`Bindings`] decides.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use windlass_vrrp::Time;

use super::bindings::{Bindings, Place, Step};
use super::orders::order;
use crate::netlink::{Address, NetlinkError, Refusal, Route};

/// An address that could not be bound, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Obstacle {
    pub(super) place: Place,
    pub(super) reason: String,
}

/// The addresses of this engine.
pub(super) struct Addresses {
    /// Mark of its addresses.
    tag: u8,
    bindings: Bindings,
}

impl Addresses {
    pub(super) fn new(tag: u8) -> Self {
        Self { tag, bindings: Bindings::default() }
    }

    /// Removes what an earlier engine of this tag left behind. How many there were.
    pub(super) fn sweep(&self, route: &mut Route) -> Result<usize, NetlinkError> {
        let left = route.addresses(AddressFamily::Unspec)?.entries;
        let ours: Vec<_> = left.iter().filter(|address| is_ours(address, self.tag)).map(place_of).collect();
        let orders = ours.iter().map(|place| self.order(Step::Remove(*place)));
        route.batch(orders)?;
        Ok(ours.len())
    }

    /// Makes exactly `wanted` bound, as far as the kernel lets us; what it refuses for the first time.
    pub(super) fn settle(
        &mut self,
        wanted: &BTreeSet<Place>,
        route: &mut Route,
        now: Time,
    ) -> Result<Vec<Obstacle>, NetlinkError> {
        self.bindings.forget(wanted);
        let steps = self.bindings.steps(wanted, now);
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let answers = route.batch(steps.iter().map(|step| self.order(*step)))?;
        let (mut done, mut obstacles, mut existing) = (Vec::new(), Vec::new(), Vec::new());
        for (step, answer) in steps.into_iter().zip(answers) {
            match (step, answer) {
                (_, Ok(())) => done.push(step),
                // Expired, or its interface is gone: as good as removed.
                (Step::Remove(_), Err(_)) => done.push(step),
                (Step::Add(place), Err(Refusal { errno: Errno::EEXIST, .. })) => existing.push(place),
                (Step::Add(place) | Step::Renew(place), Err(refusal)) => {
                    if self.bindings.refused(step, now) {
                        obstacles.push(Obstacle { place, reason: refusal.to_string() });
                    }
                }
            }
        }
        self.bindings.succeeded(&done, now);
        if !existing.is_empty() {
            obstacles.extend(self.adopt(&existing, route, now)?);
        }
        Ok(obstacles)
    }

    /// Addresses that are there already: ours are renewed, others are left alone.
    fn adopt(
        &mut self,
        existing: &[Place],
        route: &mut Route,
        now: Time,
    ) -> Result<Vec<Obstacle>, NetlinkError> {
        let all = route.addresses(AddressFamily::Unspec)?.entries;
        let ours: BTreeSet<Place> =
            all.iter().filter(|address| is_ours(address, self.tag)).map(place_of).collect();
        let mut obstacles = Vec::new();
        for place in existing {
            let renewal = Step::Renew(*place);
            let refused = if ours.contains(place) {
                let (message, flags) = self.order(renewal);
                match route.request(message, flags) {
                    Ok(()) => {
                        self.bindings.succeeded(&[renewal], now);
                        continue;
                    }
                    Err(error) => error.to_string(),
                }
            } else {
                format!(
                    "the interface has {} already, not by this engine, which leaves it alone: remove it there, or here",
                    place.address
                )
            };
            if self.bindings.refused(renewal, now) {
                obstacles.push(Obstacle { place: *place, reason: refused });
            }
        }
        Ok(obstacles)
    }

    /// The kernel tells that an address is gone. Whether it was one of ours that is still wanted.
    pub(super) fn lost(&mut self, address: &Address, now: Time) -> bool {
        is_ours(address, self.tag) && self.bindings.lost(place_of(address), now)
    }

    /// Whether it is bound.
    pub(super) fn holds(&self, place: &Place) -> bool {
        self.bindings.holds(place)
    }

    /// When there is something to do if nothing changes.
    pub(super) fn due(&self) -> Option<Time> {
        self.bindings.due()
    }

    fn order(&self, step: Step) -> (RouteNetlinkMessage, u16) {
        order(step, self.bindings.lifetime(), self.tag)
    }
}

fn place_of(address: &Address) -> Place {
    Place { interface: address.index, address: address.ip }
}

/// A host's address with our tag.
fn is_ours(address: &Address, tag: u8) -> bool {
    let host = match address.ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    address.protocol == tag && address.prefix == host
}
