//! `make bench-scale`: many Services created at once, in the light lab with a real etcd, API server, controller and agents.
//!
//! For each size two labs, one after the other. In the first there is no Windlass: how long the API server takes to accept
//! the Services, left alone. In the second the same Services are created, with as many requests in flight, while Windlass
//! gives each its address; then the controller is started anew; then a few Services more are made one by one, and `windlass status` is
//! asked about all of it.
//!
//! There are no kube-proxies and the Services have no node ports (of which a cluster has 2,768): neither has a part in
//! giving addresses. Everything, the client that creates the Services included, shares this machine.

mod report;
mod times;
pub(crate) mod usage;

use std::time::{Duration, Instant};

use kube::Client;
use windlass_e2e::{
    ControllerOptions, Lab, Signal, Writes,
    statistics::{Sorted, milliseconds, rounded},
    unused_service,
};

use self::{
    report::{Row, Writing, seconds},
    usage::Usage,
};
use crate::{
    results::publish,
    seen::Seen,
    services::{self, POOL, create},
    settings,
};

const SIZES: [usize; 3] = [1000, 4000, 10_000];
const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// Services made one by one at the end; the figure is their median.
const MORE: usize = 9;
/// Requests of the client under way at the same time.
const IN_FLIGHT: usize = 32;
const LIMIT: Duration = Duration::from_mins(30);

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for size in settings::numbers("SIZES", &SIZES, &(1..=60_000))? {
        let lab = || services::lab(3).without_proxy();
        println!("bench: {size} Services without Windlass");
        let alone = Lab::run("bench-scale", lab(), async |lab| {
            lab.install_manifests().await?;
            create_many(&lab.client(), size).await
        })?;
        println!("bench: {size} Services with Windlass");
        let row = Lab::run("bench-scale", lab(), async |lab| measure(lab, size, alone).await)?;
        println!("bench: {row}");
        rows.push(row);
    }
    publish("scale", "Services created at once, 32 requests in flight:", &rows)
}

/// Creates Services; returns how long it took until the API server had accepted the last one.
async fn create_many(client: &Client, count: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let all = (0..count).map(|index| unused_service(&format!("scale-{index:05}")));
    create(client, all, IN_FLIGHT).await?;
    Ok(began.elapsed())
}

async fn measure(lab: &Lab, size: usize, alone: Duration) -> anyhow::Result<Row> {
    lab.deploy_windlass(&NODES).await?;
    services::pool(lab, POOL, "eth0").await?;
    let client = lab.client();
    let seen = Seen::default();
    let watch = seen.follow(&client);
    tokio::select! {
        measured = measure_seen(lab, &client, &seen, size, alone) => measured,
        ended = watch => Err(ended),
    }
}

async fn measure_seen(
    lab: &Lab,
    client: &Client,
    seen: &Seen,
    size: usize,
    alone: Duration,
) -> anyhow::Result<Row> {
    let before = Writes::settled(client).await?;
    let idle = Usage::of(lab)?;
    let began = Instant::now();
    let (accepted, assigned) = tokio::try_join!(create_many(client, size), async {
        seen.reach(size, LIMIT).await?;
        Ok(began.elapsed())
    })?;
    println!("bench: accepted in {accepted:.1?}, all have their address after {assigned:.1?}");
    let writes = Writing::new(Writes::settled(client).await?.since(&before), size);
    let busy = Usage::of(lab)?;

    lab.stop_controller("controller", Signal::SIGTERM).await?;
    let stopped = Writes::settled(client).await?;
    let started = Instant::now();
    lab.start_controller(ControllerOptions::default())?;
    times::await_looked_at(lab, size, LIMIT).await?;
    let restart = started.elapsed();
    println!("bench: a new controller has looked at all of them after {restart:.1?}");
    let restart_writes = Writes::settled(client).await?.since(&stopped);
    let again = Usage::of(lab)?;

    let one_more = create_one_by_one(client, seen, size).await?;
    let status = times::status(lab, size + MORE).await?;
    Ok(Row {
        services: size,
        accepted_alone_s: seconds(alone),
        accepted_s: seconds(accepted),
        assigned_s: seconds(assigned),
        writes,
        peak_mb: rounded(busy.controller_peak_mb.max(again.controller_peak_mb), 10.0),
        agent_peak_mb: rounded(again.agent_peak_mb, 10.0),
        restart_s: seconds(restart),
        restart_cpu_s: rounded(again.cpu.controller, 100.0),
        restart_writes: restart_writes.values().sum(),
        one_more_ms: milliseconds(one_more),
        status_ms: milliseconds(status),
        cpu_s: busy.since(&idle),
    })
}

/// Creates some Services more, each when the one before shows its address; returns the median of how long it took.
async fn create_one_by_one(client: &Client, seen: &Seen, size: usize) -> anyhow::Result<Option<Duration>> {
    let mut times = Vec::new();
    for index in 0..MORE {
        let began = Instant::now();
        let service = unused_service(&format!("more-{index}"));
        create(client, std::iter::once(service), 1).await?;
        seen.reach(size + index + 1, LIMIT).await?;
        times.push(began.elapsed());
    }
    Ok(times.into_iter().collect::<Sorted<_>>().median())
}
