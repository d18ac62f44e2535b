//! Prefixes that may be announced.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::Family;

/// Shortest prefix of each family: a shorter one would draw traffic that is nobody's of this cluster.
const SHORTEST: [(Family, u8); 2] = [(Family::V4, 8), (Family::V6, 19)];

/// Address and length of a network that no router may be sent a route to.
const NEVER: [(IpAddr, u8); 8] = [
    (v4(0), 8),
    (v4(127), 8),
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    // Multicast and class E.
    (v4(224), 3),
    // Unspecified, loopback and IPv4 addresses in IPv6 form.
    (v6(0), 96),
    (IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0)), 96),
    (v6(0xfe80), 10),
    (v6(0xff00), 8),
];

const fn v4(first: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(first, 0, 0, 0))
}

const fn v6(first: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0))
}

/// Prefix of unicast addresses that may be announced: bits beyond its length are 0. IPv4 sorts before IPv6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix(IpNet);

/// A network to which no route is announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidPrefix {
    /// Shorter than any pool of a cluster.
    #[error("{0} is not announced: it is shorter than /{1}")]
    Short(IpNet, u8),
    /// Not of unicast addresses that other hosts can use.
    #[error("{0} is not announced: it has loopback, link-local, multicast or reserved addresses")]
    Unusable(IpNet),
}

impl Prefix {
    /// The network `net`, refused if it is shorter than /8 (IPv6: /19) or has addresses that are not of global use.
    pub fn new(net: IpNet) -> Result<Self, InvalidPrefix> {
        let prefix = Self(net.trunc());
        let shortest = SHORTEST.into_iter().find(|(family, _)| *family == prefix.family());
        if let Some((_, shortest)) = shortest.filter(|(_, shortest)| net.prefix_len() < *shortest) {
            return Err(InvalidPrefix::Short(net, shortest));
        }
        let overlaps = |(address, length)| {
            IpNet::new(address, length).is_ok_and(|never| never.contains(&net) || net.contains(&never))
        };
        if NEVER.into_iter().any(overlaps) { Err(InvalidPrefix::Unusable(net)) } else { Ok(prefix) }
    }

    /// The network.
    pub fn net(self) -> IpNet {
        self.0
    }

    /// Its family.
    pub fn family(self) -> Family {
        match self.0 {
            IpNet::V4(_) => Family::V4,
            IpNet::V6(_) => Family::V6,
        }
    }

    /// Length in bits, and the bytes of the address that it needs (RFC 4271 §4.3).
    pub(crate) fn encoded(self) -> (u8, [u8; 16], usize) {
        let mut octets = [0; 16];
        match self.0 {
            IpNet::V4(net) => octets.iter_mut().zip(net.network().octets()).for_each(|(to, from)| *to = from),
            IpNet::V6(net) => octets = net.network().octets(),
        }
        (self.0.prefix_len(), octets, usize::from(self.0.prefix_len()).div_ceil(8))
    }
}

impl TryFrom<IpNet> for Prefix {
    type Error = InvalidPrefix;
    fn try_from(net: IpNet) -> Result<Self, InvalidPrefix> {
        Self::new(net)
    }
}

impl TryFrom<IpAddr> for Prefix {
    type Error = InvalidPrefix;
    fn try_from(address: IpAddr) -> Result<Self, InvalidPrefix> {
        Self::new(match address {
            IpAddr::V4(address) => Ipv4Net::from(address).into(),
            IpAddr::V6(address) => Ipv6Net::from(address).into(),
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
