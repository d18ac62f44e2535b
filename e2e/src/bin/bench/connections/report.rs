//! `target/bench/connections.json` and the table on the terminal.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::{
    KeptConnection,
    statistics::{Sorted, add_counts, grouped, milliseconds},
};

use super::{
    fault::{Backend, Fault},
    place::Family,
    setup::Setup,
};
use crate::results::Errors;

/// Results of the clients of one backend, by one fault.
pub(crate) struct Sample {
    pub(crate) setup: Setup,
    pub(crate) fault: Fault,
    pub(crate) backend: Backend,
    pub(crate) connections: Vec<KeptConnection>,
    /// The longest time in which no new connection to the address was answered.
    pub(crate) outage: Duration,
}

/// Results of all rounds.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    system: &'static str,
    fault: &'static str,
    backend: &'static str,
    family: Family,
    kube_proxy: &'static str,
    rounds: usize,
    /// Connections before the fault, and those that were answered after it without being opened again.
    connections: usize,
    kept: usize,
    /// The longest time from a request to its answer, of each busy connection that was kept; none if none was.
    stall_ms_median: Option<f64>,
    stall_ms_max: Option<f64>,
    /// The same of the idle ones that were kept, which ask once the address has moved: the longest.
    idle_stall_ms_max: Option<f64>,
    /// Time without an answer to a new connection: the middle and the longest of the rounds.
    outage_ms_median: f64,
    outage_ms_max: f64,
    /// Number of errors that ended a connection, by error.
    errors: BTreeMap<String, u64>,
}

/// The rows of these samples, in the order in which they first come.
pub(crate) fn rows(samples: &[Sample], family: Family, kube_proxy: &'static str) -> Vec<Row> {
    let groups = grouped(samples, |sample| (sample.setup, sample.fault, sample.backend));
    groups.into_iter().filter_map(|(_, samples)| Row::new(&samples, family, kube_proxy)).collect()
}

impl Row {
    /// Row of all rounds of one fault.
    fn new(samples: &[&Sample], family: Family, kube_proxy: &'static str) -> Option<Self> {
        let Sample { setup, fault, backend, .. } = *samples.first()?;
        let connections = || samples.iter().flat_map(|sample| &sample.connections);
        let mut errors = BTreeMap::new();
        let failed = connections().filter_map(|one| one.stall.as_ref().err());
        add_counts(&mut errors, failed.map(|error| (error.clone(), 1)));
        let [busy, idle] = [true, false].map(|wanted| {
            let stalls = connections().filter(|one| one.busy == wanted);
            stalls.filter_map(|one| one.stall.as_ref().ok()).copied().collect::<Sorted<Duration>>()
        });
        let outages: Sorted<Duration> = samples.iter().map(|sample| sample.outage).collect();
        Some(Self {
            system: setup.name(),
            fault: fault.name(),
            backend: backend.name(),
            family,
            kube_proxy,
            rounds: samples.len(),
            connections: connections().count(),
            kept: busy.count() + idle.count(),
            stall_ms_median: busy.median().map(milliseconds),
            stall_ms_max: busy.most().map(milliseconds),
            idle_stall_ms_max: idle.most().map(milliseconds),
            outage_ms_median: milliseconds(outages.median()),
            outage_ms_max: milliseconds(outages.most()),
            errors,
        })
    }
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
            Some(row) => write!(f, "{row}{}", Errors(&row.errors)),
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
        Sample { setup: Setup::Windlass, fault: Fault::Cable, backend, connections, outage }
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
        assert_eq!((third.family, third.kube_proxy), (Family::V6, "nftables"));
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
