//! `target/bench/connections.json` and the table on the terminal.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::{KeptConnection, write_rows};

use crate::connections::{
    fault::{Backend, Family, Fault},
    system::System,
};

/// What clients saw of one fault, by the connections to one backend.
pub(crate) struct Sample {
    pub(crate) system: System,
    pub(crate) fault: Fault,
    pub(crate) backend: Backend,
    pub(crate) connections: Vec<KeptConnection>,
    /// The longest time in which no new connection to the address was answered.
    pub(crate) outage: Duration,
}

/// The same of all rounds.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    system: &'static str,
    fault: &'static str,
    backend: &'static str,
    family: &'static str,
    kube_proxy: &'static str,
    rounds: usize,
    /// Those that were there before the fault, and those that were answered after it without being opened again.
    connections: usize,
    kept: usize,
    /// The longest time from a request to its answer, of each busy connection that was kept; none if none was.
    stall_ms_median: Option<f64>,
    stall_ms_max: Option<f64>,
    /// Of the idle ones that were kept, which ask once the address has moved: the longest.
    idle_stall_ms_max: Option<f64>,
    /// How long no new connection was answered: the middle and the longest of the rounds.
    outage_ms_median: f64,
    outage_ms_max: f64,
    /// How often each thing ended a connection.
    errors: BTreeMap<String, usize>,
}

/// The rows of these samples, in the order in which they first come.
pub(crate) fn rows(samples: &[Sample], family: Family, kube_proxy: &'static str) -> Vec<Row> {
    let key = |sample: &Sample| (sample.system, sample.fault, sample.backend);
    let mut keys = Vec::new();
    for sample in samples {
        if !keys.contains(&key(sample)) {
            keys.push(key(sample));
        }
    }
    let of = |wanted| samples.iter().filter(move |sample| key(sample) == wanted).collect::<Vec<_>>();
    keys.into_iter().filter_map(|wanted| Row::new(&of(wanted), family, kube_proxy)).collect()
}

impl Row {
    /// Of all rounds of one fault.
    fn new(samples: &[&Sample], family: Family, kube_proxy: &'static str) -> Option<Self> {
        let Sample { system, fault, backend, .. } = *samples.first()?;
        let connections = || samples.iter().flat_map(|sample| &sample.connections);
        let mut errors = BTreeMap::new();
        for error in connections().filter_map(|one| one.stall.as_ref().err()) {
            *errors.entry(error.clone()).or_default() += 1;
        }
        let [busy, idle] = [true, false].map(|wanted| {
            let stalls = connections().filter(|one| one.busy == wanted);
            sorted(stalls.filter_map(|one| one.stall.as_ref().ok()).copied())
        });
        let outages = sorted(samples.iter().map(|sample| sample.outage));
        Some(Self {
            system: system.name(),
            fault: fault.name(),
            backend: backend.name(),
            family: family.key(),
            kube_proxy,
            rounds: samples.len(),
            connections: connections().count(),
            kept: busy.len() + idle.len(),
            stall_ms_median: median(&busy).map(milliseconds),
            stall_ms_max: busy.last().copied().map(milliseconds),
            idle_stall_ms_max: idle.last().copied().map(milliseconds),
            outage_ms_median: median(&outages).map_or(0.0, milliseconds),
            outage_ms_max: outages.last().copied().map_or(0.0, milliseconds),
            errors,
        })
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

/// In tenths.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

/// Writes the rows and says where.
pub(crate) fn write(rows: &[Row]) -> anyhow::Result<()> {
    let file = write_rows("connections", &rows)?;
    let [system, fault, backend] = ["system", "fault", "backend"];
    println!("\n  {system:35} {fault:12} {backend:12} connections  kept    median       max    outage");
    for row in rows {
        println!("  {row}");
    }
    println!("{}", file.display());
    Ok(())
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, fault, backend, connections, kept, outage_ms_median: outage, .. } = self;
        let [median, max] = [self.stall_ms_median, self.stall_ms_max].map(stall);
        write!(
            f,
            "{system:35} {fault:12} {backend:12} {connections:11} {kept:5} {median:>9} {max:>9} {outage:9.1}"
        )
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Row::new(&[self], Family::V4, "") {
            Some(row) => {
                row.fmt(f)?;
                row.errors.iter().try_for_each(|(error, count)| write!(f, "; {count} times: {error}"))
            }
            None => Ok(()),
        }
    }
}

fn stall(milliseconds: Option<f64>) -> String {
    milliseconds.map_or_else(|| "-".to_owned(), |milliseconds| format!("{milliseconds:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Busy and idle connections that waited so many milliseconds, and some that were reset.
    fn sample(backend: Backend, busy: &[u64], idle: &[u64], reset: usize, outage: u64) -> Sample {
        let kept = |stalls: &[u64], busy| {
            let one = |ms: &u64| KeptConnection { busy, stall: Ok(Duration::from_millis(*ms)) };
            stalls.iter().map(one).collect::<Vec<_>>()
        };
        let mut connections = [kept(busy, true), kept(idle, false)].concat();
        connections.extend(vec![KeptConnection { busy: true, stall: Err("reset".into()) }; reset]);
        let outage = Duration::from_millis(outage);
        Sample { system: System::Windlass, fault: Fault::Cable, backend, connections, outage }
    }

    #[test]
    fn rounds_are_one_row_whose_stalls_are_those_of_busy_connections_that_were_kept() {
        let samples = [
            sample(Backend::ThirdNode, &[300, 100], &[2], 1, 250),
            sample(Backend::DeadNode, &[], &[], 2, 250),
            sample(Backend::ThirdNode, &[600, 200], &[7], 0, 280),
        ];
        let rows = rows(&samples, Family::V6, "nftables");
        let [third, dead] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!((third.backend, third.rounds, third.connections, third.kept), ("third node", 2, 7, 6));
        assert_eq!((third.stall_ms_median, third.stall_ms_max), (Some(200.0), Some(600.0)));
        assert_eq!(third.idle_stall_ms_max, Some(7.0));
        assert_eq!((third.outage_ms_median, third.outage_ms_max), (250.0, 280.0));
        assert_eq!(third.errors, BTreeMap::from([("reset".to_owned(), 1)]));
        assert_eq!((third.family, third.kube_proxy), ("v6", "nftables"));
        assert_eq!((dead.backend, dead.connections, dead.kept), ("dead node", 2, 0));
        assert_eq!((dead.stall_ms_median, dead.stall_ms_max, dead.idle_stall_ms_max), (None, None, None));
    }

    #[test]
    fn the_row_of_the_table_has_a_dash_where_nothing_was_kept() {
        let row = sample(Backend::DeadNode, &[], &[], 2, 250).to_string();
        assert!(
            row.contains("dead node") && row.contains(" - ") && row.ends_with("; 2 times: reset"),
            "{row}"
        );
    }
}
