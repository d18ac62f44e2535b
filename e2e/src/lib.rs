//! The lab: real Kubernetes on hosts made of network namespaces; scenario tests, benches, demo.
//!
//! ```no_run
//! # use std::time::Duration;
//! use windlass_e2e::{Lab, scenario};
//!
//! #[test]
//! fn the_backend_answers() -> anyhow::Result<()> {
//!     scenario("backend-answers", Lab::builder().nodes(2).client("c1").light(), async |lab| {
//!         lab.backend("web", &["n1", "n2"]).await?;
//!         lab.load_balancer("web", |_| ()).await?;
//!         lab.apply("manifests/crds").await?;
//!         lab.start_controller(Default::default())?;
//!         lab.start_agent("n1")?;
//!         let vip = lab.ingress("web", Duration::from_secs(30)).await?;
//!         assert!(lab.curl("c1", vip, 80).await?.starts_with("web-"));
//!         lab.node("n1")?.pull_cable()
//!     })
//! }
//! ```
//!
//! [`topology`] says which addresses there are. Two variants have the same methods: with kubelets, containers and
//! everything (about 20 s until it is up), and [`LabBuilder::light`] (about 5 s).
//!
//! # How it ends
//! Every process, mount and network namespace of a lab is within one PID and mount namespace that ends with the process
//! that owns the lab, even by SIGKILL. Logs, certificates and kubeconfigs stay in `target/lab/<name>`. Cgroups, which no
//! namespace takes along, are removed at the end, or else by the next lab.

mod adverts;
mod agent_tokens;
mod answer;
mod answering;
mod api_probe;
mod api_watch;
mod backend;
mod builder;
mod bystanders;
mod cable;
mod cgroups;
pub mod chaos;
mod clusters;
mod cni;
pub mod command;
mod conntrackd;
mod control_plane;
mod crowd;
mod daemons;
mod deploy;
mod dump;
mod exec;
mod forward;
mod frr;
mod full;
mod held_up;
mod invariants;
mod keepalived;
mod kept;
mod kernel_limits;
mod lab;
mod lan;
mod life;
mod light;
mod load;
mod load_sharing;
mod lock;
mod logind;
mod neighbours;
mod node;
mod pings;
mod pki;
mod probe;
mod process;
mod rack_hosts;
mod rack_networks;
mod racks;
mod running;
mod sandbox;
mod segment;
mod service;
pub mod soak;
pub mod statistics;
mod talk;
mod timeline;
mod tools;
pub mod topology;
mod tracked;
mod turns;
mod vip;
mod wait;
mod windlass;
mod writes;

use anyhow::ensure;

use self::turns::Turn;

pub use adverts::{Advert, Adverts};
pub use answering::{Alone, Answering, Answers, Doubled, Owner};
pub use api_probe::{ApiConnections, ApiOutcome, ApiProbe, Silence};
pub use api_watch::{ApiWatch, WatchOutcome};
pub use backend::{BACKEND_HTTP, BACKEND_UDP};
pub use builder::{ApiVipHolder, LabBuilder, ProxyMode};
pub use bystanders::Bystander;
pub use cable::Hand;
pub use clusters::{Cluster, clusters};
pub use cni::{Cni, FlannelBackend};
pub use crowd::{Crowd, CrowdOptions, Latencies, Tally};
pub use forward::HostPort;
pub use frr::{BgpPath, Detection, Frr, FrrStatus};
pub use held_up::HeldUp;
pub use invariants::{Picture, shown};
pub use keepalived::{Keepalived, KeepalivedCounts};
pub use kept::{KeptConnection, KeptConnections, KeptOptions};
pub use kernel_limits::KernelLimits;
pub use lab::Lab;
pub use light::{EndpointState, Pods};
pub use load::{Load, LoadOptions, LoadOutcome};
pub use load_sharing::IN_A_ROW;
pub use nix::sys::signal::Signal;
pub use node::{Direction, Node};
pub use pings::Pings;
pub use probe::{Outcome, Probe, Protocol};
pub use process::{Memory, memory_kib, memory_mb, processor_seconds};
pub use segment::Segment;
pub use service::{SERVICE_PORT, unused_service};
pub use talk::Talk;
pub use timeline::Timeline;
pub use tools::{
    give_back, helm, image_archive, kubectl, target, windlass_binary, workspace, write_rows,
    write_rows_beside,
};
pub use topology::Mac;
pub use turns::await_idly;
pub use wait::{Hopeless, await_that};
pub use windlass::{ControllerOptions, state_folder};
pub use writes::{Writes, metric_label};

/// A test on a lab of its own: what a `#[test]` returns. Without root it says so and passes, unless `CI` is `true`: then
/// it fails, so that a pipeline that shows nothing is not green.
pub fn scenario(
    name: &str,
    builder: LabBuilder,
    body: impl AsyncFnOnce(&mut Lab) -> anyhow::Result<()> + Send,
) -> anyhow::Result<()> {
    if !may_run(name)? {
        return Ok(());
    }
    let turn = Turn::wait_for(1, &builder);
    Lab::run(name, builder, async |lab| {
        turns::set_size(turn.size());
        body(lab).await
    })
}

/// Returns true for root. Else says that the test is skipped, or fails.
fn may_run(name: &str) -> anyhow::Result<bool> {
    let is_root = nix::unistd::Uid::effective().is_root();
    if !is_root {
        ensure!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "{name}: {}", tools::NOT_ROOT);
        eprintln!("skipped {name}: {}", tools::NOT_ROOT);
    }
    Ok(is_root)
}
