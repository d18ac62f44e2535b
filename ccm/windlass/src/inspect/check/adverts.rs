//! Adverts of VRRP that arrive at this host, from whomever: a socket of its own beside the agent's.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use nix::net::if_::{Interface, if_nameindex};
use serde::Serialize;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use windlass_vrrp::wire::{GROUP_V4, GROUP_V6, PROTOCOL};

/// A virtual router that somebody is Active in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Advert {
    pub(super) source: IpAddr,
    pub(super) version: u8,
    pub(super) vrid: u8,
}

/// Listens for so long, on all interfaces.
///
/// # Errors
/// No socket could be opened: CAP_NET_RAW is missing.
pub(super) fn listen(how_long: Duration) -> io::Result<BTreeSet<Advert>> {
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
    let end = Instant::now() + how_long;
    std::thread::scope(|scope| {
        let other = six.map(|six| scope.spawn(move || receive(&six.into(), end)));
        let mut heard = receive(&four.into(), end)?;
        if let Some(Ok(Ok(more))) = other.map(ScopedJoinHandle::join) {
            heard.extend(more);
        }
        Ok(heard)
    })
}

fn receive(socket: &UdpSocket, end: Instant) -> io::Result<BTreeSet<Advert>> {
    let mut heard = BTreeSet::new();
    let mut buffer = [0; 2048];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(heard);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv_from(&mut buffer) {
            Ok((length, source)) => heard.extend(read(source.ip(), &buffer[..length])),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads what a raw socket got: with its header, if it is of IPv4.
fn read(source: IpAddr, packet: &[u8]) -> Option<Advert> {
    let header = match source {
        IpAddr::V4(_) => usize::from(packet.first()? & 0x0f) * 4,
        IpAddr::V6(_) => 0,
    };
    let [first, vrid, ..] = packet.get(header..)? else { return None };
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
