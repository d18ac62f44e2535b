//! The packet socket for ARP.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, SockFilter, Socket, Type};

use crate::sys;

/// Hears and sends ARP on one interface.
#[derive(Debug)]
pub(crate) struct NeighbourSocket(Socket);

impl NeighbourSocket {
    pub(super) fn open(index: u32) -> io::Result<Self> {
        // Protocol 0 until it is bound: nothing is received before the filter is in place.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        socket.set_nonblocking(true)?;
        socket.attach_filter(&arp_filter())?;
        sys::bind_packet(&socket, libc::ETH_P_ARP, index)?;
        Ok(Self(socket))
    }

    /// Receives a frame. `WouldBlock` when there is none.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buffer)
    }

    /// Sends an Ethernet frame.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).map(drop)
    }
}

impl AsFd for NeighbourSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
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
