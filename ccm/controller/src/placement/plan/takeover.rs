//! Takeovers when nodes die: they decide the places of a new ranking.

use std::collections::HashMap;

/// The rankings of virtual routers: the names of their nodes, the preferred one first.
pub(super) struct Rankings<'a>(Vec<Vec<&'a str>>);

impl<'a> Rankings<'a> {
    pub(super) fn new(rankings: impl Iterator<Item = Vec<&'a str>>) -> Self {
        Self(rankings.collect())
    }

    /// Returns the number of rankings in which each node has that place.
    pub(super) fn at(&self, place: usize) -> HashMap<&'a str, usize> {
        counts(self.0.iter().filter_map(|ranking| ranking.get(place).copied()))
    }

    /// Returns the number of routers that each node takes over when these die.
    pub(super) fn taken_over(&self, dead: &[&str]) -> HashMap<&'a str, usize> {
        let orphans =
            self.0.iter().filter(|ranking| ranking.first().is_some_and(|first| dead.contains(first)));
        counts(orphans.filter_map(|ranking| ranking.iter().find(|node| !dead.contains(node)).copied()))
    }

    /// Returns the unevenness of takeovers when `one` dies and another with it: for each node, the square of the number that it takes
    /// over, summed over all of `others`.
    pub(super) fn taken_over_of_two<'b>(
        &self,
        one: &str,
        others: impl Iterator<Item = &'b str>,
    ) -> HashMap<&'a str, usize> {
        let mut sums = HashMap::new();
        for other in others.filter(|other| *other != one) {
            for (node, count) in self.taken_over(&[one, other]) {
                *sums.entry(node).or_default() += count * count;
            }
        }
        sums
    }
}

fn counts<'a>(nodes: impl Iterator<Item = &'a str>) -> HashMap<&'a str, usize> {
    let mut counts = HashMap::new();
    for node in nodes {
        *counts.entry(node).or_default() += 1;
    }
    counts
}
