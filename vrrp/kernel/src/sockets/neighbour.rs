//! The packet sockets for ARP and neighbour discovery.
//!
//! | socket | receives | sends |
//! |---|---|---|
//! | [`NeighbourSocket`], of an interface | what is for it and for groups | all |
//! | [`UnicastSocket`], of a device with a virtual router MAC address | what is for that address alone | nothing |

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, SockFilter, Socket, Type};
use windlass_vrrp::Family;

use crate::receive_buffer;
use crate::sys;

/// Room for the questions of a whole LAN after a power cut, while the engine is not run. A short frame takes some 800 bytes.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Receives and sends ARP and neighbour discovery on one interface.
#[derive(Debug)]
pub struct NeighbourSocket {
    arp: Socket,
    ndp: Socket,
}

impl NeighbourSocket {
    pub(super) fn open(index: u32) -> io::Result<Self> {
        Ok(Self {
            arp: packet(index, libc::ETH_P_ARP, arp_filter(PACKET_MULTICAST))?,
            ndp: packet(index, libc::ETH_P_IPV6, ndp_filter(PACKET_MULTICAST))?,
        })
    }

    /// Receives a frame. `WouldBlock` when there is none.
    pub fn receive(&self, family: Family, buffer: &mut [u8]) -> io::Result<usize> {
        self.of(family).read(buffer)
    }

    /// Sends Ethernet frames of one family, in order; returns how many were sent. An error is that of the first.
    pub fn send(&self, family: Family, frames: &[&[u8]]) -> io::Result<usize> {
        sys::send_each(self.of(family), frames)
    }

    /// Returns the descriptors to wait for.
    pub fn readable(&self) -> [BorrowedFd<'_>; 2] {
        [self.arp.as_fd(), self.ndp.as_fd()]
    }

    fn of(&self, family: Family) -> &Socket {
        match family {
            Family::V4 => &self.arp,
            Family::V6 => &self.ndp,
        }
    }
}

/// Receives ARP or neighbour discovery sent to a device's own link-layer address: hosts that have a VIP's neighbour entry probe there
/// whether it is still valid. Broadcast and multicast frames come by the interface that the device is on.
#[derive(Debug)]
pub struct UnicastSocket(Socket);

impl UnicastSocket {
    /// Opens it on the interface of this index.
    pub fn open(index: u32, family: Family) -> io::Result<Self> {
        Ok(Self(match family {
            Family::V4 => packet(index, libc::ETH_P_ARP, arp_filter(PACKET_HOST))?,
            Family::V6 => packet(index, libc::ETH_P_IPV6, ndp_filter(PACKET_HOST))?,
        }))
    }

    /// Receives a frame. `WouldBlock` when there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buffer)
    }
}

impl AsFd for UnicastSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(super) fn packet<const N: usize>(
    index: u32,
    protocol: i32,
    filter: [SockFilter; N],
) -> io::Result<Socket> {
    // Protocol 0 until it is bound: nothing is received before the filter is in place.
    let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
    socket.set_nonblocking(true)?;
    receive_buffer::enlarge(&socket, RECEIVE_BUFFER)?;
    socket.attach_filter(&on_own_lan(index, filter))?;
    sys::bind_packet(&socket, protocol, index)?;
    Ok(socket)
}

const LOAD_WORD: u16 = 0x20;
pub(super) const LOAD_BYTE: u16 = 0x30;
pub(super) const LOAD_HALF: u16 = 0x28;
const JUMP_GREATER: u16 = 0x25;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
pub(super) const PACKET_TYPE: u32 = 0xffff_f004; // SKF_AD_OFF + SKF_AD_PKTTYPE
const INTERFACE: u32 = 0xffff_f008; // SKF_AD_OFF + SKF_AD_IFINDEX
// Host 0, broadcast 1, multicast 2; above: others', outgoing.
pub(super) const PACKET_HOST: u32 = 0;
const PACKET_MULTICAST: u32 = 2;
const WHOLE: u32 = 0xffff;

/// This filter, for frames of the interface's own LAN alone. A socket on the parent of VLANs also receives their frames, as those of the VLAN's
/// device, without the tag. (Where the host has no device for a tag, the kernel takes the frame for another host's.) The last instruction of
/// the filter refuses.
fn on_own_lan<const N: usize>(index: u32, filter: [SockFilter; N]) -> Vec<SockFilter> {
    let to_refusal = u8::try_from(N.saturating_sub(1)).unwrap_or(u8::MAX);
    let own =
        [SockFilter::new(LOAD_WORD, 0, 0, INTERFACE), SockFilter::new(JUMP_EQUAL, 0, to_refusal, index)];
    own.into_iter().chain(filter).collect()
}

/// Classic BPF: ARP requests and replies, sent to this host or, up to `widest`, to all; not what others sent each other
/// (seen in promiscuous mode), not what we sent.
fn arp_filter(widest: u32) -> [SockFilter; 7] {
    [
        SockFilter::new(LOAD_BYTE, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_GREATER, 4, 0, widest),
        SockFilter::new(LOAD_HALF, 0, 0, 20), // operation
        SockFilter::new(JUMP_EQUAL, 1, 0, 1),
        SockFilter::new(JUMP_EQUAL, 0, 1, 2),
        SockFilter::new(RETURN, 0, 0, WHOLE),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

/// Likewise: neighbour solicitations and advertisements that passed no router. Without extension headers, as all send them.
fn ndp_filter(widest: u32) -> [SockFilter; 11] {
    [
        SockFilter::new(LOAD_BYTE, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_GREATER, 8, 0, widest),
        SockFilter::new(LOAD_BYTE, 0, 0, 20), // next header
        SockFilter::new(JUMP_EQUAL, 0, 6, 58),
        SockFilter::new(LOAD_BYTE, 0, 0, 21), // hop limit
        SockFilter::new(JUMP_EQUAL, 0, 4, 255),
        SockFilter::new(LOAD_BYTE, 0, 0, 54), // ICMPv6 type
        SockFilter::new(JUMP_EQUAL, 1, 0, 135),
        SockFilter::new(JUMP_EQUAL, 0, 1, 136),
        SockFilter::new(RETURN, 0, 0, WHOLE),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}
