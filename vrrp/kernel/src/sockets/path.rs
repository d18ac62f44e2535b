//! The packet sockets that test which frames pass between nodes.

use std::io::{self, Read as _};

use socket2::{SockFilter, Socket};
use windlass_vrrp::Family;

use super::filter::{JUMP_EQUAL, LOAD_LENGTH, RETURN, WHOLE};
use super::neighbour::{LOAD_BYTE, LOAD_HALF, PACKET_HOST, PACKET_TYPE, packet};

#[cfg(test)]
mod tests;

const UDP: u32 = 17;

/// Receives the UDP datagrams to one port that have one length, on one interface, and sends frames there. Routes and the host's firewall play
/// no part, so that any source address can be sent and is received.
#[derive(Debug)]
pub struct PathSocket {
    v4: Socket,
    v6: Socket,
}

impl PathSocket {
    /// Opens it on the interface of this index. `frames`: lengths of the frames, by IPv4 and by IPv6.
    pub fn open(index: u32, port: u16, frames: [u32; 2]) -> io::Result<Self> {
        let [v4, v6] = frames;
        Ok(Self {
            v4: packet(index, libc::ETH_P_IP, filter(Family::V4, port, v4))?,
            v6: packet(index, libc::ETH_P_IPV6, filter(Family::V6, port, v6))?,
        })
    }

    /// Receives a frame. `WouldBlock` when there is none.
    pub fn receive(&self, family: Family, buffer: &mut [u8]) -> io::Result<usize> {
        self.of(family).read(buffer)
    }

    /// Sends a frame, Ethernet header included.
    pub fn send(&self, family: Family, frame: &[u8]) -> io::Result<()> {
        self.of(family).send(frame).map(drop)
    }

    fn of(&self, family: Family) -> &Socket {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }
}

/// Classic BPF: frames to this host, UDP after a header without options or extensions.
fn filter(family: Family, port: u16, length: u32) -> [SockFilter; 12] {
    let (version, protocol, to_port) = match family {
        Family::V4 => (0x45, 23, 36),
        Family::V6 => (0x60, 20, 56),
    };
    [
        SockFilter::new(LOAD_BYTE, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_EQUAL, 0, 9, PACKET_HOST),
        SockFilter::new(LOAD_LENGTH, 0, 0, 0),
        SockFilter::new(JUMP_EQUAL, 0, 7, length),
        SockFilter::new(LOAD_BYTE, 0, 0, 14),
        SockFilter::new(JUMP_EQUAL, 0, 5, version),
        SockFilter::new(LOAD_BYTE, 0, 0, protocol),
        SockFilter::new(JUMP_EQUAL, 0, 3, UDP),
        SockFilter::new(LOAD_HALF, 0, 0, to_port),
        SockFilter::new(JUMP_EQUAL, 0, 1, port.into()),
        SockFilter::new(RETURN, 0, 0, WHOLE),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}
