//! What the host's kernel has of what the engine can use.

use std::io;

use crate::connections::{Tracking, Usage};
use crate::netfilter::NetfilterSocket;
use crate::netfilter::attributes::Attributes;
use crate::netfilter::message::Operation;

/// Whether nf_tables answers in the network namespace of the calling thread.
///
/// # Errors
/// Why it does not: without it there is no guard, no balancing and no forwarding of connections.
pub fn nf_tables() -> io::Result<()> {
    NetfilterSocket::open()?.ask(Operation::GetGeneration, &Attributes::new()).map(drop)
}

/// How full the table of tracked connections is, asked by netlink, as replication asks.
///
/// # Errors
/// Why it is not told: without it connections are neither forwarded nor replicated.
pub fn connection_tracking() -> io::Result<Usage> {
    Tracking::open().and_then(|mut tracking| tracking.usage()).map_err(io::Error::other)
}
