//! Which addresses are to be bound, renewed and removed. Pure: the kernel's answers come back as arguments.

#![cfg_attr(
    not(test),
    expect(
        clippy::arithmetic_side_effects,
        reason = "counts of its own addresses and parts of their lifetime"
    )
)]

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
const MAX_LIFETIME: Duration = Duration::from_mins(10);
/// Longest time in which renewals are gathered.
const MAX_GATHERING_TIME: Duration = Duration::from_millis(500);
/// First pause after a refusal.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Pause after a removal from which on the address is given up until its end: it had better be on another node.
const GIVE_UP: Duration = Duration::from_secs(1);

/// An address on an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Binding {
    /// Index of the interface.
    pub(super) interface: u32,
    pub(super) address: IpAddr,
}

/// Operation on a binding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AddressOp {
    /// Bind it, if no other address like it is there.
    Add(Binding),
    /// Give it a new lifetime.
    Renew(Binding),
    /// Unbind it.
    Remove(Binding),
}

/// Bindings as far as this process knows, and those that the kernel refused.
#[derive(Default, Debug)]
pub(super) struct Bindings {
    /// Bound addresses, each with the time of its renewal.
    bound: BTreeMap<Binding, Time>,
    refused: BTreeMap<Binding, Pause>,
    /// Bindings that other processes removed, each with the pause after that.
    lost: BTreeMap<Binding, Pause>,
}

/// Lifetime when these are bound.
pub(super) fn lifetime<'a>(bindings: impl IntoIterator<Item = &'a Binding>) -> Duration {
    let (mut v4, mut v6) = (0_usize, 0_usize);
    for binding in bindings {
        *(if binding.address.is_ipv4() { &mut v4 } else { &mut v6 }) += 1;
    }
    let times = v4.div_ceil(IPV4_PER_LIFETIME).max(v6.div_ceil(IPV6_PER_LIFETIME).saturating_pow(2)).max(1);
    LIFETIME.saturating_mul(u32::try_from(times).unwrap_or(u32::MAX)).min(MAX_LIFETIME)
}

impl Bindings {
    /// Returns the operations after which exactly `wanted` is bound: removals first, as another node may have taken over, then renewals of
    /// what would expire, then additions.
    pub(super) fn ops(&self, wanted: &BTreeSet<Binding>, now: Time) -> Vec<AddressOp> {
        let gone = self.bound.keys().filter(|binding| !wanted.contains(binding));
        let mut ops: Vec<AddressOp> = gone.copied().map(AddressOp::Remove).collect();
        let mut new = Vec::new();
        for binding in wanted {
            match self.bound.get(binding) {
                Some(due) if *due <= now => ops.push(AddressOp::Renew(*binding)),
                Some(_) => {}
                None if self.pauses(binding).any(|pause| pause.until > now) => {}
                None => new.push(AddressOp::Add(*binding)),
            }
        }
        ops.append(&mut new);
        ops
    }

    /// The kernel has done these operations, with this lifetime, requested not before `now`.
    pub(super) fn succeeded(&mut self, ops: &[AddressOp], lifetime: Duration, now: Time) {
        let count = u32::try_from(ops.len().max(1)).unwrap_or(u32::MAX);
        let third = lifetime / 3;
        for (number, op) in (0..).zip(ops) {
            match op {
                AddressOp::Add(binding) | AddressOp::Renew(binding) => {
                    // Between 1/6 and 1/3 of the lifetime, so that what was added at once is not renewed at once for ever.
                    let spread = third / 2 + third / 2 * number / count;
                    self.bound.insert(*binding, now + spread);
                    self.refused.remove(binding);
                }
                AddressOp::Remove(binding) => {
                    self.bound.remove(binding);
                }
            }
        }
    }

    /// Records that the kernel refused this operation; it is tried again after a pause. Returns true if it was not refused before.
    pub(super) fn refused(&mut self, op: AddressOp, now: Time) -> bool {
        match op {
            // What cannot be removed expires.
            AddressOp::Remove(binding) => self.bound.remove(&binding).is_some(),
            AddressOp::Add(binding) | AddressOp::Renew(binding) => {
                self.bound.remove(&binding);
                let pause = self.refused.get(&binding).map_or(FIRST_PAUSE, |pause| pause.next);
                self.refused.insert(binding, Pause::new(pause, FIRST_PAUSE, now)).is_none()
            }
        }
    }

    /// Records that another process removed it. Returns true if it was bound. It is bound again immediately the first time, then after
    /// growing pauses, until it has been left alone for the longest.
    pub(super) fn lost(&mut self, binding: Binding, now: Time) -> bool {
        if self.bound.remove(&binding).is_none() {
            return false;
        }
        let recent = self.lost.get(&binding).filter(|pause| now < pause.until + pause::MAX_PAUSE);
        let pause = recent.map_or(Duration::ZERO, |recent| recent.next);
        self.lost.insert(binding, Pause::new(pause, FIRST_PAUSE, now));
        true
    }

    /// Releases a binding that is another's now: it is neither renewed nor removed.
    pub(super) fn release(&mut self, binding: &Binding) {
        self.bound.remove(binding);
    }

    /// Returns true if others removed it so often that it is not bound again before a long pause ends.
    pub(super) fn is_given_up(&self, binding: &Binding, now: Time) -> bool {
        self.lost.get(binding).is_some_and(|pause| now < pause.until && pause.next > GIVE_UP * 2)
    }

    /// Removes records of bindings that are no longer wanted: refusals immediately, losses `MAX_PAUSE` after their pause has ended.
    pub(super) fn forget(&mut self, wanted: &BTreeSet<Binding>, now: Time) {
        self.refused.retain(|binding, _| wanted.contains(binding));
        self.lost.retain(|binding, pause| wanted.contains(binding) || now < pause.until + pause::MAX_PAUSE);
    }

    /// Returns the bound addresses.
    pub(super) fn bound(&self) -> impl Iterator<Item = &Binding> {
        self.bound.keys()
    }

    /// Time in which renewals are gathered, a small part of what is left when they are due: 50 ms with few addresses.
    pub(super) fn gathering_time(&self) -> Duration {
        (lifetime(self.bound.keys()) / 60).min(MAX_GATHERING_TIME)
    }

    /// Returns true if it is bound.
    pub(super) fn holds(&self, binding: &Binding) -> bool {
        self.bound.contains_key(binding)
    }

    /// Returns when there is something to do if nothing changes until `now`.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let waits =
            |(binding, pause): &(&Binding, &Pause)| now < pause.until && !self.bound.contains_key(*binding);
        let lost = self.lost.iter().filter(waits);
        let pauses = self.refused.values().chain(lost.map(|(_, pause)| pause));
        self.bound.values().copied().chain(pauses.map(|pause| pause.until)).min()
    }

    fn pauses(&self, binding: &Binding) -> impl Iterator<Item = &Pause> {
        self.refused.get(binding).into_iter().chain(self.lost.get(binding))
    }
}
