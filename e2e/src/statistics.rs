//! Figures of measurements: values in order and their percentiles, sums of counts, shares, and numbers rounded for reports.

use std::{collections::BTreeMap, time::Duration};

/// Measured values in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sorted<T>(Vec<T>);

impl<T: Ord> FromIterator<T> for Sorted<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values: Vec<T> = values.into_iter().collect();
        values.sort_unstable();
        Self(values)
    }
}

impl<T: Copy> Sorted<T> {
    /// Number of values.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the smallest value that at least `percent` of a hundred do not exceed (nearest rank); `None` without values.
    pub fn percentile(&self, percent: usize) -> Option<T> {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied()
    }

    /// Returns the least value.
    pub fn least(&self) -> Option<T> {
        self.percentile(0)
    }

    /// Returns the value in the middle, the lower one of two.
    pub fn median(&self) -> Option<T> {
        self.percentile(50)
    }

    /// Returns the greatest value.
    pub fn most(&self) -> Option<T> {
        self.percentile(100)
    }
}

/// Milliseconds, in tenths; 0 without a duration.
pub fn milliseconds(duration: impl Into<Option<Duration>>) -> f64 {
    rounded(duration.into().unwrap_or_default().as_secs_f64() * 1000.0, 10.0)
}

/// Whole milliseconds, rounded down; 0 without a duration.
pub fn whole_milliseconds(duration: impl Into<Option<Duration>>) -> u64 {
    u64::try_from(duration.into().unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Returns `value` rounded to whole parts, of which there are `parts` in 1.
pub fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

/// Returns a counter as a number with fractions: counters are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "a counter")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// Adds numbers of events, as of errors, by name.
pub fn add_counts(sums: &mut BTreeMap<String, u64>, counts: impl IntoIterator<Item = (String, u64)>) {
    for (name, count) in counts {
        *sums.entry(name).or_default() += count;
    }
}

/// Number of items of each owner: of the one with the most and of the one with the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Items of the owner with the most.
    pub most: usize,
    /// Items of the owner with the least.
    pub least: usize,
}

/// Counts the items of each owner, given the owner of each item. One of `all` that owns none has a share of 0.
pub fn shares<'a>(
    owners: impl IntoIterator<Item = &'a String>,
    all: impl IntoIterator<Item = &'a str>,
) -> Shares {
    let mut counts: BTreeMap<&str, usize> = all.into_iter().map(|owner| (owner, 0)).collect();
    for owner in owners {
        *counts.entry(owner).or_default() += 1;
    }
    let sorted: Sorted<usize> = counts.into_values().collect();
    Shares { most: sorted.most().unwrap_or(0), least: sorted.least().unwrap_or(0) }
}

/// Groups items by a key, in the order in which the keys first come.
pub fn grouped<T, K: PartialEq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(&item);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
