//! A control plane begins with one node, grows, is updated, restarted, replaced, and powered on at once.

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use windlass_e2e::{Answering, ApiConnections, Lab, Signal, await_that, scenario};

use super::{API_SERVER, await_alone, await_fit, await_kept, await_unfit, control_plane, vrid};
use crate::setup::LIMIT;

const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];
const FIVE: [&str; 5] = ["cp1", "cp2", "cp3", "cp4", "cp5"];
/// Number of answers that a client has before and after a node dies.
const ANSWERS: u64 = 20;
/// So many events a watch shows after each step: two seconds.
const EVENTS: u64 = 20;

// shows: field-reports F-70
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

// shows: field-reports F-65
#[test]
fn the_first_node_has_the_vip_before_it_has_an_api_server_and_others_join_take_over_and_are_replaced_up_to_five()
-> anyhow::Result<()> {
    let builder = control_plane(&[]).control_plane_nodes(5).late(&["cp2", "cp3", "cp4", "cp5"]);
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

        // A second joins, and nothing moves. Each of the two serves where the other does not.
        join(lab, &answering, "cp2").await?;
        for (dead, other) in [("cp1", "cp2"), ("cp2", "cp1")] {
            lab.node(dead)?.kill(API_SERVER).await?;
            await_alone(&answering, vip, |owner| owner == other).await?;
            lab.await_api_server_at_vip().await?;
            lab.node(dead)?.start_again(API_SERVER)?;
            lab.await_api_server_of(dead).await?;
            await_fit(lab, &[dead]).await?;
        }
        // Of two members of etcd one alone has no quorum.
        lab.node("cp1")?.power_off().await?;
        await_unfit(lab, "cp2").await?;
        await_alone(&answering, vip, |owner| owner == "cp2").await?;
        await_kept(&answering, vip).await?;
        lab.node("cp1")?.power_on().await?;
        for node in ["cp1", "cp2"] {
            lab.await_api_server_of(node).await?;
            await_fit(lab, &[node]).await?;
        }
        lab.await_api_server_at_vip().await?;

        join(lab, &answering, "cp3").await?;

        // It goes only where an API server answers.
        let owner = await_alone(&answering, vip, |owner| owner != "cp3").await?;
        let other = if owner == "cp1" { "cp2" } else { "cp1" };
        lab.node(other)?.kill(API_SERVER).await?;
        await_unfit(lab, other).await?;
        lab.node(&owner)?.kill(API_SERVER).await?;
        await_alone(&answering, vip, |owner| owner == "cp3").await?;
        lab.await_api_server_at_vip().await?;
        for node in ["cp1", "cp2"] {
            lab.node(node)?.start_again(API_SERVER)?;
            lab.await_api_server_of(node).await?;
        }

        // Each machine is replaced by a new one with the same name, which learns the VRID from the LAN.
        let learned = vrid(lab, "cp3").await?;
        for (node, through) in [("cp1", "cp2"), ("cp2", "cp3"), ("cp3", "cp1")] {
            lab.node(node)?.power_off().await?;
            lab.await_api_server_at_vip().await.with_context(|| format!("without {node}"))?;
            lab.join_control_plane(node, through).await?;
            await_fit(lab, &[node]).await?;
            await_alone(&answering, vip, |_| true).await?;
            ensure!(vrid(lab, node).await? == learned, "{node} has another VRID than {learned}");
        }
        lab.await_api_server_at_vip().await?;

        // There are five. Two of them die, those that have the VIP one after the other; then a third, and with it the quorum.
        for node in ["cp4", "cp5"] {
            join(lab, &answering, node).await?;
            ensure!(vrid(lab, node).await? == learned, "{node} has another VRID than {learned}");
        }
        let mut left = FIVE.to_vec();
        for _ in 0..2 {
            let owner = await_alone(&answering, vip, |_| true).await?;
            let client = lab.api_probe("c2", vip, ApiConnections::New)?;
            client.await_answers(ANSWERS).await?;
            lab.node(&owner)?.power_off().await?;
            left.retain(|node| *node != owner);
            await_alone(&answering, vip, |node| left.contains(&node)).await?;
            client.await_answers(ANSWERS).await?;
            println!("{}: {owner} dies, {left:?} are left: {:?}", lab.name(), client.stop()?);
        }
        let owner = await_alone(&answering, vip, |_| true).await?;
        let third = left.iter().position(|node| *node != owner).context("one node")?;
        lab.node(left.remove(third))?.power_off().await?;
        for node in &left {
            await_unfit(lab, node).await?;
        }
        await_kept(&answering, vip).await?;

        // All are powered off, and on at once.
        for node in &left {
            lab.node(node)?.power_off().await?;
        }
        try_join_all(lab.control_plane_nodes().map(async |node| node.power_on().await)).await?;
        lab.await_api_server_at_vip().await?;
        // Five that start at once take longer than their checks need to see it.
        for node in FIVE {
            lab.await_api_server_of(node).await?;
        }
        await_fit(lab, &FIVE).await?;
        await_alone(&answering, vip, |_| true).await?;
        lab.await_api_server_at_vip().await
    })
}

/// A node joins, and the VIP does not move.
async fn join(lab: &Lab, answering: &Answering, node: &str) -> anyhow::Result<()> {
    let vip = lab.api_vip();
    let owner = await_alone(answering, vip, |_| true).await?;
    let client = lab.api_probe("c2", vip, ApiConnections::New)?;
    lab.join_control_plane(node, &owner).await?;
    await_fit(lab, &[node]).await?;
    println!("{}: {node} joins: {:?}", lab.name(), client.stop()?);
    await_alone(answering, vip, |still| still == owner).await.map(drop)
}
