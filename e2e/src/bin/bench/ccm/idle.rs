//! A large cluster in which nothing happens: what Windlass asks the API server all the same, and how much memory it holds.
//!
//! Creating the Services takes most of the time, in the API server (see docs/dev/benchmarks.md). They have no node ports, their
//! cluster addresses are named, so that nobody looks for free ones, and many requests are in flight.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use kube::Client;
use serde_json::Value;
use windlass_e2e::{Bystander, Lab, Memory, Writes, memory_mb, statistics::float, unused_service};

use super::{
    calls::{Calls, Process},
    report::Row,
};
use crate::{
    seen::Seen,
    services::{self, POOL, create},
};

/// Requests of the client under way at the same time.
const IN_FLIGHT: usize = 48;
/// Limit of the wait until all Services have their address.
const LIMIT: Duration = Duration::from_mins(45);

/// Size of the cluster, and the length of the measurement.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) services: u32,
    pub(crate) nodes: u16,
    /// More than five: then every node's addresses are looked after once.
    pub(crate) minutes: u32,
}

pub(crate) async fn measure(lab: &Lab, size: Size) -> anyhow::Result<Vec<Row>> {
    let client = lab.client();
    for number in 1..size.nodes {
        // Nobody runs there.
        Bystander::new(&client, number)?.join(true).await?;
    }
    lab.deploy_windlass(&["n1"]).await?;
    services::pool(lab, POOL, "eth0").await?;
    let began = Instant::now();
    create_shown(&client, size.services).await?;
    println!("bench: all have their address after {:.0} s", began.elapsed().as_secs_f64());
    // The client's own watch has ended. Since then nobody wants anything.
    Writes::settled(&client).await?;
    println!("bench: looking on for {} minutes", size.minutes);
    let before = [Calls::of(lab, Process::Controller).await?, Calls::of(lab, Process::Agent("n1")).await?];
    let began = Instant::now();
    for minute in 1..=size.minutes {
        tokio::time::sleep(Duration::from_mins(1)).await;
        println!("bench: {minute} of {} minutes", size.minutes);
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    let after = [Calls::of(lab, Process::Controller).await?, Calls::of(lab, Process::Agent("n1")).await?];

    let mut rows = Vec::new();
    for (who, (after, before)) in ["controller", "agent"].into_iter().zip(after.into_iter().zip(before)) {
        let Calls { watches, reads, renewals, writes } = after.since(before);
        for (what, calls) in [
            ("watches opened again", watches),
            ("other reads", reads),
            ("renewals of the lease", renewals),
            ("other writes", writes),
        ] {
            rows.push(Row::new(format!("at rest, {who}: {what}"), float(calls) / minutes, "calls/min"));
        }
    }
    for (who, host) in [("controller", "cp"), ("agent", "n1")] {
        let pid = lab.process_id(host, who)?;
        for (what, which) in [("resident memory", Memory::Resident), ("most memory ever", Memory::Peak)] {
            rows.push(Row::new(format!("at rest, {who}: {what}"), memory_mb(pid, which)?, "MB"));
        }
    }
    Ok(rows)
}

/// Creates the Services and waits until each shows its address.
pub(crate) async fn create_shown(client: &Client, count: u32) -> anyhow::Result<()> {
    // The first one is the API server's own.
    let first = Ipv4Addr::new(198, 18, 0, 16).to_bits();
    let all: Vec<Value> = (0..count)
        .map(|index| {
            let mut service = unused_service(&format!("idle-{index:05}"));
            service["spec"]["clusterIP"] = Ipv4Addr::from_bits(first + index).to_string().into();
            service
        })
        .collect();
    let seen = Seen::default();
    let made = async {
        create(client, all.into_iter(), IN_FLIGHT).await?;
        seen.reach(usize::try_from(count)?, LIMIT).await
    };
    tokio::select! {
        made = made => made,
        ended = seen.follow(client) => Err(ended),
    }
}
