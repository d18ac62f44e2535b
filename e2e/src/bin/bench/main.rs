//! The benchmarks that need a cluster: `bench cluster` is what `make bench-cluster` runs. Each takes its settings from the environment,
//! prints its tables and writes `target/bench/NAME.json`.

mod api_vip;
mod bgp;
mod ccm;
mod cluster;
mod connections;
mod distribution;
mod footprint;
mod load;
mod moves;
mod pair;
mod progress;
mod results;
mod scale;
mod seen;
mod segment;
mod services;
mod settings;
mod spread;
mod system;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use windlass_e2e::command;

/// The benchmarks of Windlass in a cluster.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

/// A benchmark. Its figures go to `target/bench/NAME.json`.
#[derive(Subcommand)]
enum Bench {
    /// Outages of the API servers' VIP when a node of the control plane fails.
    ApiVip,
    /// Failed requests to API servers in two racks whose VIP routers know by BGP, beside FRR.
    Bgp,
    /// Cost of a Service, of a cluster at rest and of changes of nodes, in time and in calls.
    Ccm,
    /// Outages of an address when its node's cable is pulled, beside keepalived.
    Cluster,
    /// Established connections that outlive their node, beside keepalived and conntrackd.
    Connections,
    /// Bandwidth of an address that several nodes serve, and what faults cost its connections.
    Distribution,
    /// Memory of agent and controller, and the size of binary and image.
    Footprint,
    /// Thousands of clients while nodes fail one by one, beside keepalived.
    Load,
    /// Losses of a client by planned moves, beside keepalived.
    Moves,
    /// Thousands of Services created at once.
    Scale,
    /// A hundred agents on one subnet, at rest and when nodes die.
    Segment,
    /// Spread of addresses over nodes, and which of them move when a node leaves.
    Spread,
}

fn main() -> ExitCode {
    command::run(|| match Arguments::parse().bench {
        Bench::ApiVip => api_vip::bench(),
        Bench::Bgp => bgp::bench(),
        Bench::Ccm => ccm::bench(),
        Bench::Cluster => cluster::bench(),
        Bench::Connections => connections::bench(),
        Bench::Distribution => distribution::bench(),
        Bench::Footprint => footprint::bench(),
        Bench::Load => load::bench(),
        Bench::Moves => moves::bench(),
        Bench::Scale => scale::bench(),
        Bench::Segment => segment::bench(),
        Bench::Spread => spread::bench(),
    })
}
