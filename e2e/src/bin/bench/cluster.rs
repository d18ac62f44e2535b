//! `make bench-cluster`: keepalived and Windlass side by side, in one lab and one run.
//!
//! Both hold an address of the same kind: a Service whose only backend is on a third node, so that kube-proxy and the data
//! path are the same. n1 and n2 elect, with the same priorities under both systems. A client sends a datagram every
//! millisecond; the cable of the Active node is pulled; the figure is the longest time between two answers.
//!
//! The moment of the pull within the advertisement interval decides as much as the system does (the owner is missed from its
//! last advert on), so each system gets the same five moments: 10, 30, 50, 70 and 90 % after an advert.

mod windlass;

use std::{fmt, net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use serde::Serialize;
use windlass_e2e::{
    Adverts, Lab, Protocol, SERVICE_PORT, await_that,
    statistics::{Sorted, milliseconds, rounded},
};

use crate::{
    pair,
    results::publish,
    system::{CLIENT, System, await_answer},
};

/// The moments of the pulls, in percent of the advertisement interval after an advert.
const MOMENTS: [u32; 5] = [10, 30, 50, 70, 90];
const INTERVALS_MS: [u32; 3] = [1000, 100, 10];
const LIMIT: Duration = Duration::from_mins(1);

/// Virtual router that is up: the address, the node that is to hold it, and the priorities of the two candidates.
#[derive(Clone)]
struct Contender {
    system: System,
    address: IpAddr,
    vrid: u8,
    /// Node of the higher priority.
    preferred: String,
    /// Its priority.
    preferred_priority: u8,
    /// Priority of the node that takes over.
    backup_priority: u8,
}

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let lab = Lab::builder().nodes(3).client(CLIENT).light().interactive();
    println!("bench: starting the lab");
    let rows = Lab::run("bench-cluster", lab, async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.backend("web", &["n3"]).await?;
        let adverts = lab.adverts(CLIENT)?;
        let mut rows = Vec::new();
        for interval_ms in INTERVALS_MS {
            let ours = windlass::start(lab, interval_ms).await?;
            let priority = |node: &str| {
                if node == ours.preferred { ours.preferred_priority } else { ours.backup_priority }
            };
            pair::start(lab, interval_ms, priority).await?;
            let theirs = Contender {
                system: System::Keepalived,
                address: pair::ADDRESS,
                vrid: pair::VRID,
                ..ours.clone()
            };
            let (mut our_gaps, mut their_gaps) = (Vec::new(), Vec::new());
            for moment in MOMENTS {
                their_gaps.push(pull(lab, &adverts, &theirs, interval_ms, moment).await?);
                our_gaps.push(pull(lab, &adverts, &ours, interval_ms, moment).await?);
            }
            for (contender, gaps) in [(&theirs, their_gaps), (&ours, our_gaps)] {
                let row = Row::new(contender, interval_ms, gaps);
                println!("bench: {row}");
                rows.push(row);
            }
            pair::stop(lab).await?;
            windlass::stop(lab, interval_ms).await?;
        }
        Ok(rows)
    })?;
    publish("cluster", "Time without an answer, five cable pulls each:", &rows)
}

/// Pulls the cable of the preferred node `moment` percent of an interval after one of its adverts, and returns the longest
/// time without an answer. Everything is as before when it returns.
async fn pull(
    lab: &Lab,
    adverts: &Adverts,
    contender: &Contender,
    interval_ms: u32,
    moment: u32,
) -> anyhow::Result<Duration> {
    let system = contender.system.name();
    let Contender { address, vrid, preferred, .. } = contender;
    let interval = Duration::from_millis(interval_ms.into());
    let patience = interval * 20 + Duration::from_secs(5);
    let active: IpAddr = lab.node(preferred)?.address().into();
    await_that(&format!("{preferred} is Active for {system}'s VRID {vrid}"), LIMIT, async || {
        for _ in 0..5 {
            let sender = adverts.next_of(*vrid, patience)?;
            ensure!(sender == active, "{sender} sends adverts");
        }
        Ok(Some(()))
    })
    .await?;
    await_answer(lab, *address).await.context(system)?;

    let probe = lab.probe(CLIENT, Protocol::Udp, *address, SERVICE_PORT, Duration::from_millis(1))?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let hand = lab.node(preferred)?.take_cable()?;
    adverts.next_of(*vrid, patience)?;
    std::thread::sleep(interval * moment / 100);
    hand.pull()?;
    let successor = adverts.next_of(*vrid, patience).context("nobody took over")?;
    ensure!(successor != active, "{preferred} is heard although its cable is pulled");
    // The address answers again before the gap is over for good: a second later it has been measured.
    tokio::time::sleep(interval + Duration::from_secs(1)).await;
    let outcome = probe.stop()?;
    ensure!(outcome.last_server.is_some(), "{system} was never answered");
    ensure!(
        outcome.gap_began + outcome.longest_gap < outcome.length,
        "{system} did not recover: {outcome:?}"
    );
    lab.node(preferred)?.plug_cable()?;
    Ok(outcome.longest_gap)
}

/// Pulls with one system at one interval.
#[derive(Debug, Serialize)]
struct Row {
    system: &'static str,
    interval_ms: u32,
    fault: &'static str,
    min_ms: f64,
    median_ms: f64,
    max_ms: f64,
    /// Bound by the protocol: three intervals and the skew time of the Backup (RFC 9568 §6.1).
    bound_ms: f64,
}

impl Row {
    /// Row of the longest times without an answer.
    fn new(contender: &Contender, interval_ms: u32, gaps: Vec<Duration>) -> Self {
        let gaps: Sorted<Duration> = gaps.into_iter().collect();
        let interval = f64::from(interval_ms);
        let skew = interval * (256.0 - f64::from(contender.backup_priority)) / 256.0;
        Self {
            system: contender.system.name(),
            interval_ms,
            fault: "cable pull",
            min_ms: milliseconds(gaps.least()),
            median_ms: milliseconds(gaps.median()),
            max_ms: milliseconds(gaps.most()),
            bound_ms: rounded(3.0 * interval + skew, 10.0),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:10} adverts every {:4} ms: min {:7.1}, median {:7.1}, max {:7.1} ms (bound {:.1})",
            self.system, self.interval_ms, self.min_ms, self.median_ms, self.max_ms, self.bound_ms
        )
    }
}
