//! `target/bench/distribution.json` and the table on the terminal.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::statistics::{Sorted, add_counts, float, milliseconds, rounded};

use super::{fault::Sample, scene::System};
use crate::{results::Errors, scale::usage::Usage};

/// Row of one case.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Row {
    Download(DownloadRow),
    Fault(FaultRow),
    Spread(SpreadRow),
    Services(ServicesRow),
}

/// Downloads with pods on a number of nodes.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct DownloadRow {
    system: &'static str,
    case: &'static str,
    nodes: usize,
    rounds: usize,
    /// All downloads together, without headers: the middle of the rounds.
    mbit_s: f64,
}

/// All rounds of one fault.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct FaultRow {
    system: &'static str,
    case: &'static str,
    rounds: usize,
    /// Connections before the fault, those of pods that live, and those that were answered to the end without being opened again.
    connections: usize,
    expected: usize,
    kept: usize,
    /// The longest time from a request to its answer on a connection that was kept.
    outage_ms: Option<f64>,
    /// The longest time without an answer to a new connection: if a node dies, of those to its lots. None if it has no lots.
    new_outage_ms: Option<f64>,
    /// Number of errors that ended a connection, by error.
    errors: BTreeMap<String, u64>,
}

/// Connections of each pod.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct SpreadRow {
    case: &'static str,
    pods: usize,
    connections: usize,
    share_max_over_mean: f64,
}

/// Many Services that are shared: what it takes until they are.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ServicesRow {
    system: &'static str,
    case: &'static str,
    services: usize,
    virtual_routers: usize,
    seconds: f64,
    controller_cpu_s: f64,
    /// All three together.
    agents_cpu_s: f64,
    agent_peak_mb: f64,
}

impl ServicesRow {
    /// Row of so many Services with so many virtual routers.
    pub(crate) fn new(
        case: &'static str,
        [services, virtual_routers]: [usize; 2],
        time: Duration,
        usage: [&Usage; 2],
    ) -> Self {
        let [before, after] = usage;
        let cpu = after.since(before);
        Self {
            system: System::Windlass.name(),
            case,
            services,
            virtual_routers,
            seconds: rounded(time.as_secs_f64(), 100.0),
            controller_cpu_s: cpu.controller,
            agents_cpu_s: cpu.agents,
            agent_peak_mb: rounded(after.agent_peak_mb, 10.0),
        }
    }
}

impl Row {
    /// Row of these rates in bits a second.
    pub(crate) fn download(system: System, nodes: usize, rates: &Sorted<u64>) -> Self {
        let mbit_s = rounded(float(rates.median().unwrap_or_default()) / 1e6, 10.0);
        Self::Download(DownloadRow {
            system: system.name(),
            case: "download",
            nodes,
            rounds: rates.count(),
            mbit_s,
        })
    }

    /// Row of the number of connections of each pod.
    pub(crate) fn spread(counts: &[usize]) -> Self {
        let connections: usize = counts.iter().sum();
        let most = counts.iter().max().copied().unwrap_or(0);
        let mean = float(connections as u64) / float(counts.len() as u64);
        let share_max_over_mean = rounded(float(most as u64) / mean, 1000.0);
        Self::Spread(SpreadRow { case: "spread", pods: counts.len(), connections, share_max_over_mean })
    }
}

