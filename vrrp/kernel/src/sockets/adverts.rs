//! Raw sockets for adverts.

use std::io::{self, IoSliceMut, Read};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn6, recvmsg, setsockopt, sockopt};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, SockFilter, Socket, Type};
use windlass_vrrp::Family;
use windlass_vrrp::wire::{self, Datagram, Path, Rejection};

use super::SEND_PRIORITY;
use crate::receive_buffer;

#[cfg(test)]
mod tests;

/// Room for the adverts of 255 routers for some seconds in which the engine is not run.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Minimum charge of a packet against the receive buffer: the kernel's own structures count.
const MIN_PACKET_CHARGE: usize = 512;
/// Longest advert: IPv6 with 255 addresses. A longer packet is cut and refused.
const MAX_ADVERT_LENGTH: usize = 8 + 255 * 16 + 128;

/// Buffer for a received packet.
pub struct ReceiveBuffer {
    bytes: Box<[u8]>,
    control: Vec<u8>,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBuffer {
    /// A buffer with room for the longest advert.
    pub fn new() -> Self {
        let control = nix::cmsg_space!(libc::timespec, libc::c_int, libc::in6_pktinfo);
        Self { bytes: vec![0; MAX_ADVERT_LENGTH].into_boxed_slice(), control }
    }
}

/// A socket that receives adverts of one family on one interface.
#[derive(Debug)]
pub struct AdvertSocket {
    family: Family,
    socket: Socket,
    /// Maximum number of packets that can wait in it.
    capacity: usize,
}

impl AdvertSocket {
    /// Opens it, with the default group joined. It receives only packets that the filter passes.
    pub(super) fn open(
        interface: &str,
        index: u32,
        family: Family,
        filter: &[SockFilter],
    ) -> io::Result<Self> {
        let socket = Socket::new(domain(family), Type::RAW, Some(vrrp()))?;
        socket.attach_filter(filter)?;
        socket.set_nonblocking(true)?;
        socket.bind_device(Some(interface.as_bytes()))?;
        match family {
            Family::V4 => socket.set_multicast_all_v4(false)?,
            Family::V6 => {
                socket.set_multicast_all_v6(false)?;
                socket.set_recv_hoplimit_v6(true)?;
                setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            }
        }
        // The kernel begins to stamp a moment after the machine's first such socket asks for it; until then, what arrives is
        // stamped when it is looked at.
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        receive_buffer::enlarge(&socket, RECEIVE_BUFFER)?;
        let capacity = socket.recv_buffer_size()? / MIN_PACKET_CHARGE;
        // A raw socket receives from birth: what came in before it was bound may be another interface's.
        for _ in 0..1024 {
            if (&socket).read(&mut [0; 1]).is_err() {
                break;
            }
        }
        let socket = Self { family, socket, capacity };
        socket.join(wire::default_group(family), index)?;
        Ok(socket)
    }

