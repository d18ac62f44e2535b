//! Requests and changes, as the kernel takes them.
//!
//! Layout: `linux/netfilter/nfnetlink_conntrack.h`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use windlass_vrrp::Family;

use super::entry::{
    ADDRESSES, ASSURED, CONFIRMED, DESTINATION_PORT, ESTABLISHED, ID, PORTS, PROTOCOL, PROTOCOL_INFO,
    SEEN_REPLY, SOURCE_PORT, STATUS, TCP, TCP_STATE, TIMEOUT, TUPLE_ORIGINAL, TUPLE_REPLY, Tuple, V4, V6,
};
use super::error::TrackingError;
use crate::netfilter::NetfilterSocket;
use crate::netfilter::attributes::Attributes;
use crate::netfilter::message::{Content, Operation};
use windlass_vrrp::replication::{Connection, ConnectionKey, Transport};

const NAT_SOURCE: u16 = 6;
const NAT_DESTINATION: u16 = 13;
pub(super) const STATUS_MASK: u16 = 26;
/// Attributes of a translation: the address, lowest and highest in one.
const NAT_V4: u16 = 1;
const NAT_V6: u16 = 4;
const NAT_PORTS: u16 = 3;
/// Lowest and highest port.
const NAT_PORT: [u16; 2] = [1, 2];
/// Attributes of TCP: flags of either direction, each with a mask.
const TCP_FLAGS: [u16; 2] = [4, 5];
const BE_LIBERAL: u8 = 8;

/// Messages of one send: some 64 KiB, which any send buffer takes.
pub(super) const AT_ONCE: usize = 256;

pub(super) type Request = (Operation, Attributes);

/// Number of a family in the kernel.
pub(super) fn number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

fn family(tuple: &Tuple) -> u8 {
    number(Family::of(tuple.source.ip()))
}

/// Requests the connection one direction of which is this.
pub(super) fn get(tuple: &Tuple) -> Request {
    (Operation::GetConnection(family(tuple)), named(tuple))
}

/// Deletes the connection one direction of which is this, if it has this number.
pub(super) fn delete(tuple: &Tuple, id: u32) -> Request {
    (Operation::DeleteConnection(family(tuple)), named(tuple).number(ID, id))
}

/// Sets the lifetime of a tracked connection from now on. If another node has served it meanwhile, this kernel's record of its TCP
/// windows is old: they are no longer checked.
pub(super) fn refresh(key: &ConnectionKey, lifetime: Duration) -> Request {
    let tuple = Tuple::of_key(key);
    let attributes = named(&tuple).number(TIMEOUT, seconds(lifetime));
    (
        Operation::UpdateConnection(family(&tuple)),
        with_windows_unjudged(attributes, key.transport, Attributes::new()),
    )
}

/// Begins to track this connection as another kernel did.
pub(super) fn insert(connection: &Connection, lifetime: Duration) -> Request {
    let original = Tuple::of_key(&connection.key);
    let attributes = named(&original)
        .nest(TUPLE_REPLY, &tuple(&original.inverse()))
        .number(STATUS, SEEN_REPLY | ASSURED | CONFIRMED)
        .number(TIMEOUT, seconds(lifetime))
        .nest(NAT_DESTINATION, &translation(connection.backend))
        .nest(NAT_SOURCE, &translation(connection.source));
    let established = Attributes::new().bytes(TCP_STATE, &[ESTABLISHED]);
    let attributes = with_windows_unjudged(attributes, connection.key.transport, established);
    (Operation::InsertConnection(family(&original)), attributes)
}

/// With what is said of TCP, if that is its transport.
fn with_windows_unjudged(attributes: Attributes, transport: Transport, tcp: Attributes) -> Attributes {
    match transport {
        Transport::Tcp => {
            let flags = [BE_LIBERAL, BE_LIBERAL];
            let tcp = TCP_FLAGS.into_iter().fold(tcp, |tcp, kind| tcp.bytes(kind, &flags));
            attributes.nest(PROTOCOL_INFO, &Attributes::new().nest(TCP, &tcp))
        }
        Transport::Udp => attributes,
    }
}

fn named(original: &Tuple) -> Attributes {
    Attributes::new().nest(TUPLE_ORIGINAL, &tuple(original))
}

fn tuple(tuple: &Tuple) -> Attributes {
    let addresses = match (tuple.source.ip(), tuple.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Attributes::new().bytes(V4[0], &source.octets()).bytes(V4[1], &destination.octets())
        }
        (source, destination) => {
            let [source, destination] = [source, destination].map(|address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            });
            Attributes::new().bytes(V6[0], &source.octets()).bytes(V6[1], &destination.octets())
        }
    };
    let ports = Attributes::new()
        .bytes(PROTOCOL, &[tuple.transport.number()])
        .bytes(SOURCE_PORT, &tuple.source.port().to_be_bytes())
        .bytes(DESTINATION_PORT, &tuple.destination.port().to_be_bytes());
    Attributes::new().nest(ADDRESSES, &addresses).nest(PORTS, &ports)
}

/// To this address and port, and no other.
fn translation(to: SocketAddr) -> Attributes {
    let address = match to.ip() {
        IpAddr::V4(address) => Attributes::new().bytes(NAT_V4, &address.octets()),
        IpAddr::V6(address) => Attributes::new().bytes(NAT_V6, &address.octets()),
    };
    let port = to.port().to_be_bytes();
    let ports = NAT_PORT.into_iter().fold(Attributes::new(), |ports, kind| ports.bytes(kind, &port));
    address.nest(NAT_PORTS, &ports)
}

/// Lifetime in the kernel's whole seconds, at least 1: 0 would expire immediately.
fn seconds(lifetime: Duration) -> u32 {
    u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX).max(1)
}

/// Sends these requests and reports each answer with the index of its request; sends them again, in halves, if the answers were too
/// many. A request that is therefore carried out twice must be harmless; the later answer is the right one.
pub(super) fn exchange(
    socket: &mut NetfilterSocket,
    what: &'static str,
    requests: &[Request],
    mut told: impl FnMut(usize, Content<'_>),
) -> Result<(), TrackingError> {
    let mut pieces = vec![(0_usize, requests)];
    while let Some((from, piece)) = pieces.pop() {
        match socket.exchange(piece, |at, answer| told(from.saturating_add(at), answer)) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && piece.len() > 1 => {
                let (first, second) = piece.split_at(piece.len() / 2);
                pieces.push((from.saturating_add(first.len()), second));
                pieces.push((from, first));
            }
            Err(error) => return Err(TrackingError::of(what)(error)),
        }
    }
    Ok(())
}
