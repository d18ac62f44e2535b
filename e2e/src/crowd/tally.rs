//! Results of clients in one phase.

use std::{collections::BTreeMap, time::Duration};

use crate::statistics::{Sorted, add_counts};

/// Results of the questions that clients asked in one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Time from each question to its answer; where a kept connection was dead, opening another one is part of it.
    pub answered: Vec<Duration>,
    /// Questions without an answer: refused or reset on a new connection, or none for five seconds.
    pub failed: u64,
    /// Kept connections that were dead when their client asked, or that it gave up after five seconds.
    pub broken: u64,
    /// Number of errors, by error.
    pub errors: BTreeMap<String, u64>,
}

/// Percentiles of the times that answers took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Half of the answers took no longer.
    pub p50: Duration,
    /// 99 of 100 took no longer.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
}

impl Tally {
    /// One question: how long its answer took, or why there was none; whether it cost a kept connection.
    pub(super) fn note(&mut self, took: Result<Duration, String>, broken: bool) {
        match took {
            Ok(took) => self.answered.push(took),
            Err(why) => {
                self.failed += 1;
                *self.errors.entry(why).or_default() += 1;
            }
        }
        self.broken += u64::from(broken);
    }

    /// Takes in what was seen in another phase.
    pub fn merge(&mut self, other: Self) {
        self.answered.extend(other.answered);
        self.failed += other.failed;
        self.broken += other.broken;
        add_counts(&mut self.errors, other.errors);
    }

    /// Questions, with and without an answer.
    pub fn requests(&self) -> u64 {
        self.answered.len() as u64 + self.failed
    }

    /// Returns the latencies of the answers; all 0 if there are none.
    pub fn latencies(&self) -> Latencies {
        let sorted: Sorted<Duration> = self.answered.iter().copied().collect();
        let at = |percent| sorted.percentile(percent).unwrap_or_default();
        Latencies { p50: at(50), p99: at(99), max: at(100) }
    }
}

#[cfg(test)]
mod tests;
