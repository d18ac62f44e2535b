//! A set of numbers kept as maximal runs: memory and time follow the number of runs, not of members.

use std::collections::BTreeMap;

/// Disjoint runs, first → last, never adjacent: between two runs there is always a number that is absent. That makes
/// "the lowest absent number" one look-up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    runs: BTreeMap<u128, u128>,
    /// Members. The whole 128-bit space, which has one more than a `u128` counts, cannot be written as ranges: they
    /// leave out the unspecified address.
    count: u128,
}

impl Runs {
    fn put(&mut self, first: u128, last: u128) {
        self.runs.insert(first, last);
        self.count += last - first + 1;
    }

    fn take(&mut self, first: u128, last: u128) {
        self.runs.remove(&first);
        self.count -= last - first + 1;
    }

    /// Adds `first..=last`, merging with what it touches.
    pub(crate) fn insert(&mut self, first: u128, last: u128) {
        let (mut first, mut last) = (first, last);
        if let Some((&start, &end)) = self.runs.range(..=first).next_back()
            && end.saturating_add(1) >= first
        {
            if end >= last {
                return;
            }
            self.take(start, end);
            first = start;
        }
        while let Some((&start, &end)) = self.runs.range(first..=last.saturating_add(1)).next() {
            self.take(start, end);
            last = last.max(end);
        }
        self.put(first, last);
    }

    /// Takes `first..=last` out.
    pub(crate) fn remove(&mut self, first: u128, last: u128) {
        if let Some((&start, &end)) = self.runs.range(..=first).next_back()
            && end >= first
        {
            self.take(start, end);
            if start < first {
                self.put(start, first - 1);
            }
            if end > last {
                self.put(last + 1, end);
                return;
            }
        }
        while let Some((&start, &end)) = self.runs.range(first..=last).next() {
            self.take(start, end);
            if end > last {
                self.put(last + 1, end);
            }
        }
    }

    /// Returns true if `number` is a member.
    pub(crate) fn contains(&self, number: u128) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, &end)| end >= number)
    }

    /// The parts of `first..=last` that are members, in order.
    pub(crate) fn within(&self, first: u128, last: u128) -> impl Iterator<Item = (u128, u128)> {
        let before = self
            .runs
            .range(..first)
            .next_back()
            .filter(move |&(_, &end)| end >= first)
            .map(move |(_, &end)| (first, end.min(last)));
        let from = self.runs.range(first..=last).map(move |(&start, &end)| (start, end.min(last)));
        before.into_iter().chain(from)
    }

    /// Every run, in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u128, u128)> {
        self.runs.iter().map(|(&first, &last)| (first, last))
    }

    /// Number of members.
    pub(crate) const fn count(&self) -> u128 {
        self.count
    }

    /// Returns true if there is no member.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests;
