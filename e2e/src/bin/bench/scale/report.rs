//! `target/bench/scale.json` and the table on the terminal.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::write_rows;

use crate::scale::usage::Cpu;

/// What was measured at one size.
pub(crate) struct Figures {
    pub(crate) services: usize,
    /// Until the API server had accepted them without Windlass, and with it.
    pub(crate) alone: Duration,
    pub(crate) accepted: Duration,
    /// Until all showed their address.
    pub(crate) assigned: Duration,
    pub(crate) writes: BTreeMap<String, u64>,
    /// From the first creation until nothing was written any more.
    pub(crate) spent: Cpu,
    pub(crate) controller_peak_mb: f64,
    pub(crate) agent_peak_mb: f64,
    /// From the start of a new controller until it had looked at all Services.
    pub(crate) restart: Duration,
    /// Processor seconds of the new controller until then.
    pub(crate) restart_cpu: f64,
    pub(crate) restart_writes: BTreeMap<String, u64>,
    /// From the creation of a single Service until it showed its address.
    pub(crate) one_more: Duration,
    /// What `windlass status` takes.
    pub(crate) status: Duration,
}

/// The same for people and their programs.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    services: usize,
    accepted_alone_s: f64,
    accepted_s: f64,
    assigned_s: f64,
    writes_per_service: f64,
    /// Per Service, by verb and resource.
    writes: BTreeMap<String, f64>,
    peak_mb: f64,
    agent_peak_mb: f64,
    restart_s: f64,
    restart_cpu_s: f64,
    restart_writes: u64,
    one_more_ms: f64,
    status_ms: f64,
    cpu_s: Cpu,
}

impl Row {
    /// Rounded to what the measurement can tell.
    pub(crate) fn new(figures: Figures) -> Self {
        let count = f64::from(u32::try_from(figures.services).unwrap_or(u32::MAX));
        let per_service = |writes: u64| f64::from(u32::try_from(writes).unwrap_or(u32::MAX)) / count;
        let seconds = |time: Duration| rounded(time.as_secs_f64(), 100.0);
        let Cpu { controller, agents, apiserver, etcd, client } = figures.spent;
        Self {
            services: figures.services,
            accepted_alone_s: seconds(figures.alone),
            accepted_s: seconds(figures.accepted),
            assigned_s: seconds(figures.assigned),
            writes_per_service: rounded(per_service(figures.writes.values().sum()), 100.0),
            writes: figures
                .writes
                .into_iter()
                .map(|(name, writes)| (name, rounded(per_service(writes), 10_000.0)))
                .collect(),
            peak_mb: rounded(figures.controller_peak_mb, 10.0),
            agent_peak_mb: rounded(figures.agent_peak_mb, 10.0),
            restart_s: seconds(figures.restart),
            restart_cpu_s: rounded(figures.restart_cpu, 100.0),
            restart_writes: figures.restart_writes.values().sum(),
            one_more_ms: rounded(figures.one_more.as_secs_f64() * 1000.0, 10.0),
            status_ms: rounded(figures.status.as_secs_f64() * 1000.0, 10.0),
            cpu_s: Cpu {
                controller: rounded(controller, 100.0),
                agents: rounded(agents, 100.0),
                apiserver: rounded(apiserver, 100.0),
                etcd: rounded(etcd, 100.0),
                client: rounded(client, 100.0),
            },
        }
    }
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:6} Services: accepted in {:6.2} s ({:.2} s without Windlass), assigned in {:6.2} s; {:.2} writes each; \
             controller {:.1} MB, agent {:.1} MB at most; restart {:.2} s ({:.2} s of a processor), {} writes; one more {:.1} ms; \
             windlass status {:.1} ms",
            self.services,
            self.accepted_s,
            self.accepted_alone_s,
            self.assigned_s,
            self.writes_per_service,
            self.peak_mb,
            self.agent_peak_mb,
            self.restart_s,
            self.restart_cpu_s,
            self.restart_writes,
            self.one_more_ms,
            self.status_ms
        )
    }
}

/// Writes the rows and says where.
pub(crate) fn write(rows: &[Row]) -> anyhow::Result<()> {
    let file = write_rows("scale", &rows)?;
    println!("\nServices created at once, 32 requests in flight:");
    for row in rows {
        println!("  {row}");
        let Cpu { controller, agents, apiserver, etcd, client } = row.cpu_s;
        println!(
            "         processor seconds: controller {controller}, agents {agents}, API server {apiserver}, etcd {etcd}, \
             client {client}"
        );
        let writes: Vec<String> = row.writes.iter().map(|(name, count)| format!("{name} {count}")).collect();
        println!("         writes per Service: {}", writes.join(", "));
    }
    println!("{}", file.display());
    Ok(())
}
