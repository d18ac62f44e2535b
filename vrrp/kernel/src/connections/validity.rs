//! Connections that the kernel can have, and the ones that it accepts from another node.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use windlass_vrrp::replication::{Connection, ConnectionKey};

#[cfg(test)]
mod tests;

/// Reason why a connection cannot be one to a VIP.
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
        /// VIP that it was compared with.
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
    /// The backend would take another host than the VIP for its client.
    #[error(
        "source {source_address} is not the VIP {vip}; only connections whose backend answers to the VIP are replicated"
    )]
    ForeignSource {
        /// The source that the backend would see.
        source_address: SocketAddr,
        /// The VIP.
        vip: SocketAddr,
    },
    /// It would lead clients of the VIP to sockets of this node that have not accepted it.
    #[error("backend {address} is this node itself, which has no such connection with the VIP")]
    OwnAddress {
        /// The backend.
        address: SocketAddr,
    },
}

/// Returns an error if the kernel cannot have a connection of this name.
pub(super) fn check_key(key: &ConnectionKey) -> Result<(), InvalidConnection> {
    check("client", key.client, key.vip)?;
    check("VIP", key.vip, key.vip)
}

/// Returns an error if the kernel cannot have such a connection.
pub(super) fn check_connection(connection: &Connection) -> Result<(), InvalidConnection> {
    check_key(&connection.key)?;
    check("backend", connection.backend, connection.key.vip)?;
    check("source", connection.source, connection.key.vip)
}

/// Returns why a connection that a peer reports cannot be a replica. A backend on the node itself (`own`: those of the node's own addresses
/// that matter here) has accepted the connection, by way of that peer, or there is none: `is_accepted`.
pub(super) fn check_replica(
    connection: &Connection,
    own: &BTreeSet<IpAddr>,
    is_accepted: impl FnOnce() -> bool,
) -> Result<(), InvalidConnection> {
    let Connection { key, backend, source } = connection;
    if source.ip() != key.vip.ip() {
        return Err(InvalidConnection::ForeignSource { source_address: *source, vip: key.vip });
    }
    if own.contains(&backend.ip()) && !is_accepted() {
        return Err(InvalidConnection::OwnAddress { address: *backend });
    }
    Ok(())
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
            !(v4.is_unspecified()
                || v4.is_broadcast()
                || v4.is_multicast()
                || v4.is_loopback()
                // Metadata of clouds and DNS of the node: another host on each link, and no Endpoint may have one.
                || v4.is_link_local())
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
