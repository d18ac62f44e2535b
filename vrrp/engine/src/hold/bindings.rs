//! Which addresses are to be bound, renewed and removed. Pure: the kernel's answers come back as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Lifetime of a bound address. The kernel removes it when this process no longer renews it: killed, frozen or cut off.
const LIFETIME: Duration = Duration::from_secs(3);
/// Addresses that the shortest lifetime serves; more live proportionally longer, so that renewing costs the same.
const PER_LIFETIME: usize = 256;
/// First pause after a refusal; doubled up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(30);

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
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: Time,
    next: Duration,
}

/// Lifetime when this many addresses are bound.
pub(super) fn lifetime(addresses: usize) -> Duration {
    LIFETIME * u32::try_from(addresses.div_ceil(PER_LIFETIME).max(1)).unwrap_or(u32::MAX)
}

impl Bindings {
    /// What is to be done now so that exactly `wanted` is bound: removals first, as another node may have taken over.
    pub(super) fn steps(&self, wanted: &BTreeSet<Place>, now: Time) -> Vec<Step> {
        let gone = self.bound.keys().filter(|place| !wanted.contains(place));
        let mut steps: Vec<Step> = gone.copied().map(Step::Remove).collect();
        for place in wanted {
            match (self.bound.get(place), self.refused.get(place)) {
                (Some(due), _) if *due <= now => steps.push(Step::Renew(*place)),
                (None, Some(pause)) if pause.until > now => {}
                (None, _) => steps.push(Step::Add(*place)),
                (Some(_), _) => {}
            }
        }
        steps
    }

    /// The kernel has done these steps.
    pub(super) fn succeeded(&mut self, steps: &[Step], now: Time) {
        let count = u32::try_from(steps.len().max(1)).unwrap_or(u32::MAX);
        let third = lifetime(self.bound.len().max(steps.len())) / 3;
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
                let next = (pause * 2).min(LAST_PAUSE);
                self.refused.insert(place, Pause { until: now + pause, next }).is_none()
            }
        }
    }

    /// Somebody else removed it. Whether it was bound, to be bound again after a pause.
    pub(super) fn lost(&mut self, place: Place, now: Time) -> bool {
        self.bound.contains_key(&place) && {
            self.refused(Step::Add(place), now);
            true
        }
    }

    /// What was refused and is no longer wanted is forgotten.
    pub(super) fn forget(&mut self, wanted: &BTreeSet<Place>) {
        self.refused.retain(|place, _| wanted.contains(place));
    }

    /// Whether it is bound.
    pub(super) fn holds(&self, place: &Place) -> bool {
        self.bound.contains_key(place)
    }

    /// Lifetime to give now.
    pub(super) fn lifetime(&self) -> Duration {
        lifetime(self.bound.len())
    }

    /// When there is something to do if nothing changes.
    pub(super) fn due(&self) -> Option<Time> {
        self.bound.values().copied().chain(self.refused.values().map(|pause| pause.until)).min()
    }
}
