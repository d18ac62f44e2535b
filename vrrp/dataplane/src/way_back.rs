//! Test whether the answers of other hosts to an address of this node arrive by its LAN: it sends them echo requests.
//!
//! Backends that take a VIP for their client answer to it by the LAN, whatever way the request came by. Between a pod network that
//! is a tunnel and the LAN, a strict reverse-path filter drops that: on the backend's node packets out of the tunnel from an
//! address of the LAN, on this node packets by the LAN from a pod's address; and a switch may drop packets with an unknown address.
//! No routing table shows all of it. An echo request from this node's own address on the LAN takes the very same way, there and
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, IoSliceMut, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};
use windlass_kernel::clock;
use windlass_vrrp::Family;
use windlass_vrrp::wire::internet_checksum;

#[cfg(test)]
mod tests;

/// Beginning of the echo requests' data: the guard does not change the source of such a request.
pub(crate) const QUESTION: [u8; 8] = *b"windlass";
/// Type, code, checksum, identifier, number.
const HEADER: usize = 8;
/// Length of the number that no host can guess without the request.
const SECRET: usize = 8;
const LENGTH: usize = HEADER + QUESTION.len() + SECRET;
/// Bytes that are read of an answer: the longest header of IPv4, and the message.
const READ: usize = 60 + LENGTH;

/// Messages that are read in a row: a flood of others does not delay the end.
const AT_ONCE: usize = 1024;

/// Answers of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "an answer")]
pub struct Heard {
    /// True if it answered at all.
    pub at_all: bool,
    /// True if its answer to this node's address on the LAN arrived by the LAN's interface.
    pub by_interface: bool,
}

/// See `Engine::ask_way_back` of the engine.
pub fn ask(
    own: IpAddr,
    interface: &str,
    hosts: &BTreeSet<IpAddr>,
    limit: Duration,
) -> io::Result<BTreeMap<IpAddr, Heard>> {
    let index = nix::net::if_::if_nametoindex(interface)?;
    let any: IpAddr = match own {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let (from_own, from_any) = (Asker::open(own)?, Asker::open(any)?);
    let mut heard: BTreeMap<IpAddr, Heard> = BTreeMap::new();
    for host in hosts.iter().filter(|host| Family::of(**host) == Family::of(own)) {
        heard.insert(*host, Heard::default());
        from_own.send(*host);
        from_any.send(*host);
    }
    let end = clock::now() + limit;
    while heard.values().any(|heard| !heard.by_interface) {
        let left = end.since(clock::now());
        if left.is_zero() {
            break;
        }
        let mut descriptors =
            [&from_own, &from_any].map(|asker| PollFd::new(asker.socket.as_fd(), PollFlags::POLLIN));
        match ppoll(&mut descriptors, Some(TimeSpec::from(left)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        for (asker, is_own) in [(&from_own, true), (&from_any, false)] {
            for _ in 0..AT_ONCE {
                let Some((from, came_by)) = asker.receive()? else { break };
                if let Some(heard) = from.and_then(|from| heard.get_mut(&from)) {
                    heard.at_all = true;
                    heard.by_interface |= is_own && came_by == Some(index);
                }
            }
        }
    }
    Ok(heard)
}

/// Sends echo requests from one address, and receives the answers.
struct Asker {
    family: Family,
    socket: Socket,
    request: [u8; LENGTH],
}

impl Asker {
    fn open(source: IpAddr) -> io::Result<Self> {
        let family = Family::of(source);
        let (domain, protocol) = match family {
            Family::V4 => (Domain::IPV4, Protocol::ICMPV4),
            Family::V6 => (Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
        socket.set_nonblocking(true)?;
        match family {
            Family::V4 => setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?,
            Family::V6 => setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        }
        if !source.is_unspecified() {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        Ok(Self { family, socket, request: request(family, secret()?) })
    }

    /// Sends the request. One that cannot be sent is not answered.
    fn send(&self, host: IpAddr) {
        if let Err(error) = self.socket.send_to(&self.request, &SocketAddr::new(host, 0).into()) {
            tracing::debug!(%host, %error, "cannot be asked for the way back");
        }
    }

    /// Receives the next message, if there is one: its sender, if it is an answer, and the number of the interface by which it
    /// came.
    fn receive(&self) -> io::Result<Option<(Option<IpAddr>, Option<u32>)>> {
        let mut bytes = [0; READ];
        let mut control = nix::cmsg_space!(libc::in6_pktinfo);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let (descriptor, none) = (self.socket.as_raw_fd(), MsgFlags::empty());
        let received = match recvmsg::<SockaddrStorage>(descriptor, &mut parts, Some(&mut control), none) {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let came_by = received.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::Ipv4PacketInfo(info) => u32::try_from(info.ipi_ifindex).ok(),
            ControlMessageOwned::Ipv6PacketInfo(info) => Some(info.ipi6_ifindex),
            _ => None,
        });
        let length = received.bytes;
        let from = received.address.and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip())))
        });
        let is_answer = bytes.get(..length).is_some_and(|bytes| answers(self.family, bytes, &self.request));
        Ok(Some((from.filter(|_| is_answer), came_by)))
    }
}

fn secret() -> io::Result<[u8; SECRET]> {
    let mut bytes = [0; SECRET];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Builds an echo request (RFC 792, RFC 4443 §4.1). Each has another identifier, so that the kernel takes it for a flow of its own,
/// which is translated by the present rules.
fn request(family: Family, secret: [u8; SECRET]) -> [u8; LENGTH] {
    let mut message = [0; LENGTH];
    message[0] = match family {
        Family::V4 => 8,
        Family::V6 => 128,
    };
    message[4..6].copy_from_slice(&secret[..2]);
    message[HEADER..const { HEADER + QUESTION.len() }].copy_from_slice(&QUESTION);
    message[LENGTH - SECRET..].copy_from_slice(&secret);
    if family == Family::V4 {
        // The kernel does that for IPv6.
        let sum = internet_checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

/// Returns true if this, as a raw socket reads it, is the answer to the request.
fn answers(family: Family, bytes: &[u8], request: &[u8]) -> bool {
    let (message, reply) = match family {
        Family::V4 => {
            let header = bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4);
            (bytes.get(header..).unwrap_or_default(), 0)
        }
        Family::V6 => (bytes, 129),
    };
    message.get(..2) == Some(&[reply, 0])
        && message.get(4..6) == request.get(4..6)
        && message.get(HEADER..) == request.get(HEADER..)
}
