//! Binds addresses through netlink, as [`Bindings`] decides, and follows what others do to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::AddressFlags;
use nix::errno::Errno;
use windlass_vrrp::Time;

use super::bindings::{Bindings, Place, Step, lifetime};
use super::occupants::Occupants;
use super::orders::order;
use crate::clock;
use crate::netlink::{Address, Change, NetlinkError, Refusal, Route};

#[cfg(test)]
mod tests;

/// Steps between two looks at whether they are still permitted.
const CHUNK: usize = 64;
/// Time after which a round ends, so that what is bound is announced while the kernel, which takes the longer the more there
/// are, binds the rest.
const TURN: Duration = Duration::from_millis(250);

/// How this engine's addresses are told from others'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Marks {
    /// By the tag, as long as nothing else is known.
    Tag,
    /// The kernel (before 5.18) keeps no tag: by what this process has bound and by their form.
    Memory,
}

/// The addresses of this engine.
pub(super) struct Addresses {
    tag: u8,
    marks: Marks,
    /// Whether `marks` is known to be right.
    marks_seen: bool,
    bindings: Bindings,
    occupants: Occupants,
    /// Own removals that the kernel has not told of yet: not to be taken for another's.
    leaving: BTreeMap<Place, u32>,
    /// Those that the kernel has told of. In IPv6 it does so some time after it has taken the order: a worker of its own
    /// makes the route, and what comes before is not received.
    told: BTreeSet<Place>,
    /// Why what is wanted is not bound.
    obstacles: BTreeMap<Place, String>,
}

impl Addresses {
    /// None yet. `tag` marks those of this engine.
    pub(super) fn new(tag: u8) -> Self {
        Self {
            tag,
            marks: Marks::Tag,
            marks_seen: false,
            bindings: Bindings::default(),
            occupants: Occupants::default(),
            leaving: BTreeMap::new(),
            told: BTreeSet::new(),
            obstacles: BTreeMap::new(),
        }
    }

    /// Removes what an earlier engine of this tag left behind. How many there were.
    pub(super) fn sweep(&self, route: &mut Route) -> Result<usize, NetlinkError> {
        let left = route.addresses(AddressFamily::Unspec)?.entries;
        let ours: Vec<_> = left.iter().filter(|address| self.is_ours(address)).map(place_of).collect();
        let answers =
            route.batch(ours.iter().map(|place| self.order(Step::Remove(*place), Duration::ZERO)))?;
        Ok(answers.into_iter().flatten().count())
    }

    /// Compares what is known with all that the kernel has. What was bound and is gone.
    pub(super) fn resync(&mut self, route: &mut Route, now: Time) -> Result<Vec<Place>, NetlinkError> {
        let all = route.addresses(AddressFamily::Unspec)?.entries;
        self.leaving.clear();
        self.occupants = Occupants::default();
        let mut ours = BTreeSet::new();
        for address in &all {
            if self.is_ours(address) {
                ours.insert(place_of(address));
            } else {
                self.see_other(address);
            }
        }
        self.told.clone_from(&ours);
        let gone: Vec<Place> = self.bindings.bound().filter(|place| !ours.contains(place)).copied().collect();
        Ok(gone.into_iter().filter(|place| self.bindings.lost(*place, now)).collect())
    }

    /// Takes in what the kernel tells. The place of an address of ours that somebody removed.
    pub(super) fn hear(&mut self, change: &Change, now: Time) -> Option<Place> {
        match change {
            Change::Link(_) => None,
            Change::LinkGone(index) => {
                self.occupants.leave_interface(*index);
                self.told.retain(|place| place.interface != *index);
                let gone: Vec<Place> =
                    self.bindings.bound().filter(|place| place.interface == *index).copied().collect();
                for place in &gone {
                    self.bindings.cede(place);
                }
                None
            }
            Change::Address(address) if self.is_ours(address) => {
                self.occupants.leave(place_of(address), address.prefix);
                self.told.insert(place_of(address));
                None
            }
            Change::Address(address) => {
                self.see_other(address);
                None
            }
            Change::AddressGone(address) if self.is_ours(address) => {
                let place = place_of(address);
                self.told.remove(&place);
                match self.leaving.get_mut(&place) {
                    Some(1) => drop(self.leaving.remove(&place)),
                    Some(count) => *count -= 1,
                    None => return self.bindings.lost(place, now).then_some(place),
                }
                None
            }
            Change::AddressGone(address) => {
                self.occupants.leave(place_of(address), address.prefix);
                None
            }
        }
    }

