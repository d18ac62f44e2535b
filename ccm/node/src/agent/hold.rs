//! What this node goes on announcing although the objects that it announces it by are gone. Pure.
//!
//! The controller never deletes what is in service: it puts a `VirtualIP` into quarantine first, and takes the addresses off a
//! `VirtualRouter`. An object that vanishes while it is in service was deleted by somebody else's hand, or with the definition
//! of its kind, or an emptied database lacks it. If it is one, the node falls silent once the controller has had the time to make
//! it anew. If it is several, or most, that is an accident: the node goes on until they are back, for [`Hold::time`] at most.
//!
//! Only whose object is gone is held. What an object says counts as ever: an address that is in quarantine, that is on another
//! virtual router, or whose virtual router does not name this node any more is left at once. So all nodes of a virtual router
//! hold it alike, and which of them answers they settle among themselves, as ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use windlass_api::{VirtualIP, VirtualRouter, virtual_ip_name};

use super::addresses::Answered;
use super::changes::Changed;
use super::desired::{Assignment, Desired, is_wanted};

#[cfg(test)]
mod tests;

/// How long a node waits for others to vanish, and for one that vanished alone to be made anew.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// The objects as they are.
pub(crate) struct Objects<'a, R, V> {
    pub(crate) node: &'a str,
    pub(crate) routers: &'a [R],
    pub(crate) vips: &'a [V],
    /// What the kernel of this node answers for.
    pub(crate) answered: &'a Answered,
}

/// An address that was in service here, and whose object is gone, or that of its virtual router.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Missing {
    since: Instant,
    /// The API server told of the deletion. Else a list lacks it, and what the controller did before was perhaps not seen.
    is_seen: bool,
    /// It did not vanish alone.
    is_accident: bool,
}

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The objects of these many addresses, of so many that this node announces or stands by for, are gone by an accident.
    Held { addresses: usize, of: usize },
    /// All are back, or were taken out of service.
    Back,
    /// The time is over, and these many addresses are given up.
    Over { addresses: usize },
}

/// What is held, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    /// How long an accident is waited out; zero: nothing is held, not for a moment.
    time: Duration,
    missing: BTreeMap<IpAddr, Missing>,
}

impl Hold {
    pub(crate) const fn new(time: Duration) -> Self {
        Self { time, missing: BTreeMap::new() }
    }

    /// Whether the objects alone say what this node is to do, and nothing has vanished among what `changed`.
    pub(crate) fn is_idle(&self, changed: &Changed) -> bool {
        self.missing.is_empty() && changed.vanished_vips.is_empty() && changed.vanished_routers.is_empty()
    }

    /// How many addresses are announced for want of an object that says otherwise.
    pub(crate) fn held(&self) -> usize {
        self.missing.values().filter(|one| one.is_accident).count()
    }

    /// When it is to be asked again without any other cause.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.missing.values().map(|one| one.ends(self.time)).min()
    }

    /// What this node is to do after `changed`: what the objects say, `new`, and what is held of what it did `before`.
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

    /// The addresses that were in service and are no longer, not because an object says so but because there is none; and the
    /// virtual router of each.
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
                        // Made anew, and not on a virtual router yet.
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

    /// `new`, and of what was done `before` the addresses that are missing.
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
        let is_known = |address: IpAddr| new.restricted.iter().any(|known| known.address == address);
        let restricted = before.restricted.iter().filter(|one| is_missing(&one.address));
        let restricted: Vec<_> = restricted.filter(|one| !is_known(one.address)).cloned().collect();
        new.restricted.extend(restricted);
        new.restricted.sort_by_key(|one| one.address);
        new
    }
}

impl Missing {
    fn is_ripe(&self, now: Instant) -> bool {
        now >= self.since + GRACE
    }

    fn ends(&self, time: Duration) -> Instant {
        self.since + if self.is_accident { time.max(GRACE) } else { GRACE }
    }
}

/// Whether the two are one virtual router for the engine.
fn is_same(one: &Assignment, other: &Assignment) -> bool {
    one.key().is_ok_and(|key| other.key() == Ok(key))
}

fn addresses(desired: &Desired) -> impl Iterator<Item = IpAddr> {
    desired.assignments.iter().flat_map(|one| &one.addresses).copied()
}

fn is_candidate(node: &str, router: &VirtualRouter) -> bool {
    router.spec.nodes.iter().any(|candidate| candidate.name == node)
}
