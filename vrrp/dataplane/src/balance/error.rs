//! Errors of balancing, and obstacles to it.

use std::net::{IpAddr, SocketAddr};

use windlass_kernel::netfilter::failure::TableError;
use windlass_kernel::port::ProtocolPort;

#[cfg(test)]
mod tests;

/// Reason why the desired balancing is not in force.
pub type BalanceError = TableError<BalancingError>;

/// Fault of the desired balancing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BalancingError {
    /// Nothing could be sent to this backend.
    #[error("backend {target} of {vip}, {protocol} port {port}: it {reason}", protocol = .of.protocol, port = .of.port)]
    Backend {
        /// The VIP.
        vip: IpAddr,
        /// Its port.
        of: ProtocolPort,
        /// The backend.
        target: SocketAddr,
        /// Fault of the backend, and remedy.
        reason: &'static str,
    },
    /// Each backend gets a part of the connections, of which there are only so many.
    #[error(
        "{vip}, {protocol} port {port} has {count} backends: name {most} at most", protocol = .of.protocol, port = .of.port,
        most = super::balancing::LOTS
    )]
    TooManyBackends {
        /// The VIP.
        vip: IpAddr,
        /// Its port.
        of: ProtocolPort,
        /// Number of backends named.
        count: usize,
    },
    /// The marks do not tell them apart.
    #[error(
        "there are more than {most} peers of one family, as many as there are marks: give more bits to the mark (WaysBack::marks), or masquerade"
    )]
    TooManyPeers {
        /// Most peers of one family that the marks tell apart.
        most: u32,
    },
}

/// Condition that keeps packets from backends though the kernel has all rules. The balancer does not change it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BalanceObstacle {
    /// The node forwards nothing: only its own backend is reached.
    #[error(
        "{setting} is 0, so that this node forwards nothing to backends on other nodes: set it to 1, as kube-proxy and pod networks \
         need it, too (`sysctl -w {setting}=1`, and in /etc/sysctl.d)"
    )]
    NotForwarding {
        /// The name that `sysctl` has for it.
        setting: &'static str,
    },
    /// Answers to clients would go past the peer.
    #[error(
        "peer {peer} is on no LAN of this node (`ip route get {peer}`), so that answers of this node's server do not return by it: \
         have backends answer to the node that balances (source: Masquerade)"
    )]
    PeerNotOnLan {
        /// The peer.
        peer: IpAddr,
    },
    /// The peer's link-layer address is unknown: packets that come by it are not recognised.
    #[error(
        "peer {peer} has not answered yet (`ip neighbour show {peer}`), so answers of this node's server to \
         clients whose packets arrive by that peer would bypass it: check that the peer runs, or remove it \
         from the peers"
    )]
    PeerSilent {
        /// The peer.
        peer: IpAddr,
    },
}
