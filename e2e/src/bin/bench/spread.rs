//! `make bench-spread`: over how many nodes the addresses of Services are spread, and which of them move when a node leaves; with
//! a real etcd, API server and controller. The nodes are objects only: who is preferred for an address is the controller's
//! decision, no election is needed for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use serde::Serialize;
use windlass_api::{VirtualIP, VirtualRouter};
use windlass_e2e::{
    Bystander, Lab, await_that,
    statistics::{Shares, shares},
    unused_service,
};

use crate::{
    results::publish,
    services::{self, POOL, create},
};

const NODES: [u16; 3] = [3, 7, 50];
const VIPS: [usize; 8] = [1, 2, 5, 10, 30, 100, 300, 1000];
/// Requests of this program under way.
const IN_FLIGHT: usize = 16;
const LIMIT: Duration = Duration::from_mins(5);

/// One figure.
#[derive(Debug, Serialize)]
struct Row {
    vips: usize,
    nodes: usize,
    /// Addresses for which a node is preferred: of the node with the most, and with the least.
    most: usize,
    least: usize,
    /// Addresses that another node is preferred for once one has left, and how many that one had.
    moved_on_leave: usize,
    of_the_leaver: usize,
    /// The most of these that one node takes over.
    most_taken_over: usize,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vips, nodes, most, least, moved_on_leave, of_the_leaver, most_taken_over } = self;
        write!(
            f,
            "{nodes:5} {vips:6} {most:6} {least:6} {moved_on_leave:15} {of_the_leaver:14} {most_taken_over:16}"
        )
    }
}

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for count in NODES {
        println!("bench: {count} nodes");
        let lab = services::lab(1).without_proxy();
        rows.extend(Lab::run("bench-spread", lab, async |lab| measure(lab, count).await)?);
    }
    let title = "  nodes   VIPs   most  least  moved on leave  of the leaver  most taken over";
    publish("spread", title, &rows)?;
    for row in &rows {
        ensure!(row.most <= row.least + 1, "the shares differ by more than one: {row:?}");
        ensure!(row.moved_on_leave == row.of_the_leaver, "others than the leaver's moved: {row:?}");
    }
    Ok(())
}

async fn measure(lab: &Lab, count: u16) -> anyhow::Result<Vec<Row>> {
    let client = lab.client();
    lab.deploy_windlass(&[]).await?;
    let nodes = (0..count).map(|number| Bystander::new(&client, number)).collect::<Result<Vec<_>, _>>()?;
    for node in &nodes {
        node.join(true).await?;
        node.report(&[]).await?;
    }
    services::pool(lab, POOL, "eth1").await?;
    let leaver = nodes.first().context("no nodes")?;
    let (mut rows, mut made) = (Vec::new(), 0);
    for vips in VIPS {
        let new = (made..vips).map(|number| unused_service(&format!("spread-{number}")));
        create(&client, new, IN_FLIGHT).await?;
        made = vips;
        let before = settled(&client, vips, None).await?;
        leaver.exclude(true).await?;
        let after = settled(&client, vips, Some(leaver.name())).await?;
        let moved: Vec<_> = before
            .iter()
            .filter(|(vip, node)| after.get(*vip) != Some(*node))
            .map(|(vip, _)| &after[vip])
            .collect();
        let Shares { most, least } = shares(before.values(), nodes.iter().map(Bystander::name));
        rows.push(Row {
            vips,
            nodes: nodes.len(),
            most,
            least,
            moved_on_leave: moved.len(),
            of_the_leaver: before.values().filter(|node| *node == leaver.name()).count(),
            most_taken_over: shares(moved, []).most,
        });
        leaver.exclude(false).await?;
        await_that(&format!("{} has its addresses again", leaver.name()), LIMIT, async || {
            Ok((preferred(&client).await? == before).then_some(()))
        })
        .await?;
    }
    Ok(rows)
}

/// The preferred node of each address, once there are so many and none is `without`.
async fn settled(
    client: &Client,
    vips: usize,
    without: Option<&str>,
) -> anyhow::Result<BTreeMap<String, String>> {
    await_that(&format!("{vips} addresses have a node other than {without:?}"), LIMIT, async || {
        let found = preferred(client).await?;
        ensure!(found.len() == vips, "{} have one", found.len());
        ensure!(!found.values().any(|node| Some(node.as_str()) == without), "it still has some");
        Ok(Some(found))
    })
    .await
}

/// The node with the highest priority, by the names of the VirtualIPs that a virtual router carries.
async fn preferred(client: &Client) -> anyhow::Result<BTreeMap<String, String>> {
    let all = ListParams::default();
    let routers = Api::<VirtualRouter>::all(client.clone()).list(&all).await?;
    let first = |router: &VirtualRouter| {
        let first = router.spec.nodes.iter().max_by_key(|node| node.priority)?;
        Some((router.name_any(), first.name.clone()))
    };
    let firsts: BTreeMap<String, String> = routers.iter().filter_map(first).collect();
    let vips = Api::<VirtualIP>::all(client.clone()).list(&all).await?;
    let names: BTreeSet<_> = vips
        .iter()
        .filter_map(|vip| Some((vip.name_any(), firsts.get(vip.spec.virtual_router.as_ref()?)?.clone())))
        .collect();
    Ok(names.into_iter().collect())
}
