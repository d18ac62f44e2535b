//! The node's interfaces, as the kernel tells them by netlink.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::netlink::{NetlinkError, Route};

mod follower;
mod table;

pub(crate) use follower::Follower;
pub(crate) use table::Interfaces;

/// IFA_PROTO of the addresses that an engine binds by default.
#[cfg(test)]
pub(crate) const OWN_PROTOCOL: u8 = crate::tag::AddressTag::DEFAULT.get();
/// Beginning of the alias of the macvlan interfaces that the engine makes: they are not reported.
pub(crate) const OWN_ALIAS: &str = "windlass:";

/// An Ethernet interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct InterfaceInfo {
    /// Name, as `eth0`.
    pub name: String,
    /// Index.
    pub index: u32,
    /// Link-layer address.
    pub mac: [u8; 6],
    /// Longest packet, in bytes.
    pub mtu: u32,
    /// IPv4 addresses with prefix length, the primary one first. VIPs that the engine binds are not among them.
    pub ipv4: Vec<(Ipv4Addr, u8)>,
    /// IPv6 addresses with prefix length that can be used: those that last, then temporary (RFC 8981) and deprecated ones,
    /// each in their order as numbers. VIPs that the engine binds are not among them.
    pub ipv6: Vec<(Ipv6Addr, u8)>,
    /// IPv6 addresses that cannot be used, and why.
    pub ipv6_unusable: Vec<(Ipv6Addr, Unusable)>,
    /// Whether it is up and the kernel counts it as able to carry packets.
    pub carrier: bool,
    /// Whether it is administratively up.
    pub up: bool,
}

/// Why an IPv6 address of an interface cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The kernel still asks whether somebody else has it (RFC 4862 §5.4): it can be used about a second later.
    #[error("is being checked for duplicates")]
    Tentative,
    /// Somebody else has it (RFC 4862 §5.4.5).
    #[error("is another station's too (duplicate address detection failed)")]
    Duplicate,
}

/// All Ethernet interfaces of the calling thread's network namespace, by name, but for those that the engine makes.
pub(crate) fn scan() -> io::Result<Vec<InterfaceInfo>> {
    let mut route = Route::open()?;
    let (table, _) = Interfaces::dump(&mut route)?;
    Ok(table.all())
}

impl From<NetlinkError> for io::Error {
    fn from(error: NetlinkError) -> Self {
        Self::other(error)
    }
}
