//! VRRP on Linux: sockets, the timer thread, what answers for VIPs and announces them, and how they are held.
//!
//! [`Engine::start`] starts the threads, [`Engine::apply`] sets the virtual routers that this node takes part in, events come back
//! through [`Options::on_event`], [`Engine::snapshot`] returns the present state. A virtual router has one family: one for each of
//! IPv4 and IPv6 serves both. How its VIPs are held is [`RouterConfig::hold`].
//!
//! ```no_run
//! use windlass_engine::{Engine, Interval, Options, Priority, RouterConfig, Vrid};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::start(Options::new(|event| println!("{event:?}")))?;
//! engine.apply(vec![RouterConfig {
//!     priority: Priority::new(200)?,
//!     interval: Interval::from_millis(100)?,
//!     peers: ["192.0.2.2".parse()?].into(),
//!     addresses: ["192.0.2.50".parse()?].into(),
//!     ..RouterConfig::new("eth0", Vrid::new(7)?, "192.0.2.1".parse()?)
//! }]);
//! // … and when it is over: resigns, so that a peer takes over at once.
//! engine.shutdown();
//! # Ok(())
//! # }
//! ```
//!
//! The example `two_routers` is a whole program, with commands to try it in two network namespaces.
//!
//! # What it needs
//! | capability | for |
//! |---|---|
//! | CAP_NET_RAW | all: without it [`Engine::start`] fails |
//! | CAP_NET_ADMIN | [`Hold::Address`], [`Hold::Vmac`], [`Options::guard`], [`Balancer`], [`Engine::share`]: without it such a router is told as [`Event::Failed`], a guard in the log, sharing as [`SharingStatus::error`]; all else runs |
//! | CAP_SYS_NICE | [`Options::realtime`]: with ordinary scheduling a busy machine is too late for intervals below 100 ms |
//! | CAP_IPC_LOCK | [`Options::realtime`]: locked memory, which matters on nodes that swap |
//!
//! # Threads
//! | thread | does | must never |
//! |---|---|---|
//! | `windlass-vrrp` | receives adverts, runs the state machines, sends adverts | wait |
//! | `windlass-neighbour` | answers ARP and neighbour discovery, probes, announces VIPs, paced, newest takeover first, hears foreign routers | delay an advert |
//! | `windlass-hold` | puts VIPs on interfaces where so configured, keeps the guard | decide, read long lists |
//! | `windlass-forget`, `windlass-sets` | remove closed connections, compare the guard's sets: long jobs of the hold thread, without real-time scheduling | be waited for |
//! | `windlass-links` | follows interfaces, opens and closes their sockets (which may wait in the kernel) | decide |
//! | `windlass-events` | hands events to the user | keep another waiting |
//! | `windlass-bgp` | announces routes to BGP peers where so configured | keep another waiting |
//! | `windlass-bfd` | detects dead BGP peers by BFD, where so configured | wait, but for the kernel |
//! | `windlass-endings` | removes tracked connections that no Service claims any more | keep another waiting |
//! | `windlass-sharing` | keeps the table that directs packets for shared addresses, where there are some, and asks their servers whether they live | keep another waiting |
//! | `windlass-connections` | replicates connections where so configured | keep another waiting |
//! | `windlass-watchdog` | reports helpers that stall | keep another waiting |
//!
//! If one of the first two panics all virtual routers resign, the engine stops and [`Event::Stopped`] reports it; likewise `windlass-hold` while
//! VIPs are put on interfaces. The others are started again ([`Event::HelperAway`]): no virtual router resigns for them.
//!
//! `windlass_kernel` makes the requests to the kernel and reads the clocks. `windlass_dataplane` contains the guard and the balancing.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod bfd;
mod checks;
mod config;
mod core;
mod endings;
mod engine;
mod event;
mod event_queue;
mod event_thread;
mod faults;
mod handle;
mod hold;
mod host_claim;
mod inbox;
mod lateness;
mod link_state;
mod links;
mod neighbour;
mod options;
mod rate_limit;
mod realtime;
mod replication;
mod sharing;
mod speaker;
mod status;
mod supervisor;
mod vrid_claim;

#[cfg(test)]
extern crate self as windlass_engine;
#[cfg(test)]
#[path = "../tests/it/lab.rs"]
#[allow(dead_code, reason = "made for the tests in network namespaces")]
mod lab;

pub use bfd::{BfdConfig, BfdPath, BfdSession, BfdStatus, InvalidBfdConfig};
pub use config::{
    AddressConflictPolicy, ConfigError, Hold, MOST_RECOGNISED, RouterConfig, RouterKey, Transport,
};
pub use engine::Engine;
pub use event::Event;
pub use host_claim::{ClaimedByAnother, HostClaim, Intruder};
pub use lateness::Lateness;
pub use options::{ConnectionForwarding, ConnectionReplication, Options, Pacing, StartError};
pub use speaker::{Endpoint, PeerConfig, Routes, SessionId, SessionStatus, Speaker};
pub use status::{
    ForwardingStatus, GuardStatus, HelperStatus, LinkStatus, PeerReplication, ReplicationStatus,
    RouterCounters, RouterStatus, SharingStatus,
};
pub use windlass_bgp as bgp;
pub use windlass_dataplane::balance::{
    Backends, BalanceError, BalanceObstacle, Balancer, Balancing, ClientSource, Returns, WaysBack,
};
pub use windlass_dataplane::restriction::Restrictions;
pub use windlass_dataplane::sharing::{LOTS, Share, SharedBy, Shares, SharingError, lot, try_sharing};
pub use windlass_dataplane::way_back::Heard;
pub use windlass_kernel::forward_policy::{DroppingChain, chains_that_drop_all};
pub use windlass_kernel::interfaces::{
    HostAddresses, HostLink, HostRoute, InterfaceInfo, LinkKind, Unusable,
};
pub use windlass_kernel::mark_mask::{InvalidMarkMask, MarkMask};
pub use windlass_kernel::netfilter::table::Checked;
pub use windlass_kernel::port::{Protocol, ProtocolPort};
pub use windlass_kernel::tag::AddressTag;
pub use windlass_kernel::tcp::{InvalidMd5Key, Md5Key};
pub use windlass_kernel::{connection_tracking, nf_tables};
pub use windlass_vrrp::auth;
pub use windlass_vrrp::wire::Checksum;
pub use windlass_vrrp::{Family, Interval, Priority, State, TransitionReason, Versions, Vrid};
