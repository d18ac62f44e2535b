//! What the watcher says of an interface.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use windlass_kernel::interfaces::Unusable;
use windlass_kernel::sockets::LinkSockets;

/// What an interface can do.
#[derive(Clone, Debug)]
pub(crate) enum LinkState {
    /// Carry routers.
    Usable { sockets: Arc<LinkSockets>, sources: Sources },
    /// Nothing, for this reason.
    Unusable(String),
    /// Nobody wants it any more.
    Unwanted,
}

/// Addresses that adverts can be sent from, and those that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sources {
    pub(crate) usable: Vec<IpAddr>,
    pub(crate) unusable: Vec<(Ipv6Addr, Unusable)>,
}
