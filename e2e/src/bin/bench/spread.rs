//! `make bench-spread`: over how many nodes the addresses of Services are spread, and which of them move when a node leaves; with
//! a real etcd, API server and controller. The nodes are objects only: who is preferred for an address is the controller's
//! decision, no election is needed for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::{VirtualIP, VirtualRouter};
use windlass_e2e::{Bystander, Lab, await_that, write_rows};

const NODES: [u16; 3] = [3, 7, 50];
const VIPS: [usize; 8] = [1, 2, 5, 10, 30, 100, 300, 1000];
/// Addresses for all of them, on the nodes' `eth1`.
const POOL: &str = "198.19.0.0/16";
const SERVICE_RANGE: &str = "198.18.0.0/16";
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
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

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for count in NODES {
        println!("bench: {count} nodes");
        let lab = Lab::builder().nodes(1).light().without_proxy().service_range(SERVICE_RANGE).interactive();
        rows.extend(Lab::run("bench-spread", lab, async |lab| measure(lab, count).await)?);
    }
    println!("\n  nodes   VIPs   most  least  moved on leave  of the leaver  most taken over");
    for Row { vips, nodes, most, least, moved_on_leave, of_the_leaver, most_taken_over } in &rows {
        println!(
            "  {nodes:5} {vips:6} {most:6} {least:6} {moved_on_leave:15} {of_the_leaver:14} {most_taken_over:16}"
        );
    }
    println!("{}", write_rows("spread", &rows)?.display());
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
    lab.announcement("bench", json!({"interfaces": ["eth1"]})).await?;
    lab.pool("bench", &[POOL]).await?;
    let leaver = nodes.first().context("no nodes")?.name();
    let (mut rows, mut made) = (Vec::new(), 0);
    for vips in VIPS {
        let new = stream::iter(made..vips).map(|number| create(&client, number)).buffer_unordered(IN_FLIGHT);
        new.try_collect::<Vec<()>>().await?;
        made = vips;
        let before = settled(&client, vips, None).await?;
        let mut shares: BTreeMap<&str, usize> = nodes.iter().map(|node| (node.name(), 0)).collect();
        for node in before.values() {
            *shares.entry(node).or_default() += 1;
        }
        set_excluded(&client, leaver, &json!("")).await?;
        let after = settled(&client, vips, Some(leaver)).await?;
        let moved = before.iter().filter(|(vip, node)| after.get(*vip) != Some(*node));
        let moved: Vec<_> = moved.map(|(vip, _)| &after[vip]).collect();
        let mut taken: BTreeMap<&String, usize> = BTreeMap::new();
        for node in &moved {
            *taken.entry(node).or_default() += 1;
        }
        rows.push(Row {
            vips,
            nodes: nodes.len(),
            most: shares.values().copied().max().unwrap_or(0),
            least: shares.values().copied().min().unwrap_or(0),
            moved_on_leave: moved.len(),
            of_the_leaver: before.values().filter(|node| *node == leaver).count(),
            most_taken_over: taken.values().copied().max().unwrap_or(0),
        });
        set_excluded(&client, leaver, &Value::Null).await?;
        await_that(&format!("{leaver} has its addresses again"), LIMIT, async || {
            Ok((preferred(&client).await? == before).then_some(()))
        })
        .await?;
    }
    Ok(rows)
}

async fn create(client: &Client, number: usize) -> anyhow::Result<()> {
    let service: Service = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("spread-{number}")},
        "spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]},
    }))?;
    let services: Api<Service> = Api::default_namespaced(client.clone());
    services
        .create(&PostParams::default(), &service)
        .await
        .with_context(|| format!("making Service {number}"))?;
    Ok(())
}

async fn set_excluded(client: &Client, node: &str, value: &Value) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {EXCLUDE: value}}}));
    nodes.patch(node, &PatchParams::default(), &label).await.with_context(|| format!("labelling {node}"))?;
    Ok(())
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
