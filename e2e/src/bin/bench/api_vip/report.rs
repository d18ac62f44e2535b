//! `target/bench/api-vip.json` and the table on the terminal.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::statistics::{Sorted, add_counts, grouped, milliseconds};

use super::{fault::Fault, holder::Holder, scene::Sample};
use crate::results::Errors;

/// Results of the clients by one fault, in all rounds.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    system: &'static str,
    fault: &'static str,
    /// Nodes of the control plane.
    nodes: u8,
    rounds: usize,
    /// The longest time without an answer at the VIP: the middle, the shortest and the longest of the rounds.
    outage_ms: f64,
    outage_ms_min: f64,
    outage_ms_max: f64,
    /// Requests of all rounds, and those that had no good answer within a second.
    failed: u64,
    requests: u64,
    /// The longest time without an event of a watch, the middle of the rounds, and how often one had to be begun again in all rounds.
    watch_silence_ms: f64,
    watch_broken: u64,
    /// Number of errors in all rounds, by error.
    errors: BTreeMap<String, u64>,
}

/// The rows of these samples, in the order in which they first come.
pub(crate) fn rows(samples: &[Sample], nodes: u8) -> Vec<Row> {
    let groups = grouped(samples, |sample| (sample.holder, sample.fault));
    groups.into_iter().map(|(key, samples)| Row::new(key, &samples, nodes)).collect()
}

impl Row {
    fn new((holder, fault): (Holder, Fault), samples: &[&Sample], nodes: u8) -> Self {
        let outages: Sorted<Duration> = samples.iter().map(|sample| sample.requests.outage.longest).collect();
        let silences: Sorted<Duration> = samples.iter().map(|sample| sample.watch.silence.longest).collect();
        let mut errors = BTreeMap::new();
        for Sample { requests, watch, .. } in samples {
            add_counts(&mut errors, requests.errors.clone());
            add_counts(&mut errors, watch.errors.clone());
        }
        Self {
            system: holder.name(),
            fault: fault.name(),
            nodes,
            rounds: samples.len(),
            outage_ms: milliseconds(outages.median()),
            outage_ms_min: milliseconds(outages.least()),
            outage_ms_max: milliseconds(outages.most()),
            failed: samples.iter().map(|sample| sample.requests.failed).sum(),
            requests: samples.iter().map(|sample| sample.requests.requests).sum(),
            watch_silence_ms: milliseconds(silences.median()),
            watch_broken: samples.iter().map(|sample| sample.watch.broken).sum(),
            errors,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, fault, rounds, outage_ms, outage_ms_min, outage_ms_max, .. } = self;
        let Self { failed, requests, watch_silence_ms, watch_broken, .. } = self;
        write!(
            f,
            "{system:18} {fault:23} {rounds:6} {outage_ms_min:11.1} {outage_ms:9.1} {outage_ms_max:9.1} {failed:8} \
             {requests:8} {watch_silence_ms:8.1} {watch_broken:6}"
        )
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = Row::new((self.holder, self.fault), &[self], 0);
        write!(f, "{row}{}", Errors(&row.errors))
    }
}

#[cfg(test)]
mod tests {
    use windlass_e2e::{ApiOutcome, Silence, WatchOutcome};

    use super::*;

    fn sample(fault: Fault, outage: u64, failed: u64) -> Sample {
        let mut silence = Silence::default();
        silence.longest = Duration::from_millis(outage + 100);
        let mut requests = ApiOutcome::default();
        (requests.requests, requests.failed) = (100, failed);
        requests.outage.longest = Duration::from_millis(outage);
        requests.errors.insert("refused".into(), failed);
        let watch = WatchOutcome { silence, broken: 1, ..WatchOutcome::default() };
        Sample { holder: Holder::Windlass, fault, requests, watch }
    }

    #[test]
    fn rounds_are_one_row_with_the_middle_and_the_bounds_of_their_outages_and_the_sum_of_the_rest() {
        let samples = [
            sample(Fault::Cable, 300, 30),
            sample(Fault::Upgrade, 12, 0),
            sample(Fault::Cable, 100, 10),
            sample(Fault::Cable, 200, 20),
        ];
        let rows = rows(&samples, 3);
        let [cable, upgrade] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(
            (cable.system, cable.fault, cable.nodes, cable.rounds),
            ("windlass", "cable pulled", 3, 3)
        );
        assert_eq!((cable.outage_ms_min, cable.outage_ms, cable.outage_ms_max), (100.0, 200.0, 300.0));
        assert_eq!((cable.watch_silence_ms, upgrade.watch_silence_ms), (300.0, 112.0));
        assert_eq!((cable.requests, cable.failed, cable.watch_broken), (300, 60, 3));
        assert_eq!(cable.errors, [("refused".to_owned(), 60)].into());
        assert_eq!((upgrade.fault, upgrade.rounds, upgrade.failed), ("VIP upgraded on all", 1, 0));
    }
}
