//! Route netlink, synchronous: the kernel's interfaces and addresses, their changes, and requests to change them.
//!
//! [`RouteSocket`] sends requests (each change is acknowledged), [`Monitor`] receives changes. Interfaces and addresses come as
//! [`Link`] and [`Address`], read attribute by attribute: an attribute that this code does not know hides nothing.
//!
//! [`EthtoolSocket`] requests the speed of an interface.
//!
//! All work in the network namespace of the thread that opened them, whichever thread uses them.

mod change;
mod error;
mod ethtool;
mod kept;
mod monitor;
mod route;
mod routes;
mod socket;
#[cfg(test)]
pub(crate) mod tests;

pub use change::{Address, Change, Link};
pub use error::{NetlinkError, Refusal};
pub(crate) use ethtool::EthtoolSocket;
pub use kept::KeptRouteSocket;
pub use monitor::{Monitor, Notification};
pub use route::{Dump, RouteSocket};
pub use routes::{Hop, Route, Way};
