//! Many Services with `externalTrafficPolicy: Local` that three nodes serve together: what it takes until they do, and what the drain and
//! the death of a node cost connections to some of them.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, api::ListParams};
use serde_json::json;
use windlass_api::VirtualRouter;
use windlass_e2e::{KeptConnections, KeptOptions, Lab, SERVICE_PORT};

use super::{
    AFTER, ATTEMPT, PAUSE,
    fault::{PORTS, Sample},
    report::{FaultRow, Row, ServicesRow},
    scene::System,
};
use crate::{scale::usage::Usage, services::POOL, system::CLIENT};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The node that is drained, and the one that dies.
const DRAINED: &str = NODES[1];
const VICTIM: &str = NODES[2];
/// Backend of all Services.
const BACKEND: &str = "web";
/// Requests of the client under way at the same time.
const IN_FLIGHT: usize = 16;
/// Services to which there are connections, and how many to each.
const SAMPLES: usize = 20;
const CONNECTIONS: usize = 6;
const LIMIT: Duration = Duration::from_mins(10);

/// Makes so many Services, and measures.
pub(crate) async fn measure(lab: &Lab, count: usize) -> anyhow::Result<Vec<Row>> {
    lab.deploy_windlass(&NODES).await?;
    // The addresses are in no subnet of the hosts.
    lab.exec(CLIENT, &["ip", "route", "add", POOL, "dev", "eth0"]).await?;
    lab.announcement("bench", json!({"interfaces": ["eth0"], "loadSharing": "Local"})).await?;
    lab.pool("bench", &[POOL]).await?;
    lab.backend(BACKEND, &NODES).await?;
    let mut rows = Vec::new();
    let (before, began) = (Usage::of(lab)?, Instant::now());
    let addresses = create(lab, count).await?;
    lab.await_all_shared(count, &NODES, LIMIT).await?;
    rows.push(row(lab, "services", count, began.elapsed(), &before).await?);

    let every = (addresses.len() / SAMPLES).max(1);
    let samples: Vec<_> =
        addresses.into_iter().step_by(every).map(|vip| SocketAddr::new(vip, SERVICE_PORT)).collect();
    let kept = keep(lab, &samples).await?;
    let (before, began) = (Usage::of(lab)?, Instant::now());
    lab.node(DRAINED)?.exclude(true).await?;
    lab.await_all_shared(count, &["n1", "n3"], LIMIT).await?;
    rows.push(row(lab, "services-drain", count, began.elapsed(), &before).await?);
    rows.push(result("services-drain", kept, 0, None).await?);
    lab.node(DRAINED)?.exclude(false).await?;
    lab.await_all_shared(count, &NODES, LIMIT).await?;
    rows.push(death(lab, &samples).await?);
    Ok(rows)
}

/// Lets a node die that serves a third of the connections.
async fn death(lab: &Lab, samples: &[SocketAddr]) -> anyhow::Result<Row> {
    let target = *samples.first().context("no Service")?;
    let kept = keep(lab, samples).await?;
    let lost = lab.served_by(VICTIM).await?.len();
    let ports = lab.servers_of(CLIENT, PORTS, target)?.into_iter();
    let ports =
        ports.filter(|(_, server)| *server == format!("{BACKEND}-{VICTIM}")).map(|(port, _)| port).collect();
    let probe = lab.probe_from(CLIENT, ports, target, ATTEMPT)?;
    tokio::time::sleep(AFTER).await;
    lab.node(VICTIM)?.power_off().await?;
    tokio::time::sleep(AFTER * 2).await;
    let seen = probe.stop()?;
    ensure!(seen.answered > 0, "no new connection was ever answered");
    result("services-death", kept, lost, Some(seen.longest_gap)).await
}

/// Makes the Services, and returns their addresses.
async fn create(lab: &Lab, count: usize) -> anyhow::Result<Vec<IpAddr>> {
    let made = stream::iter(0..count).map(async |index| {
        let name = format!("shared-{index:04}");
        lab.same_backend(&name, BACKEND)?;
        let local = |service: &mut Service| {
            let spec = service.spec.get_or_insert_default();
            spec.external_traffic_policy = Some("Local".into());
            spec.allocate_load_balancer_node_ports = Some(false);
        };
        lab.load_balancer(&name, local).await?;
        lab.ingress(&name, LIMIT).await
    });
    made.buffer_unordered(IN_FLIGHT).try_collect().await
}

/// Opens connections to some Services.
async fn keep(lab: &Lab, samples: &[SocketAddr]) -> anyhow::Result<KeptConnections> {
    let options = KeptOptions { connections: CONNECTIONS, pause: PAUSE };
    let kept = lab.keep_connections(CLIENT, samples, options).await?;
    kept.watch();
    Ok(kept)
}

/// Row of connections, of which so many are lost with their pods.
async fn result(
    case: &'static str,
    kept: KeptConnections,
    lost: usize,
    outage: Option<Duration>,
) -> anyhow::Result<Row> {
    tokio::time::sleep(AFTER).await;
    let connections = kept.stop()?.concat();
    let expected =
        connections.len().checked_sub(lost).context("more connections are lost than there were")?;
    let row = FaultRow::new(System::Windlass, case, &[&Sample { connections, expected, outage }]);
    println!("bench: {row}");
    Ok(Row::Fault(row))
}

/// Row of a time and of what it cost since.
async fn row(
    lab: &Lab,
    case: &'static str,
    count: usize,
    time: Duration,
    before: &Usage,
) -> anyhow::Result<Row> {
    let routers: Api<VirtualRouter> = Api::all(lab.client());
    let routers = routers.list_metadata(&ListParams::default()).await?.items.len();
    let row = Row::Services(ServicesRow::new(case, [count, routers], time, [before, &Usage::of(lab)?]));
    println!("bench: {row}");
    Ok(row)
}
