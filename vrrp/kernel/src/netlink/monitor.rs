//! Receives notifications of changes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::protocols::NETLINK_ROUTE;

use super::change::Change;
use super::error::NetlinkError;
use super::socket::{Body, Socket, frames};

/// Room for the notices of thousands of addresses changed at once, each some 800 bytes with the kernel's own share.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Notification from a [`Monitor`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notification {
    /// Something changed.
    Change(Change),
    /// Some changes were lost: only a dump shows the actual state.
    Overrun,
}

/// Receives changes to interfaces and addresses from the moment it is open. Does not block; readable when there is one.
pub struct Monitor {
    socket: Socket,
    received: VecDeque<Notification>,
}

impl Monitor {
    /// Opens it in the network namespace of the calling thread.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::with_buffer(RECEIVE_BUFFER)
    }

    /// Opens it with a receive buffer of about this many bytes: a small one makes overruns likely.
    pub(crate) fn with_buffer(bytes: usize) -> Result<Self, NetlinkError> {
        let groups = [libc::RTNLGRP_LINK, libc::RTNLGRP_IPV4_IFADDR, libc::RTNLGRP_IPV6_IFADDR];
        let open = NetlinkError::io("open a netlink socket for notices of interfaces and addresses");
        let socket = Socket::open(NETLINK_ROUTE, &groups, bytes).map_err(open)?;
        socket
            .options()
            .set_non_blocking(true)
            .map_err(NetlinkError::io("make the netlink socket non-blocking"))?;
        Ok(Self { socket, received: VecDeque::new() })
    }

    /// Returns the next notification, `None` if there is none yet.
    #[expect(clippy::should_implement_trait, reason = "a failure is told beside the absence of notices")]
    pub fn next(&mut self) -> Result<Option<Notification>, NetlinkError> {
        while self.received.is_empty() {
            let datagram = match self.socket.receive() {
                Ok(datagram) => datagram,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    return Ok(Some(Notification::Overrun));
                }
                Err(source) => return Err(NetlinkError::io("receive notices by netlink")(source)),
            };
            self.received.extend(frames(datagram).filter_map(notification));
        }
        Ok(self.received.pop_front())
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn notification(frame: Result<super::socket::Frame<'_>, NetlinkError>) -> Option<Notification> {
    let lost = |error: &dyn std::fmt::Display| {
        tracing::warn!(%error, "a netlink notice cannot be read; asking for the whole");
        Some(Notification::Overrun)
    };
    match frame.map(|frame| frame.body) {
        Ok(Body::Message(kind, payload)) => match Change::parse(kind, payload) {
            Ok(change) => change.map(Notification::Change),
            Err(error) => lost(&error),
        },
        Ok(Body::Overrun) => Some(Notification::Overrun),
        Ok(Body::Answer(..) | Body::Done(_) | Body::Empty) => None,
        Err(error) => lost(&error),
    }
}