    /// Binds exactly `wanted`, as far as others' addresses and the kernel let it. `permits` is asked right before each order
    /// that binds. Whether there is more to do.
    pub(super) fn settle(
        &mut self,
        wanted: &BTreeSet<Place>,
        permits: &dyn Fn(&Place) -> bool,
        route: &mut Route,
    ) -> Result<bool, NetlinkError> {
        let now = clock::now();
        self.obstacles.retain(|place, _| wanted.contains(place) && !self.bindings.holds(place));
        let mut free = BTreeSet::new();
        for place in wanted {
            if let Some(objection) = self.objection(place, now) {
                self.obstacles.insert(*place, objection);
            } else {
                free.insert(*place);
            }
        }
        self.bindings.forget(&free, now);
        let lifetime = lifetime(&free);
        let steps = self.bindings.steps(&free, now);
        let mut rest = steps.len();
        for chunk in steps.chunks(CHUNK) {
            if clock::now().since(now) > TURN {
                break;
            }
            rest -= chunk.len();
            let permitted = |step: &&Step| match step {
                Step::Add(place) | Step::Renew(place) => permits(place),
                Step::Remove(_) => true,
            };
            let steps: Vec<Step> = chunk.iter().filter(permitted).copied().collect();
            self.carry_out(steps, lifetime, route)?;
        }
        Ok(rest > 0)
    }

    fn carry_out(
        &mut self,
        steps: Vec<Step>,
        lifetime: Duration,
        route: &mut Route,
    ) -> Result<(), NetlinkError> {
        let now = clock::now();
        let answers = route.batch(steps.iter().map(|step| self.order(*step, lifetime)))?;
        let (mut done, mut existing) = (Vec::new(), Vec::new());
        for (step, answer) in steps.into_iter().zip(answers) {
            match (step, answer) {
                (Step::Remove(place), Ok(())) => {
                    *self.leaving.entry(place).or_default() += 1;
                    done.push(step);
                }
                // Expired, or its interface is gone: as good as removed.
                (Step::Remove(_), Err(_)) | (Step::Add(_) | Step::Renew(_), Ok(())) => done.push(step),
                (Step::Add(place), Err(Refusal { errno: Errno::EEXIST, .. })) => existing.push(place),
                (Step::Add(_) | Step::Renew(_), Err(refusal)) => self.refuse(step, refusal.to_string(), now),
            }
        }
        self.succeed(&done, lifetime, now);
        self.learn_marks(&done, route)?;
        if existing.is_empty() { Ok(()) } else { self.adopt(&existing, lifetime, route, now) }
    }

    /// Addresses that are there already: ours are renewed, others are left alone.
    fn adopt(
        &mut self,
        existing: &[Place],
        lifetime: Duration,
        route: &mut Route,
        now: Time,
    ) -> Result<(), NetlinkError> {
        let all = route.addresses(AddressFamily::Unspec)?.entries;
        let (ours, others): (Vec<&Address>, Vec<&Address>) =
            all.iter().partition(|address| self.is_ours(address));
        for address in others {
            self.see_other(address);
        }
        let ours: BTreeSet<Place> = ours.into_iter().map(place_of).collect();
        for place in existing {
            let renewal = Step::Renew(*place);
            if ours.contains(place) {
                self.told.insert(*place);
                let (message, flags) = self.order(renewal, lifetime);
                match route.request(message, flags) {
                    Ok(()) => self.succeed(&[renewal], lifetime, now),
                    Err(error) => self.refuse(renewal, error.to_string(), now),
                }
            } else {
                let gone = || format!("another's {} was on the interface and is gone", place.address);
                let reason = self.occupants.objection(place).unwrap_or_else(gone);
                self.refuse(renewal, reason, now);
            }
        }
        Ok(())
    }

