//! Desired balancing: the backends of each port of a VIP.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use windlass_kernel::port::ProtocolPort;

use super::BalancingError;
use super::ways::numbers;

#[cfg(test)]
mod tests;

/// Number of lots in which a port's new connections are drawn. Each backend has as many lots, or one less: all get the same where
/// there are two to six, and of more one gets a sixtieth more than another at most.
pub(super) const LOTS: u32 = 60;

/// Desired balancing: the backends of each port of a VIP, and the servers whose answers return by other nodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Balancing {
    /// Ports of VIPs, each with its backends. Packets to other ports are left alone.
    pub services: BTreeMap<(IpAddr, ProtocolPort), Backends>,
    /// Addresses of this node: a backend at one of them always sees the client's own address.
    pub own: BTreeSet<IpAddr>,
    /// Servers of this node to which other nodes send with [`ClientSource::Keep`].
    pub returns: Returns,
}

/// Servers of this node to which nodes that balance with [`ClientSource::Keep`] send, and whose answers return by those nodes. A
/// server is listed whether or not it is a backend at the moment: its established connections continue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Returns {
    /// This node's servers, by the addresses under which other nodes have them as backends.
    pub servers: BTreeSet<(IpAddr, ProtocolPort)>,
    /// Addresses of the other nodes, on a LAN of this one.
    pub peers: BTreeSet<IpAddr>,
}

/// Backends of a port of a VIP.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Backends {
    /// Addresses and ports, of the VIP's family; the node's own as well. Each gets the same share of new connections. If there are
    /// none, nothing is translated, and the guard decides about packets to the VIP.
    pub targets: BTreeSet<SocketAddr>,
    /// Source address that backends on other nodes see.
    pub source: ClientSource,
}

/// Source address that backends on other nodes see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "a caller must not overlook one")]
pub enum ClientSource {
    /// The address of the node that balances: answers return by it on any network.
    #[default]
    Masquerade,
    /// The client's own address. The backends' nodes lead answers back to the node that balances: they run a
    /// [`Balancer`](super::Balancer), too, with [`Balancing::returns`], on the same LAN. Clients that are nodes themselves (in
    /// [`Balancing::own`] or [`Returns::peers`]) are masqueraded all the same.
    Keep,
}

impl Balancing {
    /// Checks the numbers of peers and backends, and the address of each backend.
    pub(super) fn check(&self, most_peers: u32) -> Result<(), BalancingError> {
        if numbers(&self.returns.peers, most_peers).is_none() {
            return Err(BalancingError::TooManyPeers { most: most_peers });
        }
        for ((vip, of), backends) in &self.services {
            let count = backends.targets.len();
            if count > usize::try_from(LOTS).unwrap_or(usize::MAX) {
                return Err(BalancingError::TooManyBackends { vip: *vip, of: *of, count });
            }
            for target in &backends.targets {
                if let Some(reason) = self.obstacle(*vip, *target) {
                    return Err(BalancingError::Backend { vip: *vip, of: *of, target: *target, reason });
                }
            }
        }
        Ok(())
    }

    /// Returns the reason why a backend cannot receive packets for the VIP, if there is one.
    fn obstacle(&self, vip: IpAddr, target: SocketAddr) -> Option<&'static str> {
        let is_link_local = |address: IpAddr| match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        let address = target.ip();
        if address.is_ipv4() != vip.is_ipv4() {
            Some("is of another family than the VIP: name an address of the VIP's")
        } else if address.is_loopback() {
            Some("is reached from this node only: name the address that it has on the network")
        } else if address.is_unspecified() || address.is_multicast() || target.port() == 0 {
            Some("is no place to send to: name an address and a port of a server")
        } else if is_link_local(address) {
            Some("is link-local, which no packet is forwarded to: name an address that is routed")
        } else if self.services.keys().any(|(vip, _)| *vip == address) {
            Some("is a VIP itself: name the address of a node")
        } else {
            None
        }
    }

    /// Backends on other nodes.
    pub(super) fn remote(&self) -> impl Iterator<Item = SocketAddr> {
        let all = self.services.values().flat_map(|backends| backends.targets.iter().copied());
        all.filter(|target| !self.own.contains(&target.ip()))
    }
}
