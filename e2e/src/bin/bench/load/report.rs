//! `target/bench/load.json` and the table on the terminal.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use windlass_e2e::{
    Latencies, Tally,
    statistics::{grouped, milliseconds},
};

use super::phases::Phase;

/// Results of the clients in all phases of one kind.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    system: &'static str,
    phase: &'static str,
    /// Questions, and those without an answer.
    requests: u64,
    failed: u64,
    /// Kept connections that were dead when their client asked; it opened another one and asked again.
    broken: u64,
    /// Percentiles of the times that answers took.
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// The longest of each phase of this kind, in order of the nodes.
    max_ms_of_each: Vec<f64>,
    /// Number of errors, by error.
    errors: BTreeMap<String, u64>,
}

/// One row for each kind of phase, in the order in which they first come.
pub(crate) fn pooled(system: &'static str, seen: impl IntoIterator<Item = (Phase, Tally)>) -> Vec<Row> {
    let seen = seen.into_iter().map(|(phase, tally)| (phase.name(), tally));
    let kinds = grouped(seen, |(phase, _)| *phase);
    let tallies = |seen: Vec<(_, Tally)>| seen.into_iter().map(|(_, tally)| tally).collect();
    kinds.into_iter().map(|(phase, seen)| Row::new(system, phase, tallies(seen))).collect()
}

impl Row {
    fn new(system: &'static str, phase: &'static str, tallies: Vec<Tally>) -> Self {
        let max_ms_of_each = tallies.iter().map(|tally| milliseconds(tally.latencies().max)).collect();
        let mut pool = Tally::default();
        for tally in tallies {
            pool.merge(tally);
        }
        let Latencies { p50, p99, max } = pool.latencies();
        Self {
            system,
            phase,
            requests: pool.requests(),
            failed: pool.failed,
            broken: pool.broken,
            p50_ms: milliseconds(p50),
            p99_ms: milliseconds(p99),
            max_ms: milliseconds(max),
            max_ms_of_each,
            errors: pool.errors,
        }
    }

    /// Errors of the clients, with their numbers.
    pub(crate) fn errors(&self) -> &BTreeMap<String, u64> {
        &self.errors
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, phase, requests, failed, broken, p50_ms, p99_ms, max_ms, .. } = self;
        write!(
            f,
            "{system:10} {phase:12} {requests:8} {failed:6} {broken:6} {p50_ms:7.1} {p99_ms:8.1} {max_ms:8.1}"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::phases::Fault;

    fn tally(milliseconds: &[u64], failed: u64) -> Tally {
        let answered = milliseconds.iter().map(|ms| Duration::from_millis(*ms)).collect();
        Tally { answered, failed, ..Tally::default() }
    }

    #[test]
    fn phases_of_one_kind_are_one_row_with_the_longest_time_of_each() {
        let seen = [
            (Phase::Steady, tally(&[1, 2], 0)),
            (Phase::Down(Fault::Drain, "n1"), tally(&[1, 5], 1)),
            (Phase::Back(Fault::Drain, "n1"), tally(&[3], 0)),
            (Phase::Down(Fault::Drain, "n2"), tally(&[4, 2], 2)),
        ];
        let rows = pooled("x", seen);
        let seen: Vec<_> = rows.iter().map(|row| (row.phase, row.requests, row.failed)).collect();
        assert_eq!(seen, [("steady", 2, 0), ("drain", 7, 3), ("drain ended", 1, 0)]);
        assert_eq!(rows[1].max_ms_of_each, [5.0, 4.0]);
        assert_eq!((rows[1].p50_ms, rows[1].max_ms), (2.0, 5.0));
    }
}
