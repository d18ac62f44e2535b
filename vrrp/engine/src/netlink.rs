//! Route netlink, synchronous: what the kernel's interfaces and addresses are, how they change, and requests to change them.
//!
//! [`RouteSocket`] asks and orders (each order is acknowledged), [`Monitor`] hears of changes. Interfaces and addresses come as
//! [`Link`] and [`Address`], read attribute by attribute: an attribute that this code does not know hides nothing.
//!
//! [`EthtoolSocket`] asks how fast an interface is.
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

pub(crate) use change::{Address, Change, Link};
pub(crate) use error::{NetlinkError, Refusal};
pub(crate) use ethtool::EthtoolSocket;
pub(crate) use kept::KeptRouteSocket;
pub(crate) use monitor::{Monitor, Notification};
pub(crate) use route::RouteSocket;
pub(crate) use routes::{Hop, Route, Way};
