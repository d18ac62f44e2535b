//! `make bench-ccm`: what a Service costs from its creation until it is gone, and what a large cluster does when nothing
//! happens; in the light lab with a real etcd, API server, kube-proxy, controller and agent.
//!
//! Everything, the client included, shares this machine.

mod calls;
mod idle;
mod lifecycle;
mod report;
mod seen;
mod setting;

use std::process::ExitCode;

use windlass_e2e::{Lab, LabBuilder, ProxyMode, command};

fn main() -> ExitCode {
    command::run(bench)
}

fn bench() -> anyhow::Result<()> {
    let services = setting::number("SERVICES", 500, 1, 5000)?;
    let idle_services = setting::number("IDLE_SERVICES", 10_000, 0, 60_000)?;
    let nodes = setting::number("NODES", 100, 1, 5000)?;
    let minutes = setting::number("IDLE_MINUTES", 6, 1, 600)?;

    println!("bench: {services} Services one after another");
    let lab = small_lab().client("c1").proxy_mode(ProxyMode::Iptables).proxy_flag(lifecycle::PROXY_AT_ONCE);
    let mut rows = Lab::run("bench-ccm", lab, async |lab| lifecycle::measure(lab, services).await)?;
    for row in &rows {
        println!("bench: {row}");
    }
    if idle_services > 0 {
        println!("bench: {idle_services} Services and {nodes} nodes at rest");
        let size = idle::Size { services: idle_services, nodes, minutes };
        let lab = small_lab().without_proxy();
        rows.extend(Lab::run("bench-ccm", lab, async |lab| idle::measure(lab, size).await)?);
    }
    report::write(&rows)
}

fn small_lab() -> LabBuilder {
    Lab::builder().nodes(1).light().service_range(lifecycle::SERVICE_RANGE).interactive()
}
