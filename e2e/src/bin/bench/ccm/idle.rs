//! A large cluster in which nothing happens: what Windlass asks the API server all the same, and how much memory it holds.
//!
//! Creating the Services takes most of the time, in the API server (see docs/dev/benchmarks.md). They have no node ports, their
//! cluster addresses are named, so that nobody looks for free ones, and many requests are in flight.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use windlass_e2e::{Bystander, Lab, Memory, Writes, memory_mb, unused_service};

use crate::ccm::{
    calls::{Calls, Process},
    lifecycle::POOL,
    report::{Row, float},
    seen::Seen,
};

/// Requests of the client under way at the same time.
const IN_FLIGHT: usize = 48;
const TELL: Duration = Duration::from_secs(5);
/// How long until all Services have their address.
const LIMIT: Duration = Duration::from_mins(45);

/// What is there, and for how long it is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) services: usize,
    pub(crate) nodes: usize,
    /// More than five: then every node's addresses are looked after once.
    pub(crate) minutes: usize,
}

pub(crate) async fn measure(lab: &Lab, size: Size) -> anyhow::Result<Vec<Row>> {
    let client = lab.client();
    for number in 1..size.nodes {
        // Nobody runs there.
        Bystander::new(&client, u16::try_from(number)?)?.join(true).await?;
    }
    lab.deploy_windlass(&["n1"]).await?;
    lab.announcement("bench", json!({"interfaces": ["eth0"]})).await?;
    lab.pool("bench", &[POOL]).await?;
    let seen = Seen::default();
    let watch = seen.follow(&client);
    let made = async {
        let began = Instant::now();
        services(&client, &seen, size.services).await?;
        println!("bench: all have their address after {:.0} s", began.elapsed().as_secs_f64());
        anyhow::Ok(())
    };
    tokio::select! {
        made = made => made?,
        ended = watch => return Err(ended.context("watching the Services")),
    }
    // The client's own watch has ended. Since then nobody wants anything.
    Writes::settled(&client).await?;
    println!("bench: looking on for {} minutes", size.minutes);
    let before = [Calls::of(lab, Process::Controller).await?, Calls::of(lab, Process::Agent("n1")).await?];
    let began = Instant::now();
    for minute in 1..=size.minutes {
        tokio::time::sleep(Duration::from_mins(1)).await;
        println!("bench: {minute} of {} minutes", size.minutes);
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    let after = [Calls::of(lab, Process::Controller).await?, Calls::of(lab, Process::Agent("n1")).await?];

    let mut rows = Vec::new();
    for (who, (after, before)) in ["controller", "agent"].into_iter().zip(after.into_iter().zip(before)) {
        let Calls { watches, reads, renewals, writes } = after.since(before);
        let mut row = |what: &str, calls: u64| {
            rows.push(Row::new(format!("at rest, {who}: {what}"), float(calls) / minutes, "calls/min"));
        };
        row("watches opened again", watches);
        row("other reads", reads);
        row("renewals of the lease", renewals);
        row("other writes", writes);
    }
    for (who, host) in [("controller", "cp"), ("agent", "n1")] {
        let pid = lab.process_id(host, who)?;
        rows.push(Row::new(
            format!("at rest, {who}: resident memory"),
            memory_mb(pid, Memory::Resident)?,
            "MB",
        ));
        rows.push(Row::new(format!("at rest, {who}: most memory ever"), memory_mb(pid, Memory::Peak)?, "MB"));
    }
    Ok(rows)
}

/// Makes the Services and waits until each shows its address.
pub(crate) async fn services(client: &Client, seen: &Seen, count: usize) -> anyhow::Result<()> {
    let api: Api<Service> = Api::default_namespaced(client.clone());
    let make = |index: usize| {
        let api = api.clone();
        async move {
            let name = format!("idle-{index:05}");
            // The first one is the API server's own.
            let address =
                Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 16).to_bits() + u32::try_from(index)?);
            let mut service = unused_service(&name);
            service["spec"]["clusterIP"] = address.to_string().into();
            let service = serde_json::from_value(service)?;
            api.create(&PostParams::default(), &service)
                .await
                .with_context(|| format!("making Service {name}"))?;
            anyhow::Ok(())
        }
    };
    let create = async {
        let mut answers = stream::iter(0..count).map(make).buffer_unordered(IN_FLIGHT);
        while answers.try_next().await?.is_some() {}
        anyhow::Ok(())
    };
    let tell = async {
        let mut tick = tokio::time::interval(TELL);
        loop {
            tick.tick().await;
            println!("bench: {} of {count} have their address", seen.count());
        }
    };
    let all = async {
        create.await?;
        let complaint = format!("not all of {count} Services have their address");
        seen.wait(&complaint, LIMIT, || (seen.count() >= count).then_some(())).await
    };
    tokio::select! {
        done = all => done,
        () = tell => Ok(()),
    }
}
