//! Addresses that this node keeps announcing although their objects are gone. Pure.
//!
//! The controller never deletes an object that is in service: it puts a `VirtualIP` into quarantine first, and removes the addresses from a
//! `VirtualRouter`. If an object vanishes while in service, another client deleted it or the definition of its kind, or an emptied database
//! lacks it. If one object vanishes, the node withdraws its address once the controller has had the time to recreate it. If several vanish,
//! or most, that is an accident: the node keeps serving until they are back, for [`Hold::time`] at most.
//!
//! Only addresses whose object is gone are held. Existing objects apply as usual: an address that is in quarantine, that is on another
//! virtual router, or whose virtual router no longer names this node is withdrawn immediately. All nodes of a virtual router therefore hold
//! it alike, and elect the Active among themselves as usual.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use windlass_api::{VirtualIP, VirtualRouter, virtual_ip_name};

use super::addresses::Answered;
use super::changes::Changed;
use super::desired::{Assignment, Desired, is_wanted};

#[cfg(test)]
mod tests;

/// Time for which a node waits for further objects to vanish, and for a single vanished one to be recreated.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Current objects.
pub(crate) struct Objects<'a, R, V> {
    pub(crate) node: &'a str,
    pub(crate) routers: &'a [R],
    pub(crate) vips: &'a [V],
    /// Addresses that the kernel of this node answers for.
    pub(crate) answered: &'a Answered,
}

/// An address that was in service here, and whose object, or that of its virtual router, is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Missing {
    since: Instant,
    /// True if the API server reported the deletion. Otherwise a list lacks the object, and the controller's steps before may have been
    /// missed.
    is_seen: bool,
    /// True if it did not vanish alone.
    is_accident: bool,
}

/// Changes to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The objects of `addresses` addresses are gone by an accident, out of `of` that this node announces or stands by for.
    Held { addresses: usize, of: usize },
    /// All objects are back, or were taken out of service.
    Back,
    /// The time has expired, and this many addresses are withdrawn.
    Over { addresses: usize },
}

/// Missing addresses, and the time for which they are held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Time for which an accident is held; zero: nothing is held, not for a moment.
    time: Duration,
    missing: BTreeMap<IpAddr, Missing>,
}

impl Hold {
    pub(crate) const fn new(time: Duration) -> Self {
        Self { time, missing: BTreeMap::new() }
    }

    /// Returns true if nothing is missing and nothing in `changed` has vanished: the objects alone decide.
    pub(crate) fn is_idle(&self, changed: &Changed) -> bool {
        self.missing.is_empty() && changed.vanished_vips.is_empty() && changed.vanished_routers.is_empty()
    }

    /// Returns the number of addresses that are held by an accident.
    pub(crate) fn held(&self) -> usize {
        self.missing.values().filter(|one| one.is_accident).count()
    }

