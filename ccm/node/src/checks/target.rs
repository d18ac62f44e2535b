//! Servers, by host and port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Addresses of this machine, in the order in which they are tried.
pub(crate) const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// A host that is found without DNS: a check has to work when nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// This address.
    Address(IpAddr),
    /// `localhost`: the loopback address of either family, IPv4 first.
    Localhost,
}

/// A host and a port of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    /// Not 0.
    pub(crate) port: u16,
}

impl Target {
    /// Returns the addresses to try, in that order.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let hosts = match self.host {
            Host::Address(address) => vec![address],
            Host::Localhost => LOOPBACK.to_vec(),
        };
        hosts.into_iter().map(|host| SocketAddr::new(host, self.port)).collect()
    }

    /// Returns true if it is the local host, whichever host that is.
    pub(crate) fn is_this_host(&self) -> bool {
        match self.host {
            Host::Address(address) => address.is_loopback() || address.is_unspecified(),
            Host::Localhost => true,
        }
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self { host: Host::Address(address.ip()), port: address.port() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match self.host {
            Host::Address(address) => SocketAddr::new(address, port).fmt(f),
            Host::Localhost => write!(f, "localhost:{port}"),
        }
    }
}