    /// Receives an advert, good or bad. `WouldBlock` when there is none.
    pub fn receive<'r>(&self, buffer: &'r mut ReceiveBuffer) -> io::Result<Result<Datagram<'r>, Rejection>> {
        match self.family {
            Family::V4 => {
                let length = (&self.socket).read(&mut buffer.bytes)?;
                Ok(Datagram::from_ipv4(&buffer.bytes[..length]))
            }
            Family::V6 => self.receive_v6(buffer),
        }
    }

    /// Receives an IPv6 advert: the kernel strips the header and passes its fields beside the message.
    fn receive_v6<'r>(&self, buffer: &'r mut ReceiveBuffer) -> io::Result<Result<Datagram<'r>, Rejection>> {
        let (mut hop_limit, mut destination) = (None, None);
        let (length, source) = {
            let mut parts = [IoSliceMut::new(&mut buffer.bytes)];
            let received = recvmsg::<SockaddrIn6>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut buffer.control),
                MsgFlags::empty(),
            )?;
            for message in received.cmsgs()? {
                if let ControlMessageOwned::Ipv6HopLimit(limit) = message {
                    hop_limit = u8::try_from(limit).ok();
                } else if let ControlMessageOwned::Ipv6PacketInfo(info) = message {
                    destination = Some(IpAddr::from(info.ipi6_addr.s6_addr));
                }
            }
            (received.bytes, received.address.map(|address| IpAddr::V6(address.ip())))
        };
        let (Some(source), Some(destination), Some(ttl)) = (source, destination, hop_limit) else {
            return Ok(Err(Rejection::IpHeader));
        };
        Ok(Ok(Datagram { source, destination, ttl, payload: &buffer.bytes[..length] }))
    }

    /// Returns the arrival time of the next packet, by the wall clock in nanoseconds since 1970; `None` if it has no time stamp.
    /// `WouldBlock` when there is no packet.
    pub fn next_stamp(&self, buffer: &mut ReceiveBuffer) -> io::Result<Option<u64>> {
        let mut parts = [IoSliceMut::new(&mut buffer.bytes[..1])];
        let peeked = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut buffer.control),
            MsgFlags::MSG_PEEK,
        )?;
        Ok(peeked.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(stamp) => {
                let (seconds, nanos) = (u64::try_from(stamp.tv_sec()), u64::try_from(stamp.tv_nsec()));
                seconds.ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.ok()?)
            }
            _ => None,
        }))
    }

    /// Replaces the filter.
    pub(super) fn filter(&self, filter: &[SockFilter]) -> io::Result<()> {
        self.socket.attach_filter(filter)
    }

    pub(super) fn join(&self, group: IpAddr, index: u32) -> io::Result<()> {
        match group {
            IpAddr::V4(group) => {
                self.socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
            }
            IpAddr::V6(group) => self.socket.join_multicast_v6(&group, index),
        }
    }

    pub(super) fn leave(&self, group: IpAddr, index: u32) -> io::Result<()> {
        match group {
            IpAddr::V4(group) => {
                self.socket.leave_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
            }
            IpAddr::V6(group) => self.socket.leave_multicast_v6(&group, index),
        }
    }

    /// Discards the packets that wait in it.
    pub fn discard(&self) {
        for _ in 0..self.capacity {
            if (&self.socket).read(&mut [0; 1]).is_err() {
                break;
            }
        }
    }

    /// The descriptor, to wait for.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Maximum number of packets that can wait in it: after so many were read, all that had arrived before were read.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl AsFd for AdvertSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor()
    }
}

/// A socket that sends adverts of one family by one interface, IP header included: one serves every source address.
#[derive(Debug)]
pub struct AdvertSender {
    socket: Socket,
    index: u32,
}

impl AdvertSender {
    pub(super) fn open(interface: &str, index: u32, family: Family) -> io::Result<Self> {
        // IPPROTO_RAW: we write the IP header; it receives nothing.
        let socket = Socket::new(domain(family), Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
        socket.set_nonblocking(true)?;
        socket.bind_device(Some(interface.as_bytes()))?;
        match family {
            Family::V4 => socket.set_multicast_loop_v4(false)?,
            Family::V6 => {
                socket.set_multicast_loop_v6(false)?;
                socket.set_multicast_if_v6(index)?;
            }
        }
        setsockopt(&socket, sockopt::Priority, &SEND_PRIORITY)?;
        Ok(Self { socket, index })
    }

    /// Returns the target address of packets on this path, prepared once.
    pub fn target(&self, path: Path) -> SockAddr {
        match path {
            Path::V4 { destination, .. } => SocketAddr::V4(SocketAddrV4::new(destination, 0)).into(),
            Path::V6 { destination, .. } => {
                SocketAddr::V6(SocketAddrV6::new(destination, 0, 0, self.index)).into()
            }
        }
    }

    /// Sends a datagram from [`wire::Advert::datagram`].
    pub fn send(&self, datagram: &[u8], target: &SockAddr) -> io::Result<()> {
        self.socket.send_to(datagram, target).map(drop)
    }
}

fn domain(family: Family) -> Domain {
    match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    }
}

fn vrrp() -> Protocol {
    Protocol::from(i32::from(wire::PROTOCOL))
}
