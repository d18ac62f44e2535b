//! What is known of a connection.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

#[cfg(test)]
mod tests;

/// A transport protocol, numbered as in IP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(clippy::exhaustive_enums, reason = "those whose connections are replicated")]
pub enum Transport {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
}

impl Transport {
    /// Its number in the IP header.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    /// The one with this number in the IP header.
    pub const fn of_number(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// Names a connection to a VIP, as its client does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the parts of a name")]
pub struct ConnectionKey {
    /// Its protocol.
    pub transport: Transport,
    /// Where it comes from.
    pub client: SocketAddr,
    /// The VIP and port that the client sends to.
    pub vip: SocketAddr,
}

impl fmt::Display for ConnectionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} to {}", self.transport, self.client, self.vip)
    }
}

/// A connection to a VIP and what becomes of its packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the parts of an entry")]
pub struct Connection {
    /// Its name.
    pub key: ConnectionKey,
    /// Where the client's packets are sent instead.
    pub backend: SocketAddr,
    /// Where the backend takes them to come from, and sends its answers to. The client itself if that is not translated.
    pub source: SocketAddr,
}

/// Why something cannot be a connection to a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidConnection {
    /// IPv4 and IPv6 in one.
    #[error("{what} {address} is of another IP version than the VIP {vip}; a connection has one")]
    MixedFamilies {
        /// Which end.
        what: &'static str,
        /// It.
        address: SocketAddr,
        /// What it was compared with.
        vip: SocketAddr,
    },
    /// No port.
    #[error("{what} {address} has port 0; no connection uses it")]
    NoPort {
        /// Which end.
        what: &'static str,
        /// It.
        address: SocketAddr,
    },
    /// No address of one host.
    #[error("{what} {address} is not the address of one host that packets can be sent to")]
    NoHost {
        /// Which end.
        what: &'static str,
        /// It.
        address: SocketAddr,
    },
}

impl ConnectionKey {
    /// Whether the kernel can have such a connection.
    pub fn check(&self) -> Result<(), InvalidConnection> {
        check("client", self.client, self.vip)?;
        check("VIP", self.vip, self.vip)
    }
}

impl Connection {
    /// Whether the kernel can have such a connection.
    pub fn check(&self) -> Result<(), InvalidConnection> {
        self.key.check()?;
        check("backend", self.backend, self.key.vip)?;
        check("source", self.source, self.key.vip)
    }
}

fn check(what: &'static str, address: SocketAddr, vip: SocketAddr) -> Result<(), InvalidConnection> {
    if address.is_ipv4() != vip.is_ipv4() {
        return Err(InvalidConnection::MixedFamilies { what, address, vip });
    }
    if address.port() == 0 {
        return Err(InvalidConnection::NoPort { what, address });
    }
    let is_host = match address.ip() {
        IpAddr::V4(v4) => {
            !(v4.is_unspecified() || v4.is_broadcast() || v4.is_multicast() || v4.is_loopback())
        }
        IpAddr::V6(v6) => {
            !(v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.to_ipv4_mapped().is_some())
        }
    };
    if is_host { Ok(()) } else { Err(InvalidConnection::NoHost { what, address }) }
}
