//! The three sockets of an interface.

use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockFilter, Socket, Type};
use windlass_vrrp::wire;

use crate::arp::Mac;
use crate::engine::StartError;
use crate::sys;

/// Room for the adverts of many routers while the engine is not run. The kernel caps it at net.core.rmem_max.
const RECEIVE_BUFFER: usize = 1 << 20;
/// Highest that needs no capability: the first band of the default queueing discipline.
const SEND_PRIORITY: i32 = 6;

/// The sockets of one interface. Opening and closing them may wait in the kernel (for the routing lock, for RCU): not on
/// the timer thread.
#[derive(Debug)]
pub(crate) struct LinkSockets {
    pub(crate) index: u32,
    pub(crate) mac: Mac,
    adverts_in: Socket,
    adverts_out: Socket,
    arp: Socket,
}

/// A step of opening them that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub(crate) struct OpenError {
    what: &'static str,
    source: io::Error,
}

impl LinkSockets {
    pub(crate) fn open(interface: &str, index: u32, mac: Mac) -> Result<Self, OpenError> {
        let step = |what| move |source| OpenError { what, source };
        Ok(Self {
            index,
            mac,
            adverts_in: adverts_in(interface, index)
                .map_err(step("open the socket that receives adverts"))?,
            adverts_out: adverts_out(interface).map_err(step("open the socket that sends adverts"))?,
            arp: arp(index).map_err(step("open the ARP socket"))?,
        })
    }

    /// Receives an advert, IPv4 header included. `WouldBlock` when there is none.
    pub(crate) fn receive_advert(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.adverts_in).read(buffer)
    }

    /// Receives an ARP frame. `WouldBlock` when there is none.
    pub(crate) fn receive_arp(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.arp).read(buffer)
    }

    /// Sends a datagram from [`wire::Advert::emit`].
    pub(crate) fn send_advert(&self, datagram: &[u8]) -> io::Result<()> {
        let group = std::net::SocketAddrV4::new(wire::GROUP_V4, 0).into();
        self.adverts_out.send_to(datagram, &group).map(drop)
    }

    /// Sends an Ethernet frame.
    pub(crate) fn send_arp(&self, frame: &[u8]) -> io::Result<()> {
        self.arp.send(frame).map(drop)
    }

    /// What to wait for: adverts, ARP.
    pub(crate) fn readable(&self) -> [BorrowedFd<'_>; 2] {
        [self.adverts_in.as_fd(), self.arp.as_fd()]
    }

    /// Takes errors that the kernel left on the sockets (as when the interface goes down): unread they would make every
    /// wait return at once.
    pub(crate) fn clear_errors(&self) {
        let _ = (self.adverts_in.take_error(), self.arp.take_error());
    }
}

/// Opens and closes one socket of each kind, to know at the start what is not permitted.
pub(crate) fn probe() -> Result<(), StartError> {
    let denied = |socket: &'static str| {
        move |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => StartError::MissingCapability { socket, source },
            _ => StartError::Os { what: "open a raw or packet socket", source },
        }
    };
    Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(wire::PROTOCOL))))
        .map_err(denied("raw"))?;
    Socket::new(Domain::PACKET, Type::RAW, None).map_err(denied("packet"))?;
    Ok(())
}

fn adverts_in(interface: &str, index: u32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(wire::PROTOCOL))))?;
    socket.set_nonblocking(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.set_multicast_all_v4(false)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    // A raw socket receives from birth: what came in before it was bound may be another interface's.
    for _ in 0..1024 {
        if (&socket).read(&mut [0; 1]).is_err() {
            break;
        }
    }
    socket.join_multicast_v4_n(&wire::GROUP_V4, &InterfaceIndexOrAddress::Index(index))?;
    Ok(socket)
}

fn adverts_out(interface: &str) -> io::Result<Socket> {
    // IPPROTO_RAW: we write the IPv4 header, so that one socket serves every source address; it receives nothing.
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
    socket.set_nonblocking(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.set_multicast_loop_v4(false)?;
    setsockopt(&socket, sockopt::Priority, &SEND_PRIORITY)?;
    Ok(socket)
}

fn arp(index: u32) -> io::Result<Socket> {
    // Protocol 0 until it is bound: nothing is received before the filter is in place.
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
    socket.set_nonblocking(true)?;
    socket.attach_filter(&arp_filter())?;
    sys::bind_arp(&socket, index)?;
    Ok(socket)
}

/// Classic BPF: ARP requests and replies, sent to this station or to all; not what others sent each other (seen in
/// promiscuous mode), not what we sent.
fn arp_filter() -> [SockFilter; 9] {
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF: u16 = 0x28;
    const JUMP_GREATER: u16 = 0x25;
    const JUMP_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const PACKET_TYPE: u32 = 0xffff_f004; // SKF_AD_OFF + SKF_AD_PKTTYPE
    const PACKET_MULTICAST: u32 = 2; // host 0, broadcast 1, multicast 2; above: others', outgoing
    [
        SockFilter::new(LOAD_BYTE, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_GREATER, 6, 0, PACKET_MULTICAST),
        SockFilter::new(LOAD_HALF, 0, 0, 12),
        SockFilter::new(JUMP_EQUAL, 0, 4, 0x0806),
        SockFilter::new(LOAD_HALF, 0, 0, 20),
        SockFilter::new(JUMP_EQUAL, 1, 0, 1),
        SockFilter::new(JUMP_EQUAL, 0, 1, 2),
        SockFilter::new(RETURN, 0, 0, 64),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

/// Whether an error means that there is nothing to read now.
pub(crate) fn is_empty(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Why this interface cannot carry a router, if it cannot; `found` is what the kernel lists under the name.
pub(crate) fn obstacle(name: &str, found: Option<&crate::interfaces::InterfaceInfo>) -> Option<String> {
    match found {
        None => Some(format!(
            "interface {name} does not exist or is no Ethernet interface: check the name with `ip link`"
        )),
        Some(info) if !info.up => Some(format!("interface {name} is down: `ip link set {name} up`")),
        Some(info) if !info.carrier => {
            Some(format!("interface {name} has no carrier: check its cable or peer"))
        }
        Some(_) => None,
    }
}

/// Why a router cannot run with this source, if it cannot.
pub(crate) fn source_obstacle(name: &str, source: IpAddr, addresses: &[IpAddr]) -> Option<String> {
    if addresses.contains(&source) {
        return None;
    }
    let has = if addresses.is_empty() {
        "no IPv4 address".to_owned()
    } else {
        addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    Some(format!(
        "interface {name} does not have {source}, the source of this router's adverts, but {has}: \
         add the address or correct the source"
    ))
}