impl FaultRow {
    /// Row of these rounds.
    pub(crate) fn new(system: System, case: &'static str, samples: &[&Sample]) -> Self {
        let connections = || samples.iter().flat_map(|sample| &sample.connections);
        let stalls: Sorted<Duration> =
            connections().filter_map(|one| one.stall.as_ref().ok()).copied().collect();
        let mut errors = BTreeMap::new();
        let ended = connections().filter_map(|one| one.stall.as_ref().err());
        add_counts(&mut errors, ended.map(|error| (error.clone(), 1)));
        Self {
            system: system.name(),
            case,
            rounds: samples.len(),
            connections: connections().count(),
            expected: samples.iter().map(|sample| sample.expected).sum(),
            kept: stalls.count(),
            outage_ms: stalls.most().map(milliseconds),
            new_outage_ms: samples.iter().filter_map(|sample| sample.outage).max().map(milliseconds),
            errors,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Download(DownloadRow { system, case, nodes, mbit_s, .. }) => {
                write!(f, "{system:10} {case:9} {nodes} nodes: {mbit_s:.1} Mbit/s")
            }
            Self::Fault(row) => row.fmt(f),
            Self::Services(ServicesRow {
                system,
                case,
                services,
                virtual_routers,
                seconds,
                controller_cpu_s,
                agents_cpu_s,
                agent_peak_mb,
            }) => write!(
                f,
                "{system:10} {case:9} {services} Services in {virtual_routers} virtual routers, {seconds:.1} s; processor: \
                 controller {controller_cpu_s} s, agents {agents_cpu_s} s; agent {agent_peak_mb} MB"
            ),
            Self::Spread(SpreadRow { case, pods, connections, share_max_over_mean }) => write!(
                f,
                "windlass   {case:9} {connections} connections, {pods} pods: {share_max_over_mean:.3} times the mean at most"
            ),
        }
    }
}

impl fmt::Display for FaultRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { system, case, connections, expected, kept, errors, .. } = self;
        let [outage, new] = [self.outage_ms, self.new_outage_ms]
            .map(|ms| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms")));
        write!(
            f,
            "{system:10} {case:9} {kept} of {expected} kept ({connections} in all); outage {outage}, of new connections {new}{}",
            Errors(errors)
        )
    }
}

#[cfg(test)]
mod tests {
    use windlass_e2e::KeptConnection;

    use super::*;

    fn sample(stalls: &[u64], reset: usize, expected: usize, outage: Option<u64>) -> Sample {
        let kept = stalls.iter().map(|ms| Ok(Duration::from_millis(*ms)));
        let ended = std::iter::repeat_n(Err("reset".to_owned()), reset);
        let connections = kept.chain(ended).map(|stall| KeptConnection { busy: true, stall }).collect();
        Sample { connections, expected, outage: outage.map(Duration::from_millis) }
    }

    #[test]
    fn the_row_of_a_fault_has_the_sums_and_the_longest_outages_of_its_rounds() {
        let rounds = [sample(&[300, 10], 1, 2, Some(350)), sample(&[20], 2, 1, Some(20))];
        let row = FaultRow::new(System::Windlass, "server", &rounds.iter().collect::<Vec<_>>());
        assert_eq!((row.rounds, row.connections, row.expected, row.kept), (2, 6, 3, 3));
        assert_eq!((row.outage_ms, row.new_outage_ms), (Some(300.0), Some(350.0)));
        assert_eq!(row.errors, BTreeMap::from([("reset".to_owned(), 3)]));
        assert!(row.to_string().ends_with("of new connections 350.0 ms; 3 times: reset"), "{row}");
    }

    #[test]
    fn a_fault_that_no_connection_outlives_has_no_outage() {
        let row = FaultRow::new(System::None, "director", &[&sample(&[], 2, 0, None)]);
        assert_eq!((row.kept, row.outage_ms, row.new_outage_ms), (0, None, None));
        assert!(row.to_string().contains("outage -, of new connections -"), "{row}");
    }

    #[test]
    fn downloads_are_the_middle_of_their_rounds_and_the_spread_is_the_largest_share() {
        let rates = [95_512_345, 93_000_000, 12_000_000].into_iter().collect();
        let row = serde_json::to_value(Row::download(System::None, 3, &rates)).unwrap();
        assert_eq!(
            (&row["mbit_s"], &row["nodes"], &row["case"]),
            (&93.0.into(), &3.into(), &"download".into())
        );
        let row = serde_json::to_value(Row::spread(&[40, 30, 20])).unwrap();
        assert_eq!((&row["share_max_over_mean"], &row["pods"]), (&1.333.into(), &3.into()));
    }
}
