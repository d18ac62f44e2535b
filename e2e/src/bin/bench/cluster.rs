//! `make bench-cluster`: keepalived and Windlass side by side, in one lab and one run.
//!
//! Both hold an address of the same kind: a Service whose only backend is on a third node, so that kube-proxy and the data
//! path are the same. n1 and n2 elect, with the same priorities under both systems. A client sends a datagram every
//! millisecond; the cable of the Active node is pulled; the figure is the longest time between two answers.
//!
//! When the cable is pulled within the advertisement interval decides as much as the system does (the owner is missed from
//! its last advert on), so each system gets the same five moments: 10, 30, 50, 70 and 90 % after an advert.

mod keepalived;
mod report;
mod windlass;

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Adverts, Lab, Protocol, SERVICE_PORT, await_that};

use self::report::Row;

/// The moments of the pulls, in percent of the advertisement interval after an advert.
const MOMENTS: [u32; 5] = [10, 30, 50, 70, 90];
const INTERVALS_MS: [u32; 3] = [1000, 100, 10];
const LIMIT: Duration = Duration::from_mins(1);

/// A virtual router that is up: the address, who should hold it, and the priorities of the two candidates.
struct Contender {
    system: &'static str,
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
    let lab = Lab::builder().nodes(3).client("c1").light().interactive();
    println!("bench: starting the lab");
    let rows = Lab::run("bench-cluster", lab, async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.backend("web", &["n3"]).await?;
        let adverts = lab.adverts("c1")?;
        let mut rows = Vec::new();
        for interval_ms in INTERVALS_MS {
            let ours = windlass::start(lab, interval_ms).await?;
            let theirs = keepalived::start(lab, interval_ms, &ours).await?;
            let (mut our_gaps, mut their_gaps) = (Vec::new(), Vec::new());
            for moment in MOMENTS {
                their_gaps.push(pull(lab, &adverts, &theirs, interval_ms, moment).await?);
                our_gaps.push(pull(lab, &adverts, &ours, interval_ms, moment).await?);
            }
            for (contender, gaps) in [(&theirs, their_gaps), (&ours, our_gaps)] {
                let row = Row::new(contender.system, interval_ms, contender.backup_priority, gaps);
                println!("bench: {row}");
                rows.push(row);
            }
            keepalived::stop(lab).await?;
            windlass::stop(lab, interval_ms).await?;
        }
        Ok(rows)
    })?;
    report::write(&rows)
}

/// Pulls the cable of the preferred node `moment` percent of an interval after one of its adverts, and returns the longest
/// time without an answer, in milliseconds. Everything is as before when it returns.
async fn pull(
    lab: &Lab,
    adverts: &Adverts,
    contender: &Contender,
    interval_ms: u32,
    moment: u32,
) -> anyhow::Result<f64> {
    let Contender { system, address, vrid, preferred, .. } = contender;
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
    await_that(&format!("{system}'s {address} answers"), LIMIT, async || {
        Ok(Some(lab.curl("c1", *address, SERVICE_PORT).await?))
    })
    .await?;

    let probe = lab.probe("c1", Protocol::Udp, *address, SERVICE_PORT, Duration::from_millis(1))?;
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
    Ok(outcome.longest_gap.as_secs_f64() * 1000.0)
}
