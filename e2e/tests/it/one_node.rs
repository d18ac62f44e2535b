//! A cluster that begins with one node, which nobody stands in for; it grows, and loses the first.

use std::time::Duration;

use anyhow::ensure;
use windlass_e2e::{
    ControllerOptions, EndpointState, Lab, LoadOptions, Protocol, SERVICE_PORT, Signal, await_that, scenario,
};

use crate::{
    local::await_served_by,
    setup::{LIMIT, router_of},
};

const CLIENT: LoadOptions = LoadOptions { connections: 10, requests_per_second: 40 };

// shows: field-reports F-06, F-07
#[test]
fn one_node_serves_through_restarts_of_all_that_runs_on_it_then_a_second_joins_and_outlives_it()
-> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).client("c1").light().late(&["n2"]);
    scenario("one-node", builder, async |lab| {
        lab.deploy_windlass(&["n1"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &["n1"]).await?;
        let service = lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        await_served_by(lab, vip, "n1").await?;

        // An update of the agent, and its crash.
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let client = lab.load("c1", vip, SERVICE_PORT, CLIENT).await?;
            lab.stop_agent("n1", signal).await?;
            lab.start_agent("n1")?;
            await_served_by(lab, vip, "n1").await?;
            let seen = client.stop()?;
            ensure!(seen.failed == 0 && seen.broken == 0, "agent stopped by {signal}: {seen:?}");
        }

        // All that runs on it starts anew, and nobody tells it what to announce.
        lab.stop_controller("controller", Signal::SIGKILL).await?;
        lab.stop_api_server().await?;
        let n1 = lab.node("n1")?;
        n1.kill("kube-proxy").await?;
        lab.stop_agent("n1", Signal::SIGKILL).await?;
        let nobody = lab.neighbours("c1", vip).await?;
        ensure!(nobody.is_empty(), "{nobody:?} answer for {vip} although no agent runs");
        n1.start_again("kube-proxy")?;
        lab.start_agent("n1")?;
        await_served_by(lab, vip, "n1").await?;
        lab.start_api_server().await?;
        lab.start_controller(ControllerOptions::default())?;
        ensure!(lab.ingress("web", LIMIT).await? == vip, "web has another address than {vip}");

        // It grows: nothing moves.
        let client = lab.load("c1", vip, SERVICE_PORT, CLIENT).await?;
        lab.join("n2", &[]).await?;
        lab.start_agent("n2")?;
        await_that("n2 is known to n1", LIMIT, async || {
            let nodes = router_of(lab, vip).await?.spec.nodes;
            ensure!(nodes.len() == 2 && nodes.iter().all(|node| !node.joining), "{nodes:?}");
            Ok(Some(()))
        })
        .await?;
        await_served_by(lab, vip, "n1").await?;
        let seen = client.stop()?;
        ensure!(seen.failed == 0 && seen.broken == 0, "n2 joined: {seen:?}");

        // It loses the first.
        lab.backend("web", &["n2"]).await?;
        let on_n2 = |node: &str| (node == "n2").then_some(EndpointState::Ready);
        lab.write_endpoints(&service, on_n2).await?;
        await_that("only web-n2 answers", LIMIT, async || {
            let answer = lab.curl("c1", vip, SERVICE_PORT).await?;
            ensure!(answer == "web-n2", "{answer} answers");
            Ok(Some(()))
        })
        .await?;
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(1))?;
        n1.power_off().await?;
        await_served_by(lab, vip, "n2").await?;
        println!("one-node: {} ms without an answer", probe.stop()?.longest_gap.as_millis());
        ensure!(lab.ingress("web", LIMIT).await? == vip, "web has another address than {vip}");
        Ok(())
    })
}
