//! `make bench-segment`: a hundred nodes on one subnet with a thousand addresses: real agents, each in a network namespace of its
//! own, with a real etcd, API server and controller.
//!
//! Until all addresses are announced, how evenly they are spread, what the agents cost at rest, and what a client on the LAN sees when
//! one node dies and then ten at once. There are no kube-proxies: what answers the client is the agents' guard (ICMP echo).

mod addresses;
mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use anyhow::ensure;
use serde_json::json;
use windlass_e2e::{
    Answering, Doubled, KernelLimits, Lab, Memory, Segment, Writes, await_that, memory_kib,
    processor_seconds,
    statistics::{Shares, Sorted, float, shares, whole_milliseconds},
};

use self::{
    addresses::{create_announced, owners},
    report::{Death, Rest, Row},
};
use crate::{services, settings, system::CLIENT};

const NODES: u8 = 100;
const VIPS: usize = 1000;
/// Numbers of nodes that die at once, in turn.
const DEATHS: [usize; 2] = [1, 10];
/// Length of the measurement at rest.
const REST: Duration = Duration::from_secs(20);
const PING: Duration = Duration::from_millis(20);
/// Before and after a death.
const AROUND: Duration = Duration::from_secs(2);
const POOL: &str = "198.19.0.0/22";
const LIMIT: Duration = Duration::from_mins(15);
/// Five times the default: here the adverts of a hundred virtual routers all come to one machine, a hundred times each, 100,000 a second
/// with the default. Two cores do nothing else then, and the API server starves.
const INTERVAL_MS: u32 = 500;

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let nodes = settings::number("NODES", NODES, &(0..=u8::MAX))?;
    let vips = settings::number("SERVICES", VIPS, &(0..=usize::MAX))?;
    let interval_ms = settings::number("INTERVAL_MS", INTERVAL_MS, &(0..=u32::MAX))?;
    let lab = services::lab(1).client(CLIENT).without_proxy();
    let _limits = KernelLimits::raise()?;
    let row = Lab::run("bench-segment", lab, async |lab| measure(lab, nodes, vips, interval_ms).await)?;
    report::write(&row)
}

async fn measure(lab: &Lab, nodes: u8, vips: usize, interval_ms: u32) -> anyhow::Result<Row> {
    let client = lab.client();
    lab.deploy_windlass(&[]).await?;
    let segment = lab.segment(CLIENT, nodes).await?;
    let began = Instant::now();
    segment.start_agents()?;
    addresses::await_reports(&client, nodes, LIMIT).await?;
    println!("bench: {nodes} agents run after {:.1?}", began.elapsed());

    lab.announcement("segment", json!({"vrrp": {"advertisementIntervalMilliseconds": interval_ms}})).await?;
    lab.pool("segment", &[POOL]).await?;
    let began = Instant::now();
    create_announced(lab, vips, LIMIT).await?;
    let announced = began.elapsed();
    println!("bench: all announced after {announced:.1?}");
    let writes = Writes::settled(&client).await?;
    let before = owners(&client).await?;
    let all: Vec<String> = segment.nodes().collect();
    let Shares { most, least } = shares(before.values(), all.iter().map(String::as_str));
    println!("bench: at rest for {REST:?}");
    let rest = rest(&segment).await?;
    let rest_writes = Writes::settled(&client).await?.since(&writes).values().sum();

    let vips_before: Vec<IpAddr> = before.keys().copied().map(IpAddr::V4).collect();
    let answering = segment.answering(&vips_before)?;
    await_one_each(&answering, &before).await?;
    let mut deaths = Vec::new();
    let mut alive: BTreeSet<String> = all.into_iter().collect();
    for count in DEATHS {
        ensure!(count < alive.len(), "{} nodes are left, too few for {count} to die", alive.len());
        deaths.push(kill(lab, &segment, &answering, &mut alive, count).await?);
    }
    answering.stop()?;
    Ok(Row {
        nodes: nodes.into(),
        vips,
        interval_ms,
        announced_s: announced.as_secs_f64(),
        most,
        least,
        rest,
        rest_writes,
        deaths,
    })
}

