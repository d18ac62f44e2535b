//! The addresses of one family that a pool can give now.

use std::collections::{BTreeMap, BTreeSet};

use crate::runs::Runs;
use crate::{Moment, Order};

/// Maximum number of releases that are recorded, for [`Order::LeastRecentlyUsed`].
const REMEMBERED: usize = 1 << 16;

/// Numbers that can be given, in the order in which to give them. Taking one and giving it back costs O(log n).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FreeList {
    numbering: Numbering,
    order: Order,
    /// Free and, as far as is remembered, never given, as positions.
    fresh: Runs,
    /// Free and given before, by the time of release. Empty unless the order asks for it.
    used: BTreeSet<(Moment, u128)>,
    /// The same by number.
    released: BTreeMap<u128, Moment>,
}

/// Which numbers count, and their positions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Every number.
    #[default]
    All,
    /// IPv4 without .0 and .255: 254 of each 256, numbered without a gap, so that they take one run where they would
    /// take one for each 256.
    AvoidClassC,
}

impl Numbering {
    /// Position of `number`; `None`: it is left out.
    pub(super) const fn position(self, number: u128) -> Option<u128> {
        match self {
            Self::All => Some(number),
            Self::AvoidClassC => match number & 0xff {
                0 | 0xff => None,
                low => Some((number >> 8) * 254 + low - 1),
            },
        }
    }

    const fn number(self, position: u128) -> u128 {
        match self {
            Self::All => position,
            Self::AvoidClassC => ((position / 254) << 8) + position % 254 + 1,
        }
    }

    /// The part of `first..=last` that is not left out, as positions.
    pub(super) fn positions(self, first: u128, last: u128) -> Option<(u128, u128)> {
        match self {
            Self::All => Some((first, last)),
            Self::AvoidClassC => {
                // The next number above .255 is .0, and the next below .0 is .255: at most two steps.
                let up = |number| (0..3).find_map(|step| self.position(number + step));
                let down = |number: u128| {
                    (0..3).find_map(|step| number.checked_sub(step).and_then(|at| self.position(at)))
                };
                let (first, last) = (up(first)?, down(last)?);
                (first <= last).then_some((first, last))
            }
        }
    }
}

impl FreeList {
    pub(super) fn new(numbering: Numbering, order: Order) -> Self {
        Self { numbering, order, ..Self::default() }
    }

    /// Adds `first..=last`, never given.
    pub(super) fn add(&mut self, first: u128, last: u128) {
        if let Some((first, last)) = self.numbering.positions(first, last) {
            self.fresh.insert(first, last);
        }
    }

    /// Takes `first..=last`, never given, out for good.
    pub(super) fn reserve(&mut self, first: u128, last: u128) {
        if let Some((first, last)) = self.numbering.positions(first, last) {
            self.fresh.remove(first, last);
        }
    }

    /// `number` is not free any more.
    pub(super) fn take(&mut self, number: u128) {
        let Some(position) = self.numbering.position(number) else { return };
        if self.order == Order::LeastRecentlyUsed
            && let Some(at) = self.released.remove(&position)
        {
            self.used.remove(&(at, position));
            return;
        }
        self.fresh.remove(position, position);
    }

    /// Makes `number` free again; `released` is the time at which it became free, if recorded.
    pub(super) fn give_back(&mut self, number: u128, released: Option<Moment>) {
        let Some(position) = self.numbering.position(number) else { return };
        match (self.order, released) {
            (Order::Lowest | Order::Highest, _) | (Order::LeastRecentlyUsed, None) => {
                self.fresh.insert(position, position);
            }
            (Order::LeastRecentlyUsed, Some(at)) => {
                if let Some(before) = self.released.insert(position, at) {
                    self.used.remove(&(before, position));
                }
                self.fresh.remove(position, position);
                self.used.insert((at, position));
                if self.used.len() > REMEMBERED
                    && let Some((_, oldest)) = self.used.pop_first()
                {
                    self.released.remove(&oldest);
                    self.fresh.insert(oldest, oldest);
                }
            }
        }
    }

    /// Returns how many numbers can be given.
    pub(super) fn count(&self) -> u128 {
        self.fresh.count() + self.used.len() as u128
    }

    /// Returns true if `number` can be free.
    pub(super) const fn covers(&self, number: u128) -> bool {
        self.numbering.position(number).is_some()
    }

    pub(super) fn contains(&self, number: u128) -> bool {
        self.numbering
            .position(number)
            .is_some_and(|position| self.fresh.contains(position) || self.released.contains_key(&position))
    }

    /// The first `wanted` in the order in which to give them, of those that `choose` makes something of.
    pub(super) fn first<T>(&self, wanted: usize, choose: impl Fn(u128) -> Option<T>) -> Vec<T> {
        let numbering = self.numbering;
        let take = |positions: &mut dyn Iterator<Item = u128>| {
            positions.filter_map(|position| choose(numbering.number(position))).take(wanted).collect()
        };
        match self.order {
            Order::Lowest => take(&mut self.fresh.iter().flat_map(|(first, last)| first..=last)),
            Order::Highest => {
                take(&mut self.fresh.iter().rev().flat_map(|(first, last)| (first..=last).rev()))
            }
            Order::LeastRecentlyUsed => take(
                &mut self
                    .fresh
                    .iter()
                    .flat_map(|(first, last)| first..=last)
                    .chain(self.used.iter().map(|(_, position)| *position)),
            ),
        }
    }

    /// Free numbers that were given before, with the time of their release.
    pub(super) fn history(&self) -> impl Iterator<Item = (u128, Moment)> {
        self.used.iter().map(|(at, position)| (self.numbering.number(*position), *at))
    }
}
