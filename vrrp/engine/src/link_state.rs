//! State of an interface as the watcher reports it.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use windlass_kernel::interfaces::Unusable;
use windlass_kernel::sockets::LinkSockets;

/// Ability of an interface to carry routers.
#[derive(Clone, Debug)]
pub(crate) enum LinkState {
    /// It can carry routers.
    Usable { sockets: Arc<LinkSockets>, sources: Sources },
    /// It cannot be used, for this reason.
    Unusable(String),
    /// The engine does not need it any more.
    Unwanted,
}

/// Addresses that adverts can be sent from, and those that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sources {
    pub(crate) usable: Vec<IpAddr>,
    pub(crate) unusable: Vec<(Ipv6Addr, Unusable)>,
}
