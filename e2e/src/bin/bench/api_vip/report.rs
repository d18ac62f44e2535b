//! `target/bench/api-vip.json` and the table on the terminal.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::write_rows;

use crate::api_vip::{fault::Fault, scene::Sample, system::System};

/// What clients saw of one fault, in all rounds.
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
    /// How often each thing went wrong, in all rounds.
    errors: BTreeMap<String, u64>,
}

/// The rows of these samples, in the order in which they first come.
pub(crate) fn rows(samples: &[Sample], nodes: u8) -> Vec<Row> {
    let mut keys: Vec<(System, Fault)> = Vec::new();
    for sample in samples {
        if !keys.contains(&(sample.system, sample.fault)) {
            keys.push((sample.system, sample.fault));
        }
    }
    let of = |key: (System, Fault)| samples.iter().filter(move |one| (one.system, one.fault) == key);
    keys.into_iter().map(|key| Row::new(key, &of(key).collect::<Vec<_>>(), nodes)).collect()
}

impl Row {
    fn new((system, fault): (System, Fault), samples: &[&Sample], nodes: u8) -> Self {
        let outages = sorted(samples.iter().map(|sample| sample.requests.outage.longest));
        let silences = sorted(samples.iter().map(|sample| sample.watch.silence.longest));
        let mut errors = BTreeMap::new();
        let all = samples.iter().flat_map(|sample| sample.requests.errors.iter().chain(&sample.watch.errors));
        for (error, count) in all {
            *errors.entry(error.clone()).or_default() += count;
        }
        Self {
            system: system.name(),
            fault: fault.name(),
            nodes,
            rounds: samples.len(),
            outage_ms: milliseconds(median(&outages)),
            outage_ms_min: milliseconds(outages.first().copied()),
            outage_ms_max: milliseconds(outages.last().copied()),
            failed: samples.iter().map(|sample| sample.requests.failed).sum(),
            requests: samples.iter().map(|sample| sample.requests.requests).sum(),
            watch_silence_ms: milliseconds(median(&silences)),
            watch_broken: samples.iter().map(|sample| sample.watch.broken).sum(),
            errors,
        }
    }
}

fn sorted(durations: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut sorted: Vec<Duration> = durations.collect();
    sorted.sort_unstable();
    sorted
}

/// The middle one, the lower of two.
fn median(sorted: &[Duration]) -> Option<Duration> {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// In tenths; 0 of none.
fn milliseconds(duration: Option<Duration>) -> f64 {
    (duration.unwrap_or_default().as_secs_f64() * 10_000.0).round() / 10.0
}

/// Writes the rows and says where.
pub(crate) fn write(rows: &[Row]) -> anyhow::Result<()> {
    let file = write_rows("api-vip", &rows)?;
    let [system, fault] = ["system", "fault"];
    println!(
        "\n  {system:18} {fault:23} rounds outage: min    median       max   failed requests    watch broken"
    );
    for row in rows {
        println!("  {row}");
    }
    println!("{}", file.display());
    Ok(())
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
        let row = Row::new((self.system, self.fault), &[self], 0);
        row.fmt(f)?;
        row.errors.iter().try_for_each(|(error, count)| write!(f, "; {count} times: {error}"))
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
        Sample { system: System::Windlass, fault, requests, watch }
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