    /// Returns the instant at which [`Self::apply`] has to run again without any other cause.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.missing.values().map(|one| one.ends(self.time)).min()
    }

    /// Returns the desired state after `changed`: `new`, computed from the objects, plus the held part of `before`.
    pub(crate) fn apply<R: AsRef<VirtualRouter>, V: AsRef<VirtualIP>>(
        &mut self,
        before: &Desired,
        new: Desired,
        objects: &Objects<'_, R, V>,
        changed: &Changed,
        now: Instant,
    ) -> (Desired, Option<News>) {
        if self.time.is_zero() {
            return (new, None);
        }
        let was_held = self.held();
        let in_service: BTreeSet<IpAddr> = addresses(before).collect();
        let vanished = self.vanished(before, &new, objects);
        self.missing.retain(|address, _| vanished.contains_key(address));
        for (address, router) in vanished {
            let name = virtual_ip_name(address);
            if changed.released_vips.contains(&name) {
                self.missing.remove(&address);
                continue;
            }
            let is_seen = changed.vanished_vips.contains(&name) || changed.vanished_routers.contains(router);
            // Neither: the controller had taken it out of service.
            if is_seen || changed.listed {
                self.missing.entry(address).or_insert(Missing { since: now, is_seen, is_accident: false });
            }
        }
        let seen = self.missing.values().filter(|one| one.is_seen).count();
        let is_ripe = self.missing.values().any(|one| one.is_accident || one.is_ripe(now));
        if is_ripe && (seen > 1 || 2 * self.missing.len() > in_service.len()) {
            self.missing.values_mut().for_each(|one| one.is_accident = true);
        }
        let (time, mut given_up) = (self.time, 0);
        self.missing.retain(|_, one| {
            let is_over = now >= one.ends(time);
            given_up += usize::from(is_over && one.is_accident);
            !is_over
        });
        let news = match (was_held, self.held()) {
            (_, _) if given_up > 0 => Some(News::Over { addresses: given_up }),
            (before, held) if held > before => Some(News::Held { addresses: held, of: in_service.len() }),
            (1.., 0) => Some(News::Back),
            (_, _) => None,
        };
        (self.merge(before, new), news)
    }

    /// Returns the addresses that were in service and are no longer because their object is gone, each with its virtual router.
    fn vanished<'a, R: AsRef<VirtualRouter>, V: AsRef<VirtualIP>>(
        &self,
        before: &'a Desired,
        new: &Desired,
        objects: &Objects<'_, R, V>,
    ) -> BTreeMap<IpAddr, &'a str> {
        let still: BTreeSet<IpAddr> = addresses(new).collect();
        let routers: HashMap<Option<&str>, &VirtualRouter> = objects
            .routers
            .iter()
            .map(AsRef::as_ref)
            .map(|one| (one.metadata.name.as_deref(), one))
            .collect();
        let vips: HashMap<IpAddr, &VirtualIP> =
            objects.vips.iter().map(AsRef::as_ref).map(|one| (one.spec.address, one)).collect();
        let mut vanished = BTreeMap::new();
        for assignment in &before.assignments {
            let name = assignment.virtual_router.as_str();
            let router = routers.get(&Some(name));
            if router.is_some_and(|router| !is_candidate(objects.node, router)) {
                continue;
            }
            for address in assignment.addresses.difference(&still) {
                let is_gone = match vips.get(address) {
                    None => true,
                    Some(vip) if !is_wanted(vip) => false,
                    Some(vip) => match vip.spec.virtual_router.as_deref() {
                        // Recreated, and not on a virtual router yet.
                        None => self.missing.contains_key(address),
                        Some(carrier) => carrier == name && router.is_none(),
                    },
                };
                let Answered { own, anycast, .. } = objects.answered;
                if is_gone && !own.contains_key(address) && !anycast.contains_key(address) {
                    vanished.insert(*address, name);
                }
            }
        }
        vanished
    }

    /// Returns `new` plus the missing addresses of `before`.
    fn merge(&self, before: &Desired, mut new: Desired) -> Desired {
        if self.missing.is_empty() {
            return new;
        }
        let is_missing = |address: &IpAddr| self.missing.contains_key(address);
        for old in &before.assignments {
            let held: BTreeSet<IpAddr> = old.addresses.iter().copied().filter(is_missing).collect();
            if held.is_empty() {
                continue;
            }
            let [unproven, forced] = [&old.unproven, &old.forced].map(|all| all & &held);
            match new.assignments.iter_mut().find(|one| is_same(one, old)) {
                Some(known) => {
                    known.addresses.extend(held);
                    known.unproven.extend(unproven);
                    known.forced.extend(forced);
                    known.health_check_node_ports.extend(&old.health_check_node_ports);
                }
                None => {
                    new.assignments.push(Assignment { addresses: held, unproven, forced, ..old.clone() });
                }
            }
        }
        new.assignments.sort_by_cached_key(|one| one.key().ok());
        extend(&mut new.restricted, &before.restricted, |one| one.address, is_missing);
        extend(&mut new.shared, &before.shared, |one| one.address, is_missing);
        new
    }
}

/// Adds the former entries of missing addresses that have no new one, and sorts all by address.
fn extend<T: Clone>(
    new: &mut Vec<T>,
    before: &[T],
    address: impl Fn(&T) -> IpAddr,
    is_missing: impl Fn(&IpAddr) -> bool,
) {
    let known: BTreeSet<IpAddr> = new.iter().map(&address).collect();
    let is_held = |one: &&T| is_missing(&address(one)) && !known.contains(&address(one));
    new.extend(before.iter().filter(is_held).cloned());
    new.sort_by_key(address);
}

impl Missing {
    fn is_ripe(&self, now: Instant) -> bool {
        now >= self.since + GRACE
    }

    fn ends(&self, time: Duration) -> Instant {
        self.since + if self.is_accident { time.max(GRACE) } else { GRACE }
    }
}

/// Returns true if the two are the same virtual router for the engine.
fn is_same(one: &Assignment, other: &Assignment) -> bool {
    one.key().is_ok_and(|key| other.key() == Ok(key))
}

fn addresses(desired: &Desired) -> impl Iterator<Item = IpAddr> {
    desired.assignments.iter().flat_map(|one| &one.addresses).copied()
}

fn is_candidate(node: &str, router: &VirtualRouter) -> bool {
    router.spec.nodes.iter().any(|candidate| candidate.name == node)
}
