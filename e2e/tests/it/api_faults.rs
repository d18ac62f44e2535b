//! Controllers that freeze, leases in which somebody writes, an API server and an etcd that hang or die: meanwhile every
//! address stays where it is, and afterwards everything is made up for.

mod candidates;
mod election;
mod restored;
mod server;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Event, Service};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use windlass_e2e::{Lab, Probe, Protocol, SERVICE_PORT, await_that};

use crate::{
    service_side::record::Record,
    setup::{LIMIT, await_answer, services},
};

/// How long it may take until everything is in order again: a lease runs out, back-offs end.
const CALM: Duration = Duration::from_mins(2);
/// Shorter than usual, so that the tests are: a leader that cannot renew ends after 4 s, another one leads after 5 s.
const ELECTION: [&str; 3] = [
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=500ms",
];
/// Events about one Service, repetitions counted: two each when it is made and deleted, and one where the node that comes first was slower
/// than the next.
const EVENTS: i32 = 5;

/// A client that asks `web` all the time, and a record of all that Services show.
struct Observer<'a> {
    lab: &'a Lab,
    vip: IpAddr,
    probe: Probe,
    record: Record,
}

impl<'a> Observer<'a> {
    /// Serves `web` and begins to ask it. A controller runs already.
    async fn start(lab: &'a Lab) -> anyhow::Result<Self> {
        for agent in ["n1", "n2"] {
            lab.start_agent(agent)?;
        }
        lab.pool_with("default", &["192.0.2.110-192.0.2.250"], json!({"quarantineSeconds": 3600})).await?;
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", |_| ()).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        await_answer(lab, vip).await?;
        let probe = lab.probe("c1", Protocol::Udp, vip, SERVICE_PORT, Duration::from_millis(10))?;
        Ok(Self { lab, vip, probe, record: Record::start(lab) })
    }

    /// Nobody was without an answer, no Service ever showed a second address, and no two the same one.
    async fn finish(self) -> anyhow::Result<()> {
        await_answer(self.lab, self.vip).await?;
        let outcome = self.probe.stop()?;
        println!(
            "{}: {} of {} answered, {} ms at most without an answer",
            self.lab.name(),
            outcome.answered,
            outcome.sent,
            outcome.longest_gap.as_millis()
        );
        // (A few may be under way when it stops.)
        ensure!(outcome.sent - outcome.answered < 10, "answers were lost: {outcome:?}");
        let mut holders = BTreeMap::new();
        for (name, seen) in self.record.stop(&services(self.lab, "default")).await? {
            let shown: BTreeSet<_> = seen.iter().flatten().filter_map(|entry| entry.ip.clone()).collect();
            ensure!(shown.len() <= 1, "{name} showed {seen:?}");
            // Whatever is released rests for longer than the test lasts.
            for address in shown {
                if let Some(other) = holders.insert(address.clone(), name.clone()) {
                    anyhow::bail!("{address} was shown by {other} and by {name}");
                }
            }
        }
        Ok(())
    }
}

/// Names of Services.
fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}-{index}")).collect()
}

/// Makes Services, all at once; tries again while there is no API server.
async fn make(lab: &Lab, names: &[String]) -> anyhow::Result<()> {
    let api = services(lab, "default");
    try_join_all(names.iter().map(async |name| {
        let service: Service = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "allocateLoadBalancerNodePorts": false},
        }))?;
        await_that(&format!("Service {name} is made"), CALM, async || {
            match api.create(&PostParams::default(), &service).await {
                Ok(_) => Ok(Some(())),
                // Made by a request whose answer was lost.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(Some(())),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }))
    .await?;
    Ok(())
}

/// Deletes Services, all at once, and waits until they are gone; tries again while there is no API server.
async fn remove(lab: &Lab, names: &[String]) -> anyhow::Result<()> {
    let api = services(lab, "default");
    try_join_all(names.iter().map(async |name| {
        await_that(&format!("Service {name} is gone"), CALM, async || {
            let Some(service) = api.get_opt(name).await? else { return Ok(Some(())) };
            if service.metadata.deletion_timestamp.is_none() {
                api.delete(name, &DeleteParams::default()).await?;
            }
            anyhow::bail!("its finalizers are {:?}", service.finalizers())
        })
        .await
    }))
    .await?;
    Ok(())
}

/// Waits until each of the Services shows an address.
async fn await_served(lab: &Lab, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        lab.ingress(name, CALM).await?;
    }
    Ok(())
}

/// Checks that nobody was told more about a Service than there is to tell.
async fn few_events(lab: &Lab) -> anyhow::Result<()> {
    let about = ListParams::default().fields("involvedObject.kind=Service");
    let events = Api::<Event>::all(lab.client()).list(&about).await?.items;
    let mut told = BTreeMap::<String, (i32, Vec<String>)>::new();
    // What the API server tells of its own repairs after a restart is not ours.
    let ours = |event: &Event| event.reason.as_ref().is_none_or(|reason| !reason.starts_with("ClusterIP"));
    for event in events.into_iter().filter(ours) {
        let name = event.involved_object.name.context("an event about nothing")?;
        let (count, words) = told.entry(name).or_default();
        let times = event.count.unwrap_or(1).max(1);
        *count += times;
        let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
        words.push(format!("{times} × {reason}: {message}"));
    }
    let most = told.values().map(|(count, _)| *count).max().unwrap_or_default();
    println!("{}: {most} events at most about each of {} Services", lab.name(), told.len());
    for (name, (count, words)) in told {
        ensure!(count <= EVENTS, "there are {count} events about {name}: {words:#?}");
    }
    Ok(())
}
