//! Which addresses are to be bound, renewed and removed. Pure: the kernel's answers come back as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::Time;

use super::pause::{self, Pause};

#[cfg(test)]
mod tests;

/// Lifetime of a bound address. The kernel removes it when this process no longer renews it: killed, frozen or cut off.
const LIFETIME: Duration = Duration::from_secs(3);
/// Addresses that the shortest lifetime serves; more live longer, so that renewing stays cheap. In IPv6 the kernel goes through
/// all addresses at each renewal: twice as many cost four times as much.
const IPV4_PER_LIFETIME: usize = 1024;
const IPV6_PER_LIFETIME: usize = 256;
const LONGEST_LIFETIME: Duration = Duration::from_mins(10);
/// Longest time in which renewals are gathered.
const LONGEST_BREATH: Duration = Duration::from_millis(500);
/// First pause after a refusal.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Pause after a removal from which on the address is given up until its end: it had better be on another node.
const GIVE_UP: Duration = Duration::from_secs(1);

/// An address on an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    /// Index of the interface.
    pub(super) interface: u32,
    pub(super) address: IpAddr,
}

/// What to do about a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Bind it, if no other address like it is there.
    Add(Place),
    /// Give it a new lifetime.
    Renew(Place),
    /// Unbind it.
    Remove(Place),
}

/// What is bound as far as this process knows, and what the kernel refused.
#[derive(Default, Debug)]
pub(super) struct Bindings {
    /// When each is to be renewed.
    bound: BTreeMap<Place, Time>,
    refused: BTreeMap<Place, Pause>,
    /// What others removed lately.
    lost: BTreeMap<Place, Pause>,
}

/// Lifetime when these are bound.
pub(super) fn lifetime<'a>(places: impl IntoIterator<Item = &'a Place>) -> Duration {
    let (mut v4, mut v6) = (0_usize, 0_usize);
    for place in places {
        *(if place.address.is_ipv4() { &mut v4 } else { &mut v6 }) += 1;
    }
    let times = v4.div_ceil(IPV4_PER_LIFETIME).max(v6.div_ceil(IPV6_PER_LIFETIME).saturating_pow(2)).max(1);
    LIFETIME.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX)).min(LONGEST_LIFETIME)
}

impl Bindings {
    /// What is to be done now so that exactly `wanted` is bound: removals first, as another node may have taken over, then
    /// what would expire, then what is new.
    pub(super) fn steps(&self, wanted: &BTreeSet<Place>, now: Time) -> Vec<Step> {
        let gone = self.bound.keys().filter(|place| !wanted.contains(place));
        let mut steps: Vec<Step> = gone.copied().map(Step::Remove).collect();
        let mut new = Vec::new();
        for place in wanted {
            match self.bound.get(place) {
                Some(due) if *due <= now => steps.push(Step::Renew(*place)),
                Some(_) => {}
                None if self.pauses(place).any(|pause| pause.until > now) => {}
                None => new.push(Step::Add(*place)),
            }
        }
        steps.append(&mut new);
        steps
    }

    /// The kernel has done these steps, with this lifetime, ordered not before `now`.
    pub(super) fn succeeded(&mut self, steps: &[Step], lifetime: Duration, now: Time) {
        let count = u32::try_from(steps.len().max(1)).unwrap_or(u32::MAX);
        let third = lifetime / 3;
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Add(place) | Step::Renew(place) => {
                    // Between 1/6 and 1/3 of the lifetime, so that what was added at once is not renewed at once for ever.
                    let spread = third / 2 + third / 2 * number / count;
                    self.bound.insert(*place, now + spread);
                    self.refused.remove(place);
                }
                Step::Remove(place) => {
                    self.bound.remove(place);
                }
            }
        }
    }

    /// The kernel refused this step; it is tried again after a pause. Whether it was not refused before.
    pub(super) fn refused(&mut self, step: Step, now: Time) -> bool {
        match step {
            // What cannot be removed expires.
            Step::Remove(place) => self.bound.remove(&place).is_some(),
            Step::Add(place) | Step::Renew(place) => {
                self.bound.remove(&place);
                let pause = self.refused.get(&place).map_or(FIRST_PAUSE, |pause| pause.next);
                self.refused.insert(place, Pause::new(pause, FIRST_PAUSE, now)).is_none()
            }
        }
    }

    /// Somebody else removed it. Whether it was bound. It is bound again at once the first time, then after growing pauses,
    /// until it has been left alone for the longest.
    pub(super) fn lost(&mut self, place: Place, now: Time) -> bool {
        if self.bound.remove(&place).is_none() {
            return false;
        }
        let recent = self.lost.get(&place).filter(|pause| now < pause.until + pause::LONGEST);
        let pause = recent.map_or(Duration::ZERO, |recent| recent.next);
        self.lost.insert(place, Pause::new(pause, FIRST_PAUSE, now));
        true
    }

    /// It has become somebody else's: it is neither renewed nor removed.
    pub(super) fn cede(&mut self, place: &Place) {
        self.bound.remove(place);
    }

    /// Whether others removed it so often that it is not bound again before a long pause ends.
    pub(super) fn is_given_up(&self, place: &Place, now: Time) -> bool {
        self.lost.get(place).is_some_and(|pause| now < pause.until && pause.next > GIVE_UP * 2)
    }

    /// What was refused and is no longer wanted is forgotten; what was lost, too, but only when it was long ago.
    pub(super) fn forget(&mut self, wanted: &BTreeSet<Place>, now: Time) {
        self.refused.retain(|place, _| wanted.contains(place));
        self.lost.retain(|place, pause| wanted.contains(place) || now < pause.until + pause::LONGEST);
    }

    /// What is bound.
    pub(super) fn bound(&self) -> impl Iterator<Item = &Place> {
        self.bound.keys()
    }

    /// Time in which renewals are gathered, a small part of what is left when they are due: 50 ms with few addresses.
    pub(super) fn breath(&self) -> Duration {
        (lifetime(self.bound.keys()) / 60).min(LONGEST_BREATH)
    }

    /// Whether it is bound.
    pub(super) fn holds(&self, place: &Place) -> bool {
        self.bound.contains_key(place)
    }

    /// When there is something to do if nothing changes until `now`.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let waits = |(place, pause): &(&Place, &Pause)| now < pause.until && !self.bound.contains_key(*place);
        let lost = self.lost.iter().filter(waits);
        let pauses = self.refused.values().chain(lost.map(|(_, pause)| pause));
        self.bound.values().copied().chain(pauses.map(|pause| pause.until)).min()
    }

    fn pauses(&self, place: &Place) -> impl Iterator<Item = &Pause> {
        self.refused.get(place).into_iter().chain(self.lost.get(place))
    }
}
