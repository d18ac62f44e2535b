//! A large cluster whose nodes change: what one change costs in calls, in processor time and in events on Services.
//!
//! Three nodes have agents and announce the addresses. The others are objects with a `NodeNetwork`, on subnets of their own.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, Client, api::ListParams};
use tokio::time::{MissedTickBehavior, interval};
use windlass_e2e::{Bystander, Lab, Writes, processor_seconds, statistics::float};

use super::{
    calls::{Calls, Process},
    idle::create_shown,
    report::Row,
};
use crate::services::{self, POOL};

const AGENTS: [&str; 3] = ["n1", "n2", "n3"];
/// Requests of this program under way while it sets up.
const IN_FLIGHT: usize = 16;
/// Length of the measurement without changes, whose cost is subtracted from that of the changes.
const REST: Duration = Duration::from_secs(20);
/// Each node writes its status this often.
const BEAT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) services: u32,
    /// Nodes that are objects only.
    pub(crate) nodes: u16,
    /// Changes of each kind, each of another node.
    pub(crate) changes: u16,
    /// Heartbeats of each node.
    pub(crate) beats: u8,
}

pub(crate) async fn measure(lab: &Lab, size: Size) -> anyhow::Result<Vec<Row>> {
    let client = lab.client();
    lab.deploy_windlass(&AGENTS).await?;
    let all = size.nodes + size.changes;
    let nodes = (0..all).map(|number| Bystander::new(&client, number)).collect::<Result<Vec<_>, _>>()?;
    let changes = usize::from(size.changes);
    let (nodes, newcomers) = nodes.split_at(usize::from(size.nodes));
    // Each kind of change has nodes of its own; the first are to be given a provider ID.
    let joined = nodes.iter().enumerate().map(|(index, node)| async move {
        node.join(index >= changes).await?;
        node.report(&[]).await
    });
    stream::iter(joined).buffer_unordered(IN_FLIGHT).try_collect::<Vec<()>>().await?;
    services::pool(lab, POOL, "eth0").await?;
    create_shown(&client, size.services).await?;

    let mut bench = Bench { lab, client, rest: [0.0; 2], rows: Vec::new() };
    bench.rest().await?;
    let mut chunks = nodes.chunks_exact(changes);
    let mut next = || chunks.next().context("more kinds of changes than nodes: raise SPREAD_NODES");

    let patch = ["PATCH nodes"];
    bench.each("providerID set", &patch, next()?, async |node| node.become_known().await).await?;
    bench.each("label added", &patch, next()?, async |node| node.label("rack", "7").await).await?;
    bench.each("excluded, without VIPs", &patch, next()?, async |node| node.exclude(true).await).await?;
    let what = "NodeNetwork changed, without VIPs";
    bench.each(what, &["APPLY nodenetworks"], next()?, async |node| node.report(&[200]).await).await?;
    let join = async |node: &Bystander| {
        node.join(true).await?;
        node.report(&[]).await
    };
    bench.each("node added", &["POST nodes", "APPLY nodenetworks"], newcomers, join).await?;
    bench.each("node deleted", &["DELETE nodes"], newcomers, async |node| node.leave().await).await?;
    bench.holder(size.services).await?;
    bench.heartbeats(nodes, size.beats).await?;
    Ok(bench.rows)
}

/// Counts and times at one moment.
struct Moment {
    at: Instant,
    controller: Calls,
    agents: Calls,
    /// Processor seconds of the controller, and of all agents.
    processor: [f64; 2],
    writes: Writes,
    events: i32,
}

struct Bench<'a> {
    lab: &'a Lab,
    client: Client,
    /// Processor seconds in a second in which nothing happens.
    rest: [f64; 2],
    rows: Vec<Row>,
}

