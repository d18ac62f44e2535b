//! The address moves when its node cannot serve it any more, and is never answered from two nodes afterwards.

use std::time::Duration;

use anyhow::ensure;
use windlass_e2e::{Lab, Protocol, SERVICE_PORT, Signal, await_that, scenario};

use crate::setup::{LIMIT, await_answer, lab, other, served};

// shows: allocation 26, 27, 92
#[test]
fn address_is_announced_by_exactly_one_node_and_a_client_reaches_the_backend() -> anyhow::Result<()> {
    scenario("announced", lab(), async |lab| {
        let vip = served(lab).await?;
        assert_eq!(vip.to_string(), "192.0.2.200", "the lowest free address is given");
        let owner = lab.await_owner("c1", vip).await?;
        await_that("the VirtualIP says who announces it", LIMIT, async || {
            let status = lab.virtual_ip(vip).await?.and_then(|vip| vip.status).unwrap_or_default();
            ensure!(status.active_node.as_deref() == Some(owner.as_str()), "{status:?}, but {owner} answers");
            let announced = status.conditions.iter().find(|c| c.type_ == windlass_api::CONDITION_ANNOUNCED);
            ensure!(announced.is_some_and(|c| c.status == "True"), "{status:?}");
            Ok(Some(()))
        })
        .await?;
        let events = lab.events_of("Service", "web").await?;
        ensure!(
            events.contains("EnsuredLoadBalancer: Ensured load balancer"),
            "events of the Service: {events:?}"
        );
        Ok(())
    })
}

// shows: allocation 99; field-reports F-05, F-14; placement P-01
#[test]
fn pulled_cable_moves_the_address_and_the_plugged_one_makes_no_second_owner() -> anyhow::Result<()> {
    fails_over(
        "cable",
        async |lab, owner| lab.node(owner)?.pull_cable(),
        async |lab, owner| lab.node(owner)?.plug_cable(),
    )
}

// shows: allocation 99; field-reports F-13; placement P-01
#[test]
fn killed_agent_loses_the_address_and_makes_no_second_owner_when_it_starts_again() -> anyhow::Result<()> {
    fails_over(
        "killed",
        async |lab, owner| lab.stop_agent(owner, Signal::SIGKILL).await,
        async |lab, owner| lab.start_agent(owner),
    )
}

// shows: field-reports F-15
#[test]
fn stopped_agent_hands_the_address_over() -> anyhow::Result<()> {
    fails_over(
        "stopped",
        async |lab, owner| lab.stop_agent(owner, Signal::SIGTERM).await,
        async |lab, owner| lab.start_agent(owner),
    )
}

// shows: field-reports F-10, F-13; placement P-01
#[test]
fn frozen_agent_loses_the_address_and_listens_before_it_speaks_again() -> anyhow::Result<()> {
    fails_over(
        "frozen",
        async |lab, owner| lab.node(owner)?.freeze_agent(),
        async |lab, owner| lab.node(owner)?.thaw_agent(),
    )
}

#[test]
fn without_an_api_server_the_address_still_moves_and_agents_start_again() -> anyhow::Result<()> {
    scenario("no-api-server", lab(), async |lab| {
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        lab.stop_api_server().await?;
        lab.stop_agent(&owner, Signal::SIGKILL).await?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        await_answer(lab, vip).await?;

        // The last agent ends as well: nobody is left, and nobody can ask what to announce.
        lab.stop_agent(other(&owner), Signal::SIGKILL).await?;
        let nobody = lab.neighbours("c1", vip).await?;
        ensure!(nobody.is_empty(), "{nobody:?} answered for {vip} although every agent was killed");
        lab.start_agent("n1")?;
        lab.start_agent("n2")?;
        lab.await_owner("c1", vip).await?;
        await_answer(lab, vip).await?;

        lab.start_api_server().await?;
        let same = lab.ingress("web", LIMIT).await?;
        ensure!(same == vip, "the address changed from {vip} to {same}");
        lab.await_owner("c1", vip).await?;
        await_answer(lab, vip).await
    })
}

/// `fault` on the node that owns the address: another one answers the client. `repair`: one of them does, and only one.
fn fails_over(
    name: &str,
    fault: impl AsyncFnOnce(&Lab, &str) -> anyhow::Result<()> + Send,
    repair: impl AsyncFnOnce(&Lab, &str) -> anyhow::Result<()> + Send,
) -> anyhow::Result<()> {
    scenario(name, lab(), async |lab| {
        let vip = served(lab).await?;
        let owner = lab.await_owner("c1", vip).await?;
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(1))?;
        fault(lab, &owner).await?;
        lab.await_owner_other_than("c1", vip, &owner).await?;
        await_answer(lab, vip).await?;
        let outcome = probe.stop()?;
        ensure!(outcome.answered > 0, "the probe was never answered: {outcome:?}");
        println!("{name}: {} ms without an answer", outcome.longest_gap.as_millis());

        repair(lab, &owner).await?;
        lab.await_owner("c1", vip).await?;
        await_answer(lab, vip).await
    })
}
