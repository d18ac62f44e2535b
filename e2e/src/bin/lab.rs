//! `lab up`: a lab to play with, until Ctrl-C.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use windlass_e2e::{ApiVipHolder, HostPort, Lab, command};

/// Windlass' lab: a real Kubernetes on hosts made of network namespaces.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts a lab and keeps it until Ctrl-C.
    Up {
        /// Number of nodes, 1 to 8.
        #[arg(long, default_value_t = 3)]
        nodes: u8,
        /// Number of nodes that the control plane has of its own, behind a VIP that `windlass vip` holds, up to 5.
        #[arg(long, default_value_t = 0)]
        control_plane_nodes: u8,
        /// Without kubelets: Nodes are objects only, up in a few seconds.
        #[arg(long)]
        light: bool,
    },
}

fn main() -> ExitCode {
    command::run(up)
}

fn up() -> anyhow::Result<()> {
    let Command::Up { nodes, control_plane_nodes, light } = Arguments::parse().command;
    let builder =
        Lab::builder().control_plane_nodes(control_plane_nodes).nodes(nodes).client("c1").interactive();
    let builder = builder.api_vip(ApiVipHolder::Windlass(Vec::new()));
    let builder = if light { builder.light() } else { builder };
    let port = HostPort::bind()?;
    Lab::run("up", builder, async |lab| {
        let kubeconfig = lab.forward_api_server(port)?;
        println!("The lab is up: {nodes} nodes (n1 …), client c1. Ctrl-C ends it and leaves nothing behind.");
        println!("  export KUBECONFIG={}", kubeconfig.display());
        println!("  kubectl get nodes");
        println!("  a shell on a host:  nsenter -t {} -m -p --net=/proc/{0}/root/run/netns/c1", lab.init());
        println!("  addresses for a VirtualIPPool:  192.0.2.200-192.0.2.250");
        println!("  logs:  {}", lab.logs().display());
        std::future::pending().await
    })
}
