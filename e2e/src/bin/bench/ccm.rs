//! `make bench-ccm`: what a Service costs from its creation until it is gone, and what a large cluster does when nothing
//! happens or its nodes change; in the light lab with a real etcd, API server, kube-proxy, controller and agent.
//!
//! Everything, the client included, shares this machine.

mod calls;
mod idle;
mod lifecycle;
mod node_changes;
mod report;

use windlass_e2e::{Lab, ProxyMode};

use crate::{results::publish, services, settings};

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let count = settings::number("SERVICES", 500, &(0..=5000))?;
    let idle = idle::Size {
        services: settings::number("IDLE_SERVICES", 10_000, &(0..=60_000))?,
        nodes: settings::number("NODES", 100, &(1..=5000))?,
        minutes: settings::number("IDLE_MINUTES", 6, &(1..=600))?,
    };
    let spread = node_changes::Size {
        services: settings::number("SPREAD_SERVICES", 1000, &(0..=60_000))?,
        nodes: settings::number("SPREAD_NODES", 500, &(5..=5000))?,
        changes: settings::number("SPREAD_CHANGES", 20, &(1..=1000))?,
        beats: settings::number("SPREAD_HEARTBEATS", 6, &(1..=60))?,
    };

    let mut rows = Vec::new();
    if count > 0 {
        println!("bench: {count} Services one after another");
        let lab = services::lab(1).client("c1").proxy_mode(ProxyMode::Iptables);
        let lab = lab.proxy_flag(lifecycle::PROXY_AT_ONCE);
        rows.extend(Lab::run("bench-ccm", lab, async |lab| lifecycle::measure(lab, count).await)?);
        for row in &rows {
            println!("bench: {row}");
        }
    }
    if idle.services > 0 {
        println!("bench: {} Services and {} nodes at rest", idle.services, idle.nodes);
        let lab = services::lab(1).without_proxy();
        rows.extend(Lab::run("bench-ccm", lab, async |lab| idle::measure(lab, idle).await)?);
    }
    if spread.services > 0 {
        println!("bench: changes of nodes, {} Services and {} nodes", spread.services, spread.nodes);
        let lab = services::lab(3).without_proxy();
        rows.extend(Lab::run("bench-ccm", lab, async |lab| node_changes::measure(lab, spread).await)?);
    }
    publish("ccm", "", &rows)
}