impl Bench<'_> {
    /// Once nothing is written any more.
    async fn moment(&self) -> anyhow::Result<Moment> {
        let writes = Writes::settled(&self.client).await?;
        let mut agents = Calls::default();
        let mut processor = [self.seconds("cp", "controller")?, 0.0];
        for node in AGENTS {
            agents += Calls::of(self.lab, Process::Agent(node)).await?;
            processor[1] += self.seconds(node, "agent")?;
        }
        let controller = Calls::of(self.lab, Process::Controller).await?;
        let events: Api<Event> = Api::all(self.client.clone());
        let of_services = ListParams::default().fields("involvedObject.kind=Service");
        let events = events.list(&of_services).await?.items;
        let events = events.iter().map(|event| event.count.unwrap_or(1)).sum();
        Ok(Moment { at: Instant::now(), controller, agents, processor, writes, events })
    }

    fn seconds(&self, host: &str, name: &str) -> anyhow::Result<f64> {
        processor_seconds(&self.lab.process_id(host, name)?.to_string())
    }

    async fn rest(&mut self) -> anyhow::Result<()> {
        let before = self.moment().await?;
        tokio::time::sleep(REST).await;
        let after = self.moment().await?;
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        for (index, who) in ["controller", "agents"].into_iter().enumerate() {
            self.rest[index] = (after.processor[index] - before.processor[index]) / seconds;
            let name = format!("no node changes, {who}: processor time");
            self.rows.push(Row::new(name, self.rest[index] * 1000.0, "ms/s"));
        }
        Ok(())
    }

    /// Makes a change of each of these nodes, and tells what one costs. `ours`: what the change itself writes.
    async fn each(
        &mut self,
        what: &str,
        ours: &[&str],
        nodes: &[Bystander],
        change: impl AsyncFn(&Bystander) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let before = self.moment().await?;
        for node in nodes {
            change(node).await?;
        }
        self.tell(what, ours, &before, nodes.len()).await
    }

    /// A node that announces a third of the addresses is excluded, and taken in again.
    async fn holder(&mut self, services: u32) -> anyhow::Result<()> {
        for (what, excluded) in [("excluded", true), ("taken in again", false)] {
            let before = self.moment().await?;
            self.lab.node(AGENTS[0])?.exclude(excluded).await?;
            let what = format!("{what}, with a third of {services} VIPs");
            self.tell(&what, &["PATCH nodes"], &before, 1).await?;
        }
        Ok(())
    }

    async fn heartbeats(&mut self, nodes: &[Bystander], beats: u8) -> anyhow::Result<()> {
        let before = self.moment().await?;
        let mut tick = interval(BEAT.div_f64(float(nodes.len() as u64)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for beat in 1..=beats {
            println!("bench: heartbeat {beat} of {beats}");
            for node in nodes {
                tick.tick().await;
                node.heartbeat(beat % 60).await?;
            }
        }
        let count = nodes.len() * usize::from(beats);
        self.tell(&format!("heartbeat, of {count}"), &["PATCH nodes/status"], &before, count).await
    }

    /// Records the cost of each of `count` changes since `before`.
    async fn tell(&mut self, what: &str, ours: &[&str], before: &Moment, count: usize) -> anyhow::Result<()> {
        let after = self.moment().await?;
        ensure!(count > 0, "{what}: no change was made");
        let each = |value: f64| value / float(count as u64);
        let mut writes: BTreeMap<String, u64> = after.writes.since(&before.writes);
        writes.retain(|kind, _| !ours.contains(&kind.as_str()));
        let first = self.rows.len();
        let mut row = |name: &str, value: f64, unit| {
            self.rows.push(Row::new(format!("{what}: {name}"), each(value), unit));
        };
        let to_services = writes.iter().filter(|(kind, _)| kind.contains(" services")).map(|(_, n)| n).sum();
        row("writes to Services", float(to_services), "calls");
        row("events on Services", f64::from(after.events - before.events), "events");
        for (who, after, before) in
            [("controller", after.controller, before.controller), ("agents", after.agents, before.agents)]
        {
            let calls = after.since(before);
            row(&format!("{who}, reads"), float(calls.reads), "calls");
            row(&format!("{who}, writes"), float(calls.writes), "calls");
        }
        for (kind, calls) in writes {
            row(&kind, float(calls), "calls");
        }
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        for (index, who) in ["controller", "agents"].into_iter().enumerate() {
            let taken = after.processor[index] - before.processor[index] - self.rest[index] * seconds;
            row(&format!("{who}, processor time"), taken.max(0.0) * 1000.0, "ms");
        }
        for row in &self.rows[first..] {
            println!("bench: {row}");
        }
        Ok(())
    }
}
