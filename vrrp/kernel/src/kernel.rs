//! Features and resources of the host's kernel that the engine can use.

use std::io;

use crate::connections::{Tracking, Usage};
use crate::netfilter::NetfilterSocket;
use crate::netfilter::attributes::Attributes;
use crate::netfilter::message::Operation;

/// Returns `Ok` if nf_tables answers in the network namespace of the calling thread.
///
/// # Errors
/// Returns the reason if it does not: without it there is no guard, no balancing and no forwarding of connections.
pub fn nf_tables() -> io::Result<()> {
    NetfilterSocket::open()?.ask(Operation::GetGeneration, &Attributes::new()).map(drop)
}

/// Returns the use of the table of tracked connections, requested by netlink, as replication does.
///
/// # Errors
/// Returns the reason if the kernel does not report it: without it connections are neither forwarded nor replicated.
pub fn connection_tracking() -> io::Result<Usage> {
    Tracking::open().and_then(|mut tracking| tracking.usage()).map_err(io::Error::other)
}