/// Measures the cost of the agents at rest.
async fn rest(segment: &Segment<'_>) -> anyhow::Result<Rest> {
    let seconds = |agents: &[i32]| {
        agents.iter().map(|pid| processor_seconds(&pid.to_string())).sum::<anyhow::Result<f64>>()
    };
    let agents = segment.agents()?;
    let (cpu, packets, began) = (seconds(&agents)?, segment.packets().await?, Instant::now());
    tokio::time::sleep(REST).await;
    let length = began.elapsed().as_secs_f64();
    let (cpu, packets) = (seconds(&agents)? - cpu, segment.packets().await? - packets);
    let memory = agents.iter().map(|pid| memory_kib(*pid, Memory::Resident));
    let memory = memory.collect::<anyhow::Result<Sorted<u32>>>()?;
    Ok(Rest {
        processors: cpu / length,
        packets_per_second: float(packets) / length,
        agent_mb: memory.median().unwrap_or(0) / 1024,
        largest_agent_mb: memory.most().unwrap_or(0) / 1024,
    })
}

/// Waits until each address has been answered for by the one node that the cluster says, and no other.
async fn await_one_each(answering: &Answering, owners: &BTreeMap<Ipv4Addr, String>) -> anyhow::Result<()> {
    await_that("one node answers for each address", LIMIT, async || {
        let seen = answering.seen()?;
        let is_alone = |(vip, node): &(&Ipv4Addr, &String)| {
            seen.alone.get(&IpAddr::V4(**vip)).is_some_and(|alone| alone.node == **node)
        };
        let others = owners.iter().filter(|owner| !is_alone(owner)).count();
        ensure!(others == 0, "{others} are not");
        Ok(Some(()))
    })
    .await
}

/// Lets those nodes die that have the most addresses, all at once.
async fn kill(
    lab: &Lab,
    segment: &Segment<'_>,
    answering: &Answering,
    alive: &mut BTreeSet<String>,
    count: usize,
) -> anyhow::Result<Death> {
    let client = lab.client();
    let before = owners(&client).await?;
    let had = |node: &String| before.values().filter(|owner| *owner == node).count();
    let mut by_share: Vec<(usize, String)> = alive.iter().map(|node| (had(node), node.clone())).collect();
    by_share.sort();
    let dead: Vec<String> = by_share.into_iter().rev().take(count).map(|(_, node)| node).collect();
    alive.retain(|node| !dead.contains(node));
    let lost: Vec<Ipv4Addr> =
        before.iter().filter(|(_, node)| dead.contains(node)).map(|(vip, _)| *vip).collect();
    println!("bench: {count} nodes with {} addresses die", lost.len());
    let writes = Writes::settled(&client).await?;
    let pings = lab.pings(CLIENT, &lost, PING)?;
    tokio::time::sleep(AROUND).await;
    let doubled = answering.seen()?.doubled.len();
    segment.power_off(&dead)?;
    let after = await_that("others announce what the dead nodes had", LIMIT, async || {
        let now = owners(&client).await?;
        let left = lost.iter().filter(|vip| now.get(*vip).is_none_or(|node| dead.contains(node))).count();
        ensure!(left == 0, "{left} do not");
        Ok(Some(now))
    })
    .await?;
    tokio::time::sleep(AROUND).await;
    await_one_each(answering, &after).await?;
    let outages: Sorted<Duration> = pings.stop()?.into_values().collect();
    let (settled, seen) = (Writes::settled(&client).await?, answering.seen()?);
    let doubled = &seen.doubled[doubled..];
    let moved =
        before.iter().filter(|(vip, node)| !dead.contains(node) && after.get(*vip) != Some(*node)).count();
    let longest = doubled.iter().map(Doubled::length).max();
    println!("bench: doubled: {doubled:?}");
    Ok(Death {
        nodes: count,
        vips: lost.len(),
        median_outage_ms: whole_milliseconds(outages.median()),
        longest_outage_ms: whole_milliseconds(outages.most()),
        others_moved: moved,
        doubled: doubled.len(),
        longest_doubled_ms: whole_milliseconds(longest),
        most_taken_over: shares(lost.iter().map(|vip| &after[vip]), []).most,
        writes: settled.since(&writes).values().sum(),
    })
}
