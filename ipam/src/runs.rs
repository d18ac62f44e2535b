//! A set of numbers kept as maximal runs: memory and time follow the number of runs, not of members.

use std::collections::BTreeMap;

/// Disjoint runs, first → last, never adjacent: between two runs there is always a number that is absent. That makes
/// "the lowest absent number" one look-up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Runs(BTreeMap<u128, u128>);

impl Runs {
    /// Adds `first..=last`, merging with what it touches.
    pub(crate) fn insert(&mut self, first: u128, last: u128) {
        let (mut first, mut last) = (first, last);
        if let Some((&start, &end)) = self.0.range(..=first).next_back()
            && end.saturating_add(1) >= first
        {
            first = start;
            last = last.max(end);
        }
        while let Some((&start, &end)) = self.0.range(first..=last.saturating_add(1)).next() {
            self.0.remove(&start);
            last = last.max(end);
        }
        self.0.insert(first, last);
    }

    /// Takes `first..=last` out.
    pub(crate) fn remove(&mut self, first: u128, last: u128) {
        if let Some((&start, &end)) = self.0.range(..=first).next_back()
            && end >= first
        {
            self.0.remove(&start);
            if start < first {
                self.0.insert(start, first - 1);
            }
            if end > last {
                self.0.insert(last + 1, end);
                return;
            }
        }
        while let Some((&start, &end)) = self.0.range(first..=last).next() {
            self.0.remove(&start);
            if end > last {
                self.0.insert(last + 1, end);
            }
        }
    }

    /// Last number of the run that holds `number`.
    fn end_of_run(&self, number: u128) -> Option<u128> {
        self.0.range(..=number).next_back().map(|(_, &end)| end).filter(|&end| end >= number)
    }

    /// Whether `number` is a member.
    pub(crate) fn contains(&self, number: u128) -> bool {
        self.end_of_run(number).is_some()
    }

    /// The lowest number from `first` to `last` that is not a member.
    pub(crate) fn lowest_absent(&self, first: u128, last: u128) -> Option<u128> {
        let candidate = match self.end_of_run(first) {
            Some(end) => end.checked_add(1)?,
            None => first,
        };
        (candidate <= last).then_some(candidate)
    }

    /// The parts of `first..=last` that are members, in order.
    pub(crate) fn within(&self, first: u128, last: u128) -> impl Iterator<Item = (u128, u128)> {
        let before = self
            .0
            .range(..first)
            .next_back()
            .filter(move |&(_, &end)| end >= first)
            .map(move |(_, &end)| (first, end.min(last)));
        let from = self.0.range(first..=last).map(move |(&start, &end)| (start, end.min(last)));
        before.into_iter().chain(from)
    }

    /// Every run, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u128, u128)> {
        self.0.iter().map(|(&first, &last)| (first, last))
    }

    /// Number of members. The whole 128-bit space, which has one more than a `u128` counts, cannot be written as
    /// ranges: they leave out the unspecified address.
    pub(crate) fn count(&self) -> u128 {
        self.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether there is no member.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
