//! `target/bench/scale.json` and the table on the terminal.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;
use windlass_e2e::statistics::{float, rounded};

use super::usage::Cpu;

/// Figures of one size, rounded to what the measurement can tell.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) services: usize,
    /// Until the API server had accepted the Services without Windlass, and with it.
    pub(crate) accepted_alone_s: f64,
    pub(crate) accepted_s: f64,
    /// Until all showed their address.
    pub(crate) assigned_s: f64,
    #[serde(flatten)]
    pub(crate) writes: Writing,
    pub(crate) peak_mb: f64,
    pub(crate) agent_peak_mb: f64,
    /// From the start of a new controller until it had looked at all Services.
    pub(crate) restart_s: f64,
    /// Processor seconds of the new controller until then.
    pub(crate) restart_cpu_s: f64,
    pub(crate) restart_writes: u64,
    /// From the creation of a single Service until it showed its address.
    pub(crate) one_more_ms: f64,
    /// Duration of `windlass status`.
    pub(crate) status_ms: f64,
    /// From the first creation until nothing was written any more.
    pub(crate) cpu_s: Cpu,
}

/// Writes per Service.
#[derive(Debug, Serialize)]
pub(crate) struct Writing {
    writes_per_service: f64,
    /// By verb and resource.
    writes: BTreeMap<String, f64>,
}

impl Writing {
    /// Divides writes by the number of Services.
    pub(crate) fn new(writes: BTreeMap<String, u64>, services: usize) -> Self {
        let each = |writes: u64, parts| rounded(float(writes) / float(services as u64), parts);
        Self {
            writes_per_service: each(writes.values().sum(), 100.0),
            writes: writes.into_iter().map(|(name, writes)| (name, each(writes, 10_000.0))).collect(),
        }
    }
}

/// Seconds, in hundredths.
pub(crate) fn seconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64(), 100.0)
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            services, accepted_alone_s, accepted_s, assigned_s, writes, peak_mb, agent_peak_mb, ..
        } = self;
        let Self { restart_s, restart_cpu_s, restart_writes, one_more_ms, status_ms, cpu_s, .. } = self;
        let Writing { writes_per_service, writes } = writes;
        let Cpu { controller, agents, apiserver, etcd, client } = cpu_s;
        writeln!(
            f,
            "{services:6} Services: accepted in {accepted_s:6.2} s ({accepted_alone_s:.2} s without Windlass), assigned in \
             {assigned_s:6.2} s; {writes_per_service:.2} writes each; controller {peak_mb:.1} MB, agent {agent_peak_mb:.1} MB \
             at most; restart {restart_s:.2} s ({restart_cpu_s:.2} s of a processor), {restart_writes} writes; one more \
             {one_more_ms:.1} ms; windlass status {status_ms:.1} ms"
        )?;
        writeln!(
            f,
            "         processor seconds: controller {controller}, agents {agents}, API server {apiserver}, etcd {etcd}, \
             client {client}"
        )?;
        let writes: Vec<String> = writes.iter().map(|(name, count)| format!("{name} {count}")).collect();
        write!(f, "         writes per Service: {}", writes.join(", "))
    }
}