    /// Looks, once, whether the kernel keeps the tag of what was bound.
    fn learn_marks(&mut self, done: &[Step], route: &mut Route) -> Result<(), NetlinkError> {
        let added = done.iter().find_map(|step| match step {
            Step::Add(place) => Some(*place),
            Step::Renew(_) | Step::Remove(_) => None,
        });
        let Some(added) = added.filter(|_| !self.marks_seen) else { return Ok(()) };
        let all = route.addresses(AddressFamily::Unspec)?.entries;
        self.learn_marks_from(added, &all);
        Ok(())
    }

    fn learn_marks_from(&mut self, added: Place, all: &[Address]) {
        let Some(found) = all.iter().find(|address| place_of(address) == added && is_host(address)) else {
            return;
        };
        self.marks_seen = true;
        if found.protocol != self.tag && is_like_ours(found) {
            tracing::warn!(
                "this kernel keeps no origin of addresses (IFA_PROTO, Linux 5.18): VIPs that a killed engine leaves behind \
                 are not swept at the next start but expire by themselves, and are in the way until then"
            );
            self.marks = Marks::Memory;
        }
    }

    fn succeed(&mut self, steps: &[Step], lifetime: Duration, now: Time) {
        self.bindings.succeeded(steps, lifetime, now);
        for step in steps {
            match step {
                Step::Add(place) | Step::Renew(place) | Step::Remove(place) => {
                    self.obstacles.remove(place);
                }
            }
        }
    }

    fn refuse(&mut self, step: Step, reason: String, now: Time) {
        self.bindings.refused(step, now);
        match step {
            Step::Add(place) | Step::Renew(place) => drop(self.obstacles.insert(place, reason)),
            Step::Remove(_) => {}
        }
    }

    fn see_other(&mut self, address: &Address) {
        let place = place_of(address);
        self.occupants.enter(place, address.prefix);
        if is_host(address) {
            // Made over to somebody else, as `ip addr change` does.
            self.bindings.cede(&place);
        }
    }

    /// Whether it is bound and the kernel receives on it.
    pub(super) fn serves(&self, place: &Place) -> bool {
        self.bindings.holds(place) && (place.address.is_ipv4() || self.told.contains(place))
    }

    /// Why what is wanted is not bound.
    pub(super) fn obstacle(&self, place: &Place) -> Option<&str> {
        self.obstacles.get(place).map(String::as_str)
    }

    /// Why others on this node keep it from being bound, wanted or not.
    pub(super) fn objection(&self, place: &Place, now: Time) -> Option<String> {
        let removed = || {
            let address = place.address;
            self.bindings.is_given_up(place, now).then(|| {
                format!(
                    "something on this node removed {address} from the interface again and again: find it (`ip monitor \
                     address`; often it is the network's manager) and have it leave alone what it did not put there"
                )
            })
        };
        self.occupants.objection(place).or_else(removed)
    }

    /// Whether nothing is bound.
    pub(super) fn is_empty(&self) -> bool {
        self.bindings.bound().next().is_none()
    }

    /// Shortest pause between two rounds without cause.
    pub(super) fn breath(&self) -> Duration {
        self.bindings.breath()
    }

    /// When there is something to do if nothing changes until `now`.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        self.bindings.due(now)
    }

    fn order(&self, step: Step, lifetime: Duration) -> (netlink_packet_route::RouteNetlinkMessage, u16) {
        order(step, lifetime, self.tag)
    }

    fn is_ours(&self, address: &Address) -> bool {
        is_host(address)
            && match self.marks {
                Marks::Tag => address.protocol == self.tag,
                Marks::Memory => {
                    let place = place_of(address);
                    let known = self.bindings.holds(&place) || self.leaving.contains_key(&place);
                    known && is_like_ours(address)
                }
            }
    }
}

fn place_of(address: &Address) -> Place {
    Place { interface: address.index, address: address.ip }
}

fn is_host(address: &Address) -> bool {
    let host = match address.ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    address.prefix == host
}

/// With a lifetime, without a route of its own.
fn is_like_ours(address: &Address) -> bool {
    address.flags.contains(AddressFlags::Noprefixroute) && !address.flags.contains(AddressFlags::Permanent)
}
