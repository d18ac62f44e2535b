//! An entry of the kernel's connection tracking, as received over netlink.
//!
//! Layout: `linux/netfilter/nfnetlink_conntrack.h`; states of TCP: `linux/netfilter/nf_conntrack_tcp.h`; status bits:
//! `linux/netfilter/nf_conntrack_common.h`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::netfilter::attributes;
use windlass_vrrp::replication::{Connection, ConnectionKey, Transport};

#[cfg(test)]
mod tests;

pub(super) const TUPLE_ORIGINAL: u16 = 1;
pub(super) const TUPLE_REPLY: u16 = 2;
pub(super) const STATUS: u16 = 3;
pub(super) const PROTOCOL_INFO: u16 = 4;
pub(super) const TIMEOUT: u16 = 7;
pub(super) const ID: u16 = 12;
pub(super) const MARK: u16 = 8;
pub(super) const ZONE: u16 = 18;
/// Attributes of a tuple.
pub(super) const ADDRESSES: u16 = 1;
pub(super) const PORTS: u16 = 2;
/// Attributes of addresses: source and destination.
pub(super) const V4: [u16; 2] = [1, 2];
pub(super) const V6: [u16; 2] = [3, 4];
/// Attributes of ports.
pub(super) const PROTOCOL: u16 = 1;
pub(super) const SOURCE_PORT: u16 = 2;
pub(super) const DESTINATION_PORT: u16 = 3;
/// Attribute of protocol info.
pub(super) const TCP: u16 = 1;
/// Attribute of TCP's protocol info.
pub(super) const TCP_STATE: u16 = 1;

pub(super) const SEEN_REPLY: u32 = 1 << 1;
pub(super) const ASSURED: u32 = 1 << 2;
pub(super) const CONFIRMED: u32 = 1 << 3;
pub(super) const DESTINATION_NAT: u32 = 1 << 5;

pub(super) const ESTABLISHED: u8 = 3;
pub(super) const FIN_WAIT: u8 = 4;
pub(super) const CLOSE_WAIT: u8 = 5;
pub(super) const LAST_ACK: u8 = 6;
pub(super) const CLOSE: u8 = 8;

/// Ends of packets of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tuple {
    pub(crate) transport: Transport,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
}

impl Tuple {
    /// Returns the tuple of the client's packets to the VIP.
    pub(super) fn of_key(key: &ConnectionKey) -> Self {
        Self { transport: key.transport, source: key.client, destination: key.vip }
    }

    /// Returns the tuple of packets in the other direction.
    pub(super) fn inverse(self) -> Self {
        Self { transport: self.transport, source: self.destination, destination: self.source }
    }

    /// Parses the attributes of a tuple. Returns `None` if it is of another protocol, or malformed.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let ports = attributes::find(bytes, PORTS)?;
        let transport = Transport::from_number(*attributes::find(ports, PROTOCOL)?.first()?)?;
        let port = |kind| Some(u16::from_be_bytes(attributes::find(ports, kind)?.try_into().ok()?));
        let addresses = attributes::find(bytes, ADDRESSES)?;
        let address = |end: usize| -> Option<IpAddr> {
            let v4 = || Some(<[u8; 4]>::try_from(attributes::find(addresses, V4[end])?).ok()?.into());
            let v6 = || {
                Some(Ipv6Addr::from(<[u8; 16]>::try_from(attributes::find(addresses, V6[end])?).ok()?).into())
            };
            v4().or_else(v6)
        };
        let source = SocketAddr::new(address(0)?, port(SOURCE_PORT)?);
        let destination = SocketAddr::new(address(1)?, port(DESTINATION_PORT)?);
        (source.is_ipv4() == destination.is_ipv4()).then_some(Self { transport, source, destination })
    }
}

/// Entry as the kernel reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) original: Tuple,
    pub(crate) reply: Tuple,
    /// Status bits, if reported.
    pub(crate) status: Option<u32>,
    /// State of TCP, if reported.
    pub(crate) tcp_state: Option<u8>,
    /// Number that distinguishes it from another entry with the same tuples.
    pub(crate) id: Option<u32>,
    /// Seconds until it expires, if reported.
    pub(crate) expires_in: Option<u32>,
}

impl Entry {
    /// Parses the attributes of an entry. Returns `None` if it is of another protocol, not of the default zone, or malformed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let zone = attributes::find(bytes, ZONE);
        if zone.is_some_and(|zone| zone.iter().any(|byte| *byte != 0)) {
            return None;
        }
        let original = Tuple::parse(attributes::find(bytes, TUPLE_ORIGINAL)?)?;
        let reply = Tuple::parse(attributes::find(bytes, TUPLE_REPLY)?)?;
        if original.transport != reply.transport || original.source.is_ipv4() != reply.source.is_ipv4() {
            return None;
        }
        Some(Self {
            original,
            reply,
            status: attributes::find_number(bytes, STATUS),
            tcp_state: tcp_state(bytes),
            id: attributes::find_number(bytes, ID),
            expires_in: attributes::find_number(bytes, TIMEOUT),
        })
    }

    /// Returns the connection of the entry, taking its destination for a VIP.
    pub(super) fn connection(&self) -> Connection {
        Connection { key: self.key(), backend: self.reply.source, source: self.reply.destination }
    }

    /// Its name.
    pub(super) fn key(&self) -> ConnectionKey {
        ConnectionKey {
            transport: self.original.transport,
            client: self.original.source,
            vip: self.original.destination,
        }
    }

    /// Returns true if nothing is translated.
    pub(super) fn is_untranslated(&self) -> bool {
        self.reply == self.original.inverse()
    }

    /// Returns true if it is translated to a backend.
    pub(super) fn is_translated(&self) -> bool {
        self.status.is_some_and(|status| status & DESTINATION_NAT != 0)
    }

    /// Returns true if it lasts and is translated to a backend.
    pub(super) fn is_translated_and_lasting(&self) -> bool {
        self.status.is_some_and(|status| status & (ASSURED | DESTINATION_NAT) == ASSURED | DESTINATION_NAT)
    }

    /// Returns true if neither side has closed it, as far as the kernel reports.
    pub(super) fn is_established(&self) -> bool {
        match self.original.transport {
            Transport::Tcp => self.tcp_state == Some(ESTABLISHED),
            Transport::Udp => true,
        }
    }

    /// Returns true if this node's own socket has accepted it from another node that forwards it: nothing is translated, and this
    /// node sends the answers.
    pub(super) fn is_accepted_here(&self, answers: &Tuple) -> bool {
        let is_answered =
            self.original == *answers || self.status.is_some_and(|status| status & SEEN_REPLY != 0);
        self.is_untranslated() && self.is_open() && is_answered
    }

    /// Returns true if either side may still send on it, as far as the kernel reports.
    pub(super) fn is_open(&self) -> bool {
        match self.original.transport {
            Transport::Tcp => {
                self.tcp_state.is_some_and(|state| matches!(state, ESTABLISHED | FIN_WAIT | CLOSE_WAIT))
            }
            Transport::Udp => true,
        }
    }
}

pub(super) fn tcp_state(bytes: &[u8]) -> Option<u8> {
    let tcp = attributes::find(attributes::find(bytes, PROTOCOL_INFO)?, TCP)?;
    attributes::find(tcp, TCP_STATE)?.first().copied()
}
