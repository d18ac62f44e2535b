//! A control plane begins with one node, grows, is updated, restarted, replaced, and powered on at once.

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use windlass_e2e::{ApiConnections, Signal, await_that, scenario};

use super::{await_alone, await_fit, await_unfit, control_plane};
use crate::setup::LIMIT;

const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];
/// So many events a watch shows after each step: two seconds.
const EVENTS: u64 = 20;
const API_SERVER: &str = "kube-apiserver";

#[test]
fn no_request_fails_and_no_watch_breaks_while_windlass_vip_is_updated_and_the_vip_outlives_restarts_of_all_the_rest()
-> anyhow::Result<()> {
    scenario("api-vip-updates", control_plane(&[]), async |lab| {
        let vip = lab.api_vip();
        let answering = lab.answering("cp", &[vip])?;
        await_fit(lab, &NODES).await?;
        await_alone(&answering, vip, |_| true).await?;

        let clients = [ApiConnections::New, ApiConnections::Kept]
            .map(|connections| lab.api_probe("c1", vip, connections));
        let watch = lab.api_watch("c2", vip, "cp2")?;
        watch.await_events(EVENTS).await?;
        for node in NODES {
            lab.stop_vip(node, Signal::SIGTERM).await?;
            lab.start_vip_again(node)?;
            await_fit(lab, &[node]).await?;
            await_alone(&answering, vip, |_| true).await?;
            watch.await_events(EVENTS).await?;
        }
        let moves: u32 = answering.seen()?.moves.values().sum();
        ensure!(moves > 0, "the VIP was on one node all the time");
        for client in clients {
            let seen = client?.stop()?;
            println!("{}: update of windlass vip: {seen:?}", lab.name());
            ensure!(seen.failed == 0, "update of windlass vip: {seen:?}");
        }
        let seen = watch.stop()?;
        println!("{}: update of windlass vip: {seen:?}", lab.name());
        ensure!(seen.broken == 0 && seen.events > 0, "update of windlass vip: {seen:?}");

        // API servers that are restarted one by one.
        let client = lab.api_probe("c1", vip, ApiConnections::New)?;
        for node in NODES {
            lab.end_process(node, API_SERVER, Signal::SIGTERM).await?;
            lab.await_api_server_at_vip().await?;
            lab.node(node)?.start_again(API_SERVER)?;
            lab.await_api_server_of(node).await?;
        }
        println!("{}: restart of the API servers: {:?}", lab.name(), client.stop()?);

        // A power cut, and all of them come back at once.
        for node in lab.control_plane_nodes() {
            node.power_off().await?;
        }
        await_that("nobody has the VIP", LIMIT, async || {
            let seen = answering.seen()?;
            Ok(seen.last.get(&vip).is_some_and(std::collections::BTreeSet::is_empty).then_some(()))
        })
        .await?;
        try_join_all(lab.control_plane_nodes().map(async |node| node.power_on().await)).await?;
        lab.await_api_server_at_vip().await?;
        await_alone(&answering, vip, |_| true).await.map(drop)
    })
}

#[test]
fn the_first_node_has_the_vip_before_it_has_an_api_server_and_others_join_take_over_and_are_replaced()
-> anyhow::Result<()> {
    let builder = control_plane(&[]).late(&["cp2", "cp3"]);
    scenario("api-vip-bootstrap", builder, async |lab| {
        let vip = lab.api_vip();
        let answering = lab.answering("c1", &[vip])?;

        // The one node that there is has the VIP, whether its API server answers or not.
        lab.node("cp1")?.kill(API_SERVER).await?;
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            lab.stop_vip("cp1", signal).await?;
            lab.start_vip_again("cp1")?;
            await_alone(&answering, vip, |node| node == "cp1").await?;
        }
        lab.node("cp1")?.start_again(API_SERVER)?;
        lab.await_api_server_at_vip().await?;

        // Others join, and nothing moves.
        for node in ["cp2", "cp3"] {
            let client = lab.api_probe("c2", vip, ApiConnections::New)?;
            lab.join_control_plane(node, "cp1").await?;
            await_fit(lab, &[node]).await?;
            println!("{}: {node} joins: {:?}", lab.name(), client.stop()?);
            await_alone(&answering, vip, |owner| owner == "cp1").await?;
        }

        // It goes only where an API server answers.
        lab.node("cp2")?.kill(API_SERVER).await?;
        await_unfit(lab, "cp2").await?;
        lab.node("cp1")?.kill(API_SERVER).await?;
        await_alone(&answering, vip, |owner| owner == "cp3").await?;
        lab.await_api_server_at_vip().await?;
        for node in ["cp1", "cp2"] {
            lab.node(node)?.start_again(API_SERVER)?;
            lab.await_api_server_of(node).await?;
        }

        // Each machine is replaced by a new one with the same name.
        for (node, through) in [("cp1", "cp2"), ("cp2", "cp3"), ("cp3", "cp1")] {
            lab.node(node)?.power_off().await?;
            lab.await_api_server_at_vip().await.with_context(|| format!("without {node}"))?;
            lab.join_control_plane(node, through).await?;
            await_fit(lab, &[node]).await?;
            await_alone(&answering, vip, |_| true).await?;
        }
        lab.await_api_server_at_vip().await
    })
}
