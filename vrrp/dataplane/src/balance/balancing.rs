//! Where what comes for VIPs goes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use windlass_kernel::port::ProtocolPort;

use super::BalanceError;
use super::set::LOTS;
use super::ways::numbers;

#[cfg(test)]
mod tests;

/// Where what comes for VIPs goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Balancing {
    /// Ports of VIPs, each with who serves it. All else is left alone.
    pub services: BTreeMap<(IpAddr, ProtocolPort), Backends>,
    /// Addresses of this node: backends with one of them are never asked under another name than the client's.
    pub own: BTreeSet<IpAddr>,
    /// What other nodes send here with [`ClientSource::Keep`].
    pub returns: Returns,
}

/// What nodes that balance with [`ClientSource::Keep`] send to servers of this node, whose answers go back by them. That is
/// so whether or not a server is a backend at the moment: what it has goes on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Returns {
    /// This node's servers, by the addresses that others have for them as backends.
    pub servers: BTreeSet<(IpAddr, ProtocolPort)>,
    /// Addresses of the other nodes, on a LAN of this one.
    pub peers: BTreeSet<IpAddr>,
}

/// Who serves a port of a VIP.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user")]
pub struct Backends {
    /// Addresses and ports, of the VIP's family; the node's own as well. Each gets the same share of new connections. Of none
    /// nothing is translated: what becomes of packets to the VIP then is the guard's.
    pub targets: BTreeSet<SocketAddr>,
    /// Whom backends on other nodes take for the client.
    pub source: ClientSource,
}

/// Whom backends on other nodes take for the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "a caller must not overlook one")]
pub enum ClientSource {
    /// The node that balances: answers come back by it whatever the network is.
    #[default]
    Masquerade,
    /// The client itself. The backends' nodes lead answers back to the node that balances: they run a [`Balancer`](super::Balancer), too, with
    /// [`Balancing::returns`], on the same LAN. Clients that are nodes themselves, whose addresses [`Balancing::own`] and
    /// [`Returns::peers`] are, are masqueraded all the same.
    Keep,
}

impl Balancing {
    /// Whether the kernel could do it.
    pub(super) fn check(&self, most_peers: u32) -> Result<(), BalanceError> {
        if numbers(&self.returns.peers, most_peers).is_none() {
            return Err(BalanceError::TooManyPeers { most: most_peers });
        }
        for ((vip, of), backends) in &self.services {
            let count = backends.targets.len();
            if count > usize::try_from(LOTS).unwrap_or(usize::MAX) {
                return Err(BalanceError::TooManyBackends { vip: *vip, of: *of, count });
            }
            for target in &backends.targets {
                if let Some(reason) = self.obstacle(*vip, *target) {
                    return Err(BalanceError::Backend { vip: *vip, of: *of, target: *target, reason });
                }
            }
        }
        Ok(())
    }

    /// What keeps a backend from getting what is for the VIP.
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
