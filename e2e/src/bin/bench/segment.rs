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

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_e2e::{Answering, KernelLimits, Lab, Segment, Writes, await_that, processor_seconds};

use self::{
    addresses::{create, owners},
    report::{Death, Rest, Row},
};

const NODES: u8 = 100;
const VIPS: usize = 1000;
/// Which node dies first, then how many at once.
const DEATHS: [usize; 2] = [1, 10];
/// How long agents are watched at rest.
const REST: Duration = Duration::from_secs(20);
const PING: Duration = Duration::from_millis(20);
/// Before and after a death.
const AROUND: Duration = Duration::from_secs(2);
const POOL: &str = "198.19.0.0/22";
const SERVICE_RANGE: &str = "198.18.0.0/16";
const CLIENT: &str = "c1";
const LIMIT: Duration = Duration::from_mins(15);
/// Five times the default: here the adverts of a hundred virtual routers all come to one machine, a hundred times each, 100,000 a second
/// with the default. Two cores do nothing else then, and the API server starves.
const INTERVAL_MS: u32 = 500;

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let nodes = setting("NODES", NODES)?;
    let vips = setting("SERVICES", VIPS)?;
    let lab = Lab::builder()
        .nodes(1)
        .client(CLIENT)
        .light()
        .without_proxy()
        .service_range(SERVICE_RANGE)
        .interactive();
    let interval_ms = setting("INTERVAL_MS", INTERVAL_MS)?;
    let _limits = KernelLimits::raise()?;
    let row = Lab::run("bench-segment", lab, async |lab| measure(lab, nodes, vips, interval_ms).await)?;
    report::write(&row)
}

fn setting<T: std::str::FromStr>(name: &str, default: T) -> anyhow::Result<T> {
    match std::env::var(name) {
        Ok(text) => text.parse().ok().with_context(|| format!("{name}={text:?} is no number that will do")),
        Err(_) => Ok(default),
    }
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
    create(lab, vips, LIMIT).await?;
    let announced = began.elapsed();
    println!("bench: all announced after {announced:.1?}");
    let writes = Writes::settled(&client).await?;
    let before = owners(&client).await?;
    let mut shares: BTreeMap<String, usize> = segment.nodes().map(|node| (node, 0)).collect();
    for node in before.values() {
        *shares.entry(node.clone()).or_default() += 1;
    }
    println!("bench: at rest for {REST:?}");
    let rest = rest(&segment).await?;
    let rest_writes = Writes::settled(&client).await?.since(&writes).values().sum();

    let all: Vec<IpAddr> = before.keys().copied().map(IpAddr::V4).collect();
    let answering = segment.answering(&all)?;
    await_one_each(&answering, &before).await?;
    let mut deaths = Vec::new();
    let mut alive: BTreeSet<String> = segment.nodes().collect();
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
        most: shares.values().copied().max().unwrap_or(0),
        least: shares.values().copied().min().unwrap_or(0),
        rest,
        rest_writes,
        deaths,
    })
}

/// What the agents take when nobody wants anything.
async fn rest(segment: &Segment<'_>) -> anyhow::Result<Rest> {
    let seconds = |agents: &[i32]| {
        agents.iter().map(|pid| processor_seconds(&pid.to_string())).sum::<anyhow::Result<f64>>()
    };
    let agents = segment.agents()?;
    let (cpu, packets, began) = (seconds(&agents)?, segment.packets().await?, Instant::now());
    tokio::time::sleep(REST).await;
    let length = began.elapsed().as_secs_f64();
    let (cpu, packets) = (seconds(&agents)? - cpu, segment.packets().await? - packets);
    let mut memory =
        agents.iter().map(|pid| report::resident_kib(*pid)).collect::<anyhow::Result<Vec<_>>>()?;
    memory.sort_unstable();
    Ok(Rest {
        processors: cpu / length,
        packets_per_second: f64::from(u32::try_from(packets)?) / length,
        agent_mb: memory.get(memory.len() / 2).copied().unwrap_or(0) / 1024,
        largest_agent_mb: memory.last().copied().unwrap_or(0) / 1024,
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
    let mut outages: Vec<Duration> = pings.stop()?.into_values().collect();
    outages.sort();
    let (settled, seen) = (Writes::settled(&client).await?, answering.seen()?);
    let doubled = &seen.doubled[doubled..];
    let moved =
        before.iter().filter(|(vip, node)| !dead.contains(node) && after.get(*vip) != Some(*node)).count();
    let mut taken: BTreeMap<&String, usize> = BTreeMap::new();
    for vip in &lost {
        *taken.entry(&after[vip]).or_default() += 1;
    }
    let longest = doubled.iter().map(windlass_e2e::Doubled::length).max().unwrap_or_default();
    println!("bench: doubled: {doubled:?}");
    Ok(Death {
        nodes: count,
        vips: lost.len(),
        median_outage_ms: report::milliseconds(outages.get(outages.len() / 2)),
        longest_outage_ms: report::milliseconds(outages.last()),
        others_moved: moved,
        doubled: doubled.len(),
        longest_doubled_ms: report::milliseconds(Some(&longest)),
        most_taken_over: taken.values().copied().max().unwrap_or(0),
        writes: settled.since(&writes).values().sum(),
    })
}
