//! `loadSharing`: several nodes serve one address together.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_api::{CONDITION_LOAD_SHARED, load_shared};
use windlass_e2e::{
    EndpointState::Ready, KeptConnections, KeptOptions, Lab, Protocol, SERVICE_PORT, await_that, scenario,
};

use crate::local::served_locally;
use crate::setup::{LIMIT, lab};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const CONNECTIONS: usize = 60;
/// Fewest connections of a node. Twenty are expected, and less than one draw in a million has a node with fewer.
const FEWEST: usize = 4;

#[test]
fn nodes_share_the_connections_of_a_local_service_see_the_client_and_keep_theirs_when_the_director_dies()
-> anyhow::Result<()> {
    scenario("sharing", lab(), async |lab| {
        lab.install_manifests().await?;
        lab.announcement("shared", json!({"loadSharing": "Local"})).await?;
        let (_, vip) = served_locally(lab, &NODES.map(|node| (node, Ready))).await?;
        await_shared(lab, vip).await?;
        let (kept, director, of_director) = open_spread(lab, vip).await?;
        lab.node(&director)?.power_off().await?;
        await_that("another node announces the address", LIMIT, async || {
            let owner = lab.await_owner("c1", vip).await?;
            ensure!(owner != director, "{owner} has it");
            Ok(Some(()))
        })
        .await?;
        let kept = kept.stop()?;
        let broken = kept[0].iter().filter(|one| one.stall.is_err()).count();
        ensure!(broken == of_director, "{of_director} of {CONNECTIONS} were on {director}: {kept:?}");
        Ok(())
    })
}

/// Opens connections to a shared address, of which each node serves some and sees the client. Returns them, the director, and the number of
/// those that it serves itself.
pub(crate) async fn open_spread(lab: &Lab, vip: IpAddr) -> anyhow::Result<(KeptConnections, String, usize)> {
    let busy = KeptOptions { connections: CONNECTIONS, pause: Duration::from_millis(100) };
    let kept = lab.keep_connections("c1", &[(vip, SERVICE_PORT).into()], busy).await?;
    let director = lab.await_owner("c1", vip).await?;
    let open = lab.open_ports("c1", vip, SERVICE_PORT).await?;
    let client: IpAddr = lab.host("c1")?.address.into();
    let mut of_director = 0;
    for node in NODES {
        let clients = lab.tracked_clients(node, vip).await?;
        ensure!(clients == [client].into(), "{node} sees {clients:?}");
        let served = lab.tracked(node, Protocol::Tcp, vip).await?.intersection(&open).count();
        ensure!(served >= FEWEST, "{node} has {served} of {CONNECTIONS} connections");
        if node == director {
            of_director = served;
        }
    }
    Ok((kept, director, of_director))
}

/// Waits until the address is shared by all nodes.
pub(crate) async fn await_shared(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("{vip} is shared"), LIMIT, async || {
        let status = lab.virtual_ip(vip).await?.and_then(|vip| vip.status).unwrap_or_default();
        let told = status.conditions.into_iter().find(|one| one.type_ == CONDITION_LOAD_SHARED);
        let told = told.context("nothing is told of sharing")?;
        let is_shared =
            told.reason == load_shared::SHARED && NODES.iter().all(|node| told.message.contains(node));
        ensure!(is_shared, "{told:?}");
        Ok(Some(()))
    })
    .await
}
