//! `make bench-scale`: many Services created at once, in the light lab with a real etcd, API server, controller and agents.
//!
//! For each size two labs, one after the other. In the first there is no Windlass: how long the API server takes to accept
//! the Services, left alone. In the second the same Services are created, with as many requests in flight, while Windlass
//! gives each its address; then the controller is started anew; then a few Services more are made one by one, and `windlass status` is
//! asked about all of it.
//!
//! There are no kube-proxies and the Services have no node ports (of which a cluster has 2,768): neither has a part in
//! giving addresses. Everything, the client that creates the Services included, shares this machine.

mod controller;
mod creation;
mod report;
mod shown;
mod status;
mod usage;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::json;
use windlass_e2e::{ControllerOptions, Lab, LabBuilder, Signal, Writes};

use self::{creation::Batch, report::Row, shown::Shown, usage::Usage};

const SIZES: &str = "1000 4000 10000";
const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// Services made one by one at the end; the figure is their median.
const MORE: usize = 9;
/// Addresses for all of them, on the nodes' `eth0`.
const POOL: &str = "198.19.0.0/16";
/// Their cluster addresses.
const SERVICE_RANGE: &str = "198.18.0.0/16";
const LIMIT: Duration = Duration::from_mins(30);

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for size in sizes()? {
        println!("bench: {size} Services without Windlass");
        let alone = Lab::run("bench-scale", lab(), async |lab| {
            lab.install_manifests().await?;
            creation::create(&lab.client(), Batch { name: "scale", count: size }).await
        })?;
        println!("bench: {size} Services with Windlass");
        let row = Lab::run("bench-scale", lab(), async |lab| measure(lab, size, alone).await)?;
        println!("bench: {row}");
        rows.push(row);
    }
    report::write(&rows)
}

fn sizes() -> anyhow::Result<Vec<usize>> {
    let text = std::env::var("SIZES").unwrap_or_else(|_| SIZES.to_owned());
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let size = |word: &str| {
        let size = word.parse().ok().filter(|size| (1..=60_000).contains(size));
        size.with_context(|| format!("SIZES={text:?}: {word:?} is no number of Services from 1 to 60000"))
    };
    words.map(size).collect()
}

fn lab() -> LabBuilder {
    Lab::builder().nodes(3).light().without_proxy().service_range(SERVICE_RANGE).interactive()
}

async fn measure(lab: &Lab, size: usize, alone: Duration) -> anyhow::Result<Row> {
    lab.deploy_windlass(&NODES).await?;
    make_pool(lab).await?;
    let client = lab.client();
    let shown = Shown::default();
    let watch = shown.follow(&client);
    let measured = async {
        let before = Writes::settled(&client).await?;
        let idle = Usage::of(lab)?;
        let began = Instant::now();
        let (accepted, assigned) =
            tokio::try_join!(creation::create(&client, Batch { name: "scale", count: size }), async {
                shown.reach(size, LIMIT).await?;
                Ok(began.elapsed())
            },)?;
        println!("bench: accepted in {accepted:.1?}, all have their address after {assigned:.1?}");
        let after = Writes::settled(&client).await?;
        let busy = Usage::of(lab)?;
        let writes = after.since(&before);

        lab.stop_controller("controller", Signal::SIGTERM).await?;
        let stopped = Writes::settled(&client).await?;
        let started = Instant::now();
        lab.start_controller(ControllerOptions::default())?;
        controller::await_looked_at(lab, size, LIMIT).await?;
        let restart = started.elapsed();
        println!("bench: a new controller has looked at all of them after {restart:.1?}");
        let restarted = Writes::settled(&client).await?;
        let restart_writes = restarted.since(&stopped);
        let again = Usage::of(lab)?;

        let mut more = Vec::new();
        for index in 0..MORE {
            let began = Instant::now();
            let name = format!("more-{index}");
            creation::create(&client, Batch { name: &name, count: 1 }).await?;
            shown.reach(size + index + 1, LIMIT).await?;
            more.push(began.elapsed());
        }
        more.sort();
        let status = status::time(lab, size + MORE).await?;
        let spent = busy.since(&idle);
        Ok(Row::new(report::Figures {
            services: size,
            alone,
            accepted,
            assigned,
            writes,
            spent,
            controller_peak_mb: busy.controller_peak_mb.max(again.controller_peak_mb),
            agent_peak_mb: again.agent_peak_mb,
            restart,
            restart_cpu: again.cpu.controller,
            restart_writes,
            one_more: more[MORE / 2],
            status,
        }))
    };
    tokio::select! {
        measured = measured => measured,
        ended = watch => Err(ended.context("watching the Services")),
    }
}

/// A pool that is large enough. Its addresses are in no subnet of the nodes: an Announcement names their interface.
async fn make_pool(lab: &Lab) -> anyhow::Result<()> {
    lab.announcement("scale", json!({"interfaces": ["eth0"]})).await?;
    let made = lab.pool("scale", &[POOL]).await?;
    ensure!(made.metadata.uid.is_some(), "the pool has no UID");
    Ok(())
}
