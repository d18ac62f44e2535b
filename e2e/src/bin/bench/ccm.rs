//! `make bench-ccm`: what a Service costs from its creation until it is gone, and what a large cluster does when nothing
//! happens or its nodes change; in the light lab with a real etcd, API server, kube-proxy, controller and agent.
//!
//! Everything, the client included, shares this machine.

mod calls;
mod idle;
mod lifecycle;
mod node_changes;
mod report;
mod seen;

use windlass_e2e::{Lab, LabBuilder, ProxyMode, command};

/// Runs the benchmark.
pub(crate) fn bench() -> anyhow::Result<()> {
    let services = command::number("SERVICES", 500, 0, 5000)?;
    let idle_services = command::number("IDLE_SERVICES", 10_000, 0, 60_000)?;
    let nodes = command::number("NODES", 100, 1, 5000)?;
    let minutes = command::number("IDLE_MINUTES", 6, 1, 600)?;

    let spread_services = command::number("SPREAD_SERVICES", 1000, 0, 60_000)?;
    let spread = node_changes::Size {
        services: spread_services,
        nodes: u16::try_from(command::number("SPREAD_NODES", 500, 5, 5000)?)?,
        changes: u16::try_from(command::number("SPREAD_CHANGES", 20, 1, 1000)?)?,
        beats: u8::try_from(command::number("SPREAD_HEARTBEATS", 6, 1, 60)?)?,
    };

    let mut rows = Vec::new();
    if services > 0 {
        println!("bench: {services} Services one after another");
        let lab = small_lab(1).client("c1").proxy_mode(ProxyMode::Iptables);
        let lab = lab.proxy_flag(lifecycle::PROXY_AT_ONCE);
        rows.extend(Lab::run("bench-ccm", lab, async |lab| lifecycle::measure(lab, services).await)?);
        for row in &rows {
            println!("bench: {row}");
        }
    }
    if idle_services > 0 {
        println!("bench: {idle_services} Services and {nodes} nodes at rest");
        let size = idle::Size { services: idle_services, nodes, minutes };
        let lab = small_lab(1).without_proxy();
        rows.extend(Lab::run("bench-ccm", lab, async |lab| idle::measure(lab, size).await)?);
    }
    if spread_services > 0 {
        println!("bench: changes of nodes, {spread_services} Services and {} nodes", spread.nodes);
        let lab = small_lab(3).without_proxy();
        rows.extend(Lab::run("bench-ccm", lab, async |lab| node_changes::measure(lab, spread).await)?);
    }
    report::write(&rows)
}

fn small_lab(nodes: u8) -> LabBuilder {
    Lab::builder().nodes(nodes).light().service_range(lifecycle::SERVICE_RANGE).interactive()
}
