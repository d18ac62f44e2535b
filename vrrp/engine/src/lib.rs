//! The Linux edge of the VRRP engine: sockets, the timer thread, the responder for ARP and neighbour discovery, the announcer.
//!
//! [`Engine::start`] starts the threads, [`Engine::apply`] says which virtual routers this node takes part in, events
//! come back through [`Options::on_event`]. No address is bound to an interface: the Active answers ARP itself.
//!
//! | thread | does | must never |
//! |---|---|---|
//! | `windlass-vrrp` | receives adverts, runs the state machines, sends adverts | wait |
//! | `windlass-neighbour` | answers ARP and neighbour discovery, probes, announces VIPs, paced, newest takeover first, hears foreign routers | delay an advert |
//! | `windlass-hold` | puts VIPs on interfaces where so configured | decide |
//! | `windlass-links` | watches interfaces, opens and closes their sockets (which may wait in the kernel) | decide |
//!
//! Time is read in `clock.rs`, `unsafe` is in `sys.rs`.

mod census;
mod clock;
mod config;
mod core;
mod duty;
mod engine;
mod event;
#[doc(hidden)] // public for the tests in network namespaces only
pub mod guard;
mod hold;
mod inbox;
mod interfaces;
mod lateness;
mod links;
#[allow(dead_code, unused_imports, reason = "a toolbox: not every tool is in use")]
mod neighbour;
mod netlink;
mod realtime;
mod sockets;
mod status;
mod sys;
mod tag;

pub use config::{ConfigError, Hold, RouterConfig, RouterKey, Transport};
pub use engine::{Engine, Options, Pacing, StartError};
pub use event::Event;
pub use interfaces::{InterfaceInfo, Unusable};
pub use lateness::Lateness;
pub use status::{LinkStatus, RouterCounters, RouterStatus};
pub use tag::AddressTag;
pub use windlass_vrrp::wire::Checksum;
pub use windlass_vrrp::{Family, Interval, Priority, Reason, State, Versions, Vrid};
