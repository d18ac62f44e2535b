//! What one router of a group is told, whoever made it.

use std::net::IpAddr;

use windlass_engine::Checksum;

use crate::interop::dialect::Dialect;
use crate::interop::site::macvlan_link_local;

/// Who made a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Implementation {
    Windlass,
    Keepalived,
    Frr,
}

impl Implementation {
    /// The peers.
    pub(crate) const FOREIGN: [Self; 2] = [Self::Keepalived, Self::Frr];
    /// One of each in a group: each is best, second and last once.
    pub(crate) const ORDERS: [[Self; 3]; 3] = [
        [Self::Windlass, Self::Keepalived, Self::Frr],
        [Self::Keepalived, Self::Frr, Self::Windlass],
        [Self::Frr, Self::Windlass, Self::Keepalived],
    ];

    /// Source of the adverts of such a router on the host with this index: FRR's for IPv6 come from its macvlan device.
    pub(crate) fn source(self, dialect: Dialect, host: usize) -> IpAddr {
        match self {
            Self::Frr if dialect.is_ipv6() => macvlan_link_local(host).into(),
            Self::Frr | Self::Keepalived | Self::Windlass => dialect.source(host),
        }
    }
}

/// Whom a router speaks to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AdvertDelivery {
    /// The group.
    Multicast,
    /// Each peer. FRR cannot.
    Unicast {
        /// keepalived's `unicast_ttl`. Left alone it sends with 255 in IPv4, but with 64 in IPv6.
        keepalived_ttl: Option<u8>,
        /// The lowest TTL that Windlass accepts.
        accept_ttl: u8,
    },
}

/// What a router is told.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) implementation: Implementation,
    /// Index of its host on the LAN.
    pub(crate) host: usize,
    pub(crate) dialect: Dialect,
    pub(crate) priority: u8,
    pub(crate) interval_ms: u32,
    pub(crate) preempt: bool,
    /// Sources of the others' adverts.
    pub(crate) peers: Vec<IpAddr>,
    pub(crate) delivery: AdvertDelivery,
    /// Whether it answers with the virtual router's MAC address. FRR always does.
    pub(crate) virtual_mac: bool,
    /// Whether Windlass serves a second VIP, which no peer is told of.
    pub(crate) second_vip: bool,
    /// Form of its checksums in version 3 for IPv4. The peers have one only.
    pub(crate) checksum: Checksum,
}

impl Setup {
    pub(crate) fn source(&self) -> IpAddr {
        self.implementation.source(self.dialect, self.host)
    }
}

/// A group of these makers and priorities, on the LAN's first hosts.
pub(crate) fn group<const N: usize>(dialect: Dialect, seats: [(Implementation, u8); N]) -> [Setup; N] {
    std::array::from_fn(|host| {
        let (implementation, priority) = seats[host];
        let others = seats.iter().enumerate().filter(|(n, _)| *n != host);
        Setup {
            implementation,
            host,
            dialect,
            priority,
            interval_ms: dialect.interval_ms(),
            preempt: true,
            peers: others.map(|(n, (other, _))| other.source(dialect, n)).collect(),
            delivery: AdvertDelivery::Multicast,
            virtual_mac: false,
            second_vip: false,
            checksum: Checksum::Rfc5798,
        }
    })
}
