//! What a group of routers speaks.

use std::net::IpAddr;

use windlass_engine::Versions;

use crate::interop::site;
use crate::lab;

/// VRID of every group here.
pub(crate) const VRID: u8 = 7;

/// A version of the protocol for an address family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    V2Ipv4,
    V3Ipv4,
    V3Ipv6,
}

impl Dialect {
    pub(crate) const ALL: [Self; 3] = [Self::V2Ipv4, Self::V3Ipv4, Self::V3Ipv6];

    pub(crate) fn versions(self) -> Versions {
        match self {
            Self::V2Ipv4 => Versions::V2,
            Self::V3Ipv4 | Self::V3Ipv6 => Versions::V3,
        }
    }

    /// As on the wire.
    pub(crate) fn version(self) -> u8 {
        match self {
            Self::V2Ipv4 => 2,
            Self::V3Ipv4 | Self::V3Ipv6 => 3,
        }
    }

    pub(crate) fn is_ipv6(self) -> bool {
        match self {
            Self::V2Ipv4 | Self::V3Ipv4 => false,
            Self::V3Ipv6 => true,
        }
    }

    pub(crate) fn vip(self) -> IpAddr {
        if self.is_ipv6() { "2001:db8::50".parse().unwrap() } else { "192.0.2.50".parse().unwrap() }
    }

    /// A VIP that only Windlass has, where one is wanted.
    pub(crate) fn second_vip(self) -> IpAddr {
        if self.is_ipv6() { "2001:db8::51".parse().unwrap() } else { "192.0.2.51".parse().unwrap() }
    }

    /// The VIP as the peers' configurations write it, with the LAN's prefix length.
    pub(crate) fn vip_with_length(self) -> String {
        format!("{}/{}", self.vip(), if self.is_ipv6() { 64 } else { 24 })
    }

    /// The virtual router's MAC address (RFC 9568 §7.3).
    pub(crate) fn virtual_mac(self) -> [u8; 6] {
        [0, 0, 0x5e, 0, if self.is_ipv6() { 2 } else { 1 }, VRID]
    }

    /// A short interval, but none that a busy machine makes a peer miss three times: version 2 counts whole seconds.
    pub(crate) fn interval_ms(self) -> u32 {
        match self {
            Self::V2Ipv4 => 1000,
            Self::V3Ipv4 | Self::V3Ipv6 => 500,
        }
    }

    /// Source of the adverts of a router that sends from `eth0` of the host with this index.
    pub(crate) fn source(self, host: usize) -> IpAddr {
        if self.is_ipv6() { site::link_local(host).into() } else { lab::address(host).into() }
    }
}
