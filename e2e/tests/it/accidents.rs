//! What an admin does by mistake, and what clients notice of it.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, Probe, Protocol, SERVICE_PORT, Signal, await_that, scenario};

use crate::setup::{LIMIT, await_answer, await_event_on, definitions, lab, served};

/// Windlass, and two Services that are answered at these addresses.
async fn two_served(lab: &Lab) -> anyhow::Result<[IpAddr; 2]> {
    let first = served(lab).await?;
    lab.same_backend("two", "web")?;
    lab.load_balancer("two", |_| ()).await?;
    let second = lab.ingress("two", LIMIT).await?;
    await_answer(lab, second).await?;
    Ok([first, second])
}

/// Nobody gave the address up meanwhile: a node that does is silent for as long as it has no object. (The restart of an agent costs a
/// few answers.)
fn was_answered(vip: IpAddr, probe: Probe) -> anyhow::Result<()> {
    let outcome = probe.stop()?;
    ensure!(outcome.sent - outcome.answered < 100, "{vip} was not answered: {outcome:?}");
    Ok(())
}

// shows: threats T-27
#[test]
fn definitions_that_are_deleted_and_made_again_cost_no_answer_and_are_told_on_every_node()
-> anyhow::Result<()> {
    scenario("deleted-definitions", lab(), async |lab| {
        let vips = two_served(lab).await?;
        let mut probes = Vec::new();
        for vip in vips {
            let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(10))?;
            probes.push((vip, lab.await_owner("c1", vip).await?, probe));
        }

        lab.kubectl(&["delete", "-f", &definitions()]).await?;
        for node in ["n1", "n2"] {
            await_event_on(
                lab,
                "Node",
                node,
                "AddressesHeld",
                &["2 of this node's 2 addresses", "for 600 s"],
            )
            .await?;
            let metrics = lab.agent_metrics(node).await?;
            ensure!(metrics.contains("windlass_agent_held_addresses 2\n"), "{node}: {metrics}");
        }
        // A node that starts now goes by its disk.
        let (_, owner, _) = &probes[0];
        let owner = owner.clone();
        lab.stop_agent(&owner, Signal::SIGTERM).await?;
        lab.start_agent(&owner)?;
        for vip in vips {
            await_answer(lab, vip).await?;
        }

        lab.apply(definitions()).await?;
        await_that("the pool is there again", LIMIT, async || {
            lab.pool("default", &["192.0.2.200-192.0.2.250"]).await.map(Some)
        })
        .await?;
        for vip in vips {
            await_that(&format!("{vip} is announced by its object again"), LIMIT, async || {
                let status = lab.virtual_ip(vip).await?.and_then(|vip| vip.status);
                Ok(status.and_then(|status| status.active_node))
            })
            .await?;
        }
        for node in ["n1", "n2"] {
            await_that(&format!("{node} holds nothing any more"), LIMIT, async || {
                let metrics = lab.agent_metrics(node).await?;
                Ok(metrics.contains("windlass_agent_held_addresses 0\n").then_some(()))
            })
            .await?;
        }
        for (vip, _, probe) in probes {
            was_answered(vip, probe)?;
        }
        Ok(())
    })
}

// shows: threats T-27
#[test]
fn what_is_deleted_in_the_foreground_is_announced_until_it_is_gone_and_then_held() -> anyhow::Result<()> {
    scenario("deleted-slowly", lab(), async |lab| {
        let vips = two_served(lab).await?;
        let mut probes = Vec::new();
        for vip in vips {
            probes.push((vip, lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(10))?));
        }

        // Objects deleted so stay, and are marked, until the garbage collector has looked after them, which is not here.
        let kinds = "virtualips.windlass.dev,virtualrouters.windlass.dev";
        lab.kubectl(&["delete", kinds, "--all", "--cascade=foreground", "--wait=false"]).await?;
        for vip in vips {
            let object = lab.virtual_ip(vip).await?.context("it is gone already")?;
            ensure!(object.metadata.deletion_timestamp.is_some(), "{vip} is not being deleted");
            let hosts = lab.neighbours("c1", vip).await?;
            ensure!(hosts.len() == 1, "{hosts:?} answer for {vip}");
        }
        let names = lab.kubectl(&["get", kinds, "--output=name"]).await?;
        let finished = ["--type=merge", "--patch", r#"{"metadata":{"finalizers":null}}"#];
        for name in names.lines() {
            lab.kubectl(&[&["patch", name], &finished[..]].concat()).await?;
        }
        for vip in vips {
            await_that(&format!("{vip} has an object again, and a node announces it"), LIMIT, async || {
                let object = lab.virtual_ip(vip).await?.context("no object")?;
                ensure!(object.metadata.deletion_timestamp.is_none(), "it is being deleted");
                Ok(object.status.and_then(|status| status.active_node))
            })
            .await?;
        }
        for (vip, probe) in probes {
            was_answered(vip, probe)?;
        }
        Ok(())
    })
}
