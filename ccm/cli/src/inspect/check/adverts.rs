//! Packets of VRRP that arrive at this host, from whomever: a socket of its own beside the agent's.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use nix::net::if_::{Interface, if_nameindex};
use nix::sys::socket::SockaddrStorage;
use serde::Serialize;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use windlass_vrrp::wire::{GROUP_V4, GROUP_V6, PROTOCOL};

/// A virtual router in which a host is Active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Advert {
    pub(super) source: IpAddr,
    pub(super) version: u8,
    pub(super) vrid: u8,
}

/// Opens sockets for both families that receive packets to VRRP's groups on any interface; the second is missing without IPv6.
///
/// # Errors
/// No socket could be opened: CAP_NET_RAW is missing.
pub(super) fn open() -> io::Result<(UdpSocket, Option<UdpSocket>)> {
    let indices: Vec<u32> = if_nameindex()?.iter().map(Interface::index).collect();
    let four = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(PROTOCOL))))?;
    for index in &indices {
        // An interface that is down or has no address takes no member; nothing arrives there either.
        drop(four.join_multicast_v4_n(&GROUP_V4, &InterfaceIndexOrAddress::Index(*index)));
    }
    // Of a kernel without IPv6 there is none.
    let six = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::from(i32::from(PROTOCOL)))).ok();
    for (socket, index) in six.iter().flat_map(|socket| indices.iter().map(move |index| (socket, index))) {
        drop(socket.join_multicast_v6(&GROUP_V6, *index));
    }
    Ok((four.into(), six.map(Into::into)))
}

/// Listens to adverts for `how_long`, on all interfaces.
///
/// # Errors
/// No socket could be opened: CAP_NET_RAW is missing.
pub(super) fn listen(how_long: Duration) -> io::Result<BTreeSet<Advert>> {
    let (four, six) = open()?;
    let end = Instant::now() + how_long;
    let heard_by = |socket: &UdpSocket| {
        let mut heard = BTreeSet::new();
        receive(socket, Some(end), |source, packet| heard.extend(read(source, packet))).map(|()| heard)
    };
    std::thread::scope(|scope| {
        let other = six.as_ref().map(|six| scope.spawn(move || heard_by(six)));
        let mut heard = heard_by(&four)?;
        if let Some(Ok(Ok(more))) = other.map(ScopedJoinHandle::join) {
            heard.extend(more);
        }
        Ok(heard)
    })
}

/// Returns the IP address among the addresses that `getifaddrs` lists for an interface.
pub(super) fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let four = address.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
    four.or_else(|| address.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
}

/// Passes each packet that arrives, with its source, to `take` until `end`, or for ever.
pub(super) fn receive(
    socket: &UdpSocket,
    end: Option<Instant>,
    mut take: impl FnMut(IpAddr, &[u8]),
) -> io::Result<()> {
    let mut buffer = [0; 2048];
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        socket.set_read_timeout(left)?;
        match socket.recv_from(&mut buffer) {
            Ok((length, source)) => take(source.ip(), &buffer[..length]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the payload of a packet from a raw socket, which delivers the IP header for IPv4 alone.
pub(super) fn payload(source: IpAddr, packet: &[u8]) -> Option<&[u8]> {
    let header = match source {
        IpAddr::V4(_) => usize::from(packet.first()? & 0x0f) * 4,
        IpAddr::V6(_) => 0,
    };
    packet.get(header..)
}

/// An advert among what a raw socket got.
fn read(source: IpAddr, packet: &[u8]) -> Option<Advert> {
    let [first, vrid, ..] = payload(source, packet)? else { return None };
    // Version and type: 1 is an advertisement.
    (first & 0x0f == 1).then_some(Advert { source, version: first >> 4, vrid: *vrid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adverts_are_told_from_what_else_has_their_protocol() {
        let (four, six) = ("192.0.2.1".parse().unwrap(), "fe80::1".parse().unwrap());
        let mut packet = vec![0x45; 20];
        packet.extend([0x31, 7, 100]);
        assert_eq!(read(four, &packet), Some(Advert { source: four, version: 3, vrid: 7 }));
        assert_eq!(read(six, &packet[20..]), Some(Advert { source: six, version: 3, vrid: 7 }));
        let rows: [&[u8]; 4] = [&[], &[0x45; 20], &[0x4f, 0x31, 7], &[0x32, 7]];
        for other in rows {
            assert_eq!(read(four, other), None, "{other:?}");
        }
        assert_eq!(read(six, &[0x32, 7]), None, "another type");
    }
}
