//! Rows of `target/bench/bgp.json`, and the table on the terminal.

use std::{fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::{
    ApiOutcome, WatchOutcome,
    statistics::{Sorted, grouped, milliseconds},
};

use super::{Case, System};
use crate::results::Errors;

/// Results of the clients by one fault.
pub(crate) struct Sample {
    pub(crate) system: System,
    pub(crate) case: Case,
    pub(crate) requests: ApiOutcome,
    pub(crate) watch: WatchOutcome,
}

/// Results of the clients by one fault, in all rounds.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    system: &'static str,
    case: &'static str,
    /// Time from the start of the first request that failed to that of the last one: the middle and the longest of the rounds.
    median_ms: f64,
    max_ms: f64,
    /// Requests of all rounds, and those that had no good answer within a second.
    requests: u64,
    failed: u64,
    /// Watches that were open, and how often one had to be begun again.
    connections: usize,
    broken: u64,
}

/// The rows of these samples, in the order in which they first come.
pub(crate) fn rows(samples: &[Sample]) -> Vec<Row> {
    let groups = grouped(samples, |sample| (sample.system, sample.case));
    groups.into_iter().map(|(key, samples)| Row::new(key, &samples)).collect()
}

impl Row {
    fn new((system, case): (System, Case), samples: &[&Sample]) -> Self {
        let times: Sorted<Duration> = samples.iter().map(|sample| sample.requests.failing()).collect();
        Self {
            system: system.name(),
            case: case.name(),
            median_ms: milliseconds(times.median()),
            max_ms: milliseconds(times.most()),
            requests: samples.iter().map(|sample| sample.requests.requests).sum(),
            failed: samples.iter().map(|sample| sample.requests.failed).sum(),
            connections: samples.len(),
            broken: samples.iter().map(|sample| sample.watch.broken).sum(),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, case, median_ms, max_ms, requests, failed, connections, broken } = self;
        write!(
            f,
            "{system:9} {case:28} {median_ms:9.1} {max_ms:9.1} {requests:8} {failed:8} {connections:11} {broken:6}"
        )
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = Row::new((self.system, self.case), &[self]);
        write!(f, "{row}{}{}", Errors(&self.requests.errors), Errors(&self.watch.errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(case: Case, requests: u64, broken: u64) -> Sample {
        let mut outcome = ApiOutcome::default();
        (outcome.requests, outcome.failed) = (requests, 1);
        Sample {
            system: System::Frr,
            case,
            requests: outcome,
            watch: WatchOutcome { broken, ..WatchOutcome::default() },
        }
    }

    #[test]
    fn rounds_of_a_case_are_one_row_with_their_sums() {
        let rows = rows(&[sample(Case::Node, 100, 1), sample(Case::Rack, 10, 0), sample(Case::Node, 200, 0)]);
        let [node, rack] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((node.system, node.case), ("frr", "node dies, BFD 300 ms x 3"));
        assert_eq!((node.requests, node.failed, node.connections, node.broken), (300, 2, 2, 1));
        assert_eq!((rack.requests, rack.connections), (10, 1));
    }
}
