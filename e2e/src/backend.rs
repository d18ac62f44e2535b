//! The servers behind Services.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Port of a backend's HTTP server: `/hostname` names the server.
pub const BACKEND_HTTP: u16 = 8080;
/// Port of a backend's UDP server: the datagram `hostname` is answered with the server's name.
pub const BACKEND_UDP: u16 = 8081;

/// A backend's server on a node.
#[derive(Clone, Debug)]
pub(crate) struct LightServer {
    pub(crate) node: String,
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
}
