//! Connections that are replicated.

use std::net::SocketAddr;

/// A transport whose connections are replicated, by its IANA protocol number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Transport {
    /// 6.
    Tcp,
    /// 17.
    Udp,
}

impl Transport {
    /// Its IANA protocol number.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    /// The transport of this IANA protocol number, if it is one that is replicated.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }
}

/// Original direction of a connection, from client to VIP. No two connections have the same. Flow labels and scopes of IPv6 are no
/// part of it: the datagrams do not carry them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionKey {
    /// Its transport.
    pub transport: Transport,
    /// Address and port of the client.
    pub client: SocketAddr,
    /// VIP and port of the Service.
    pub vip: SocketAddr,
}

/// A connection to a VIP as connection tracking has it: the original direction from client to VIP, the reply from backend to
/// source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Connection {
    /// Its original direction.
    pub key: ConnectionKey,
    /// Address and port of the backend.
    pub backend: SocketAddr,
    /// Address and port that the backend answers: the VIP with a port of its own, or the client itself.
    pub source: SocketAddr,
}

/// A connection between addresses of both families.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("connection {0:?} has addresses of two families: all four are to be IPv4, or all IPv6")]
pub struct MixedFamilies(pub Box<Connection>);

impl Connection {
    /// Returns an error unless all four addresses are of one family.
    pub fn check(self) -> Result<Self, MixedFamilies> {
        let Self { key: ConnectionKey { client, vip, .. }, backend, source } = self;
        let family = vip.is_ipv4();
        if [client, backend, source].iter().all(|address| address.is_ipv4() == family) {
            Ok(self)
        } else {
            Err(MixedFamilies(Box::new(self)))
        }
    }
}
