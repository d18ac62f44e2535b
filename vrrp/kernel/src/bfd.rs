//! Sockets of BFD (RFC 5881, RFC 5883): one that receives for each family and port, one that sends for each session.
//!
//! What is no peer's is dropped in the kernel, so that a flood of it fills no buffer and wakes no thread.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::sockopt::GetStruct;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use windlass_vrrp::Family;

use crate::receive_buffer;
use crate::tcp::{CLASS_SELECTOR_6, HOP_LIMIT};

mod filter;
#[cfg(test)]
mod tests;

/// Bytes of the receive buffer, which the kernel doubles.
const RECEIVE_BUFFER: usize = 1 << 17;
/// Minimum charge of a packet against the receive buffer: the kernel's own structures count.
const MIN_PACKET_CHARGE: usize = 512;
/// Most packets that wait in a [`BfdReceiver`]: after so many were read, all that had arrived before were read.
pub const CAPACITY: usize = 2 * RECEIVE_BUFFER / MIN_PACKET_CHARGE;
/// Queueing priority of packets that keep a session up.
const SEND_PRIORITY: i32 = 6;
/// Source ports (RFC 5881 §4).
const FIRST_SOURCE_PORT: u16 = 49_152;
/// Source ports that are tried for a session.
const PORTS_TRIED: u16 = 64;
/// Numbers of 32 bits that `SO_MEMINFO` returns; the last one counts what was dropped.
const MEMORY_INFO: usize = 9;

#[derive(Clone, Copy, Debug)]
struct MemoryInfo;
nix::getsockopt_impl!(
    MemoryInfo,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; MEMORY_INFO],
    GetStruct<[u32; MEMORY_INFO]>
);

/// Session whose packets pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the engine")]
pub struct Admitted {
    /// Address to which the packets are sent.
    pub own: IpAddr,
    /// Address from which they are sent.
    pub peer: IpAddr,
    /// Index of the interface by which they arrive; `None`: by any.
    pub interface: Option<u32>,
    /// Smallest TTL or hop limit.
    pub minimum_ttl: u8,
    /// Discriminator that they name, unless they name none.
    pub discriminator: NonZeroU32,
}

/// Receives the packets of all sessions of a family on one port.
#[derive(Debug)]
pub struct BfdReceiver(UdpSocket);

impl BfdReceiver {
    /// Opens it. No packet passes before [`Self::admit`].
    pub fn open(family: Family, port: u16) -> io::Result<Self> {
        let (domain, any): (_, IpAddr) = match family {
            Family::V4 => (Domain::IPV4, [0; 4].into()),
            Family::V6 => (Domain::IPV6, [0; 16].into()),
        };
        let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        if family == Family::V6 {
            socket.set_only_v6(true)?;
        }
        socket.attach_filter(&filter::program(&[]))?;
        receive_buffer::enlarge(&socket, RECEIVE_BUFFER)?;
        socket.bind(&SocketAddr::new(any, port).into())?;
        Ok(Self(socket.into()))
    }

    /// Has only packets of these sessions, of its family, pass.
    pub fn admit(&self, sessions: &[Admitted]) -> io::Result<()> {
        SockRef::from(&self.0).attach_filter(&filter::program(sessions))
    }

    /// Receives a packet; `WouldBlock` when there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.recv_from(buffer)
    }

    /// Number of packets that the kernel dropped: of no session, or because the buffer was full.
    pub fn dropped(&self) -> u32 {
        let info = getsockopt(&self.0, MemoryInfo).unwrap_or_default();
        info.last().copied().unwrap_or_default()
    }
}

impl AsFd for BfdReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends the packets of one session, from a port of its own.
#[derive(Debug)]
pub struct BfdSender(UdpSocket);

impl BfdSender {
    /// Opens it. `interface` has the name and index of the interface by which the peer is reached; `None`: by route. `number` chooses the
    /// source port.
    pub fn open(
        own: IpAddr,
        peer: SocketAddr,
        interface: Option<(&str, u32)>,
        number: u16,
    ) -> io::Result<Self> {
        let domain = Domain::for_address(peer);
        let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        socket.attach_filter(&filter::program(&[]))?;
        if domain == Domain::IPV4 {
            socket.set_ttl_v4(HOP_LIMIT)?;
            socket.set_tos_v4(CLASS_SELECTOR_6)?;
        } else {
            socket.set_unicast_hops_v6(HOP_LIMIT)?;
            socket.set_tclass_v6(CLASS_SELECTOR_6)?;
        }
        setsockopt(&socket, sockopt::Priority, &SEND_PRIORITY)?;
        if let Some((name, _)) = interface {
            socket.bind_device(Some(name.as_bytes()))?;
        }
        let index = interface.map(|(_, index)| index).unwrap_or_default();
        bind_to_own_port(&socket, own, index, number)?;
        socket.connect(&scoped(peer, index).into())?;
        Ok(Self(socket.into()))
    }

    /// Sends a packet.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.0.send(packet).map(drop)
    }
}

/// Binds to a source port that no other socket has.
fn bind_to_own_port(socket: &Socket, own: IpAddr, index: u32, number: u16) -> io::Result<()> {
    let mut outcome = Ok(());
    for attempt in 0..PORTS_TRIED {
        // The 16,384 ports from the first one on.
        let port = FIRST_SOURCE_PORT | number.wrapping_add(attempt);
        outcome = socket.bind(&scoped(SocketAddr::new(own, port), index).into());
        match &outcome {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Ok(()) | Err(_) => break,
        }
    }
    outcome
}

/// The address with the interface, which is part of a link-local one.
fn scoped(address: SocketAddr, index: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, index).into()
        }
        address => address,
    }
}
