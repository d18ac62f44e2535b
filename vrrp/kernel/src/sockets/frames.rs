//! A packet socket that sends whole frames: adverts from the virtual router MAC address.

use std::io;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Socket, Type};

use super::SEND_PRIORITY;
use crate::sys;

/// Sends frames by one interface; receives nothing.
#[derive(Debug)]
pub struct FrameSocket(Socket);

impl FrameSocket {
    pub(super) fn open(index: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
        socket.set_nonblocking(true)?;
        sys::bind_packet(&socket, 0, index)?;
        setsockopt(&socket, sockopt::Priority, &SEND_PRIORITY)?;
        Ok(Self(socket))
    }

    /// Sends a frame, Ethernet header included.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).map(drop)
    }
}
