//! A netlink socket and the frames on it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_packet_core::{NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP, NLMSG_OVERRUN, NetlinkBuffer};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, send};

use crate::receive_buffer;

use super::NetlinkError;

/// Longest datagram: the kernel fills at most 32 KiB when it dumps, and its notices are far shorter.
const LONGEST: usize = 64 * 1024;

/// A netlink socket connected to the kernel: what other processes send to it is refused. Never cloned:
/// `netlink_sys::Socket` would close the descriptor twice.
pub(super) struct Socket {
    inner: netlink_sys::Socket,
    buffer: Box<[u8]>,
}

impl Socket {
    /// Opens one of this protocol (`NETLINK_…`), with a receive buffer of about this many bytes.
    pub(super) fn open(protocol: isize, groups: &[u32], buffer: usize) -> io::Result<Self> {
        let mut inner = netlink_sys::Socket::new(protocol)?;
        receive_buffer::enlarge(&inner, buffer)?;
        inner.bind_auto()?;
        inner.connect(&netlink_sys::SocketAddr::new(0, 0))?;
        for group in groups {
            inner.add_membership(*group)?;
        }
        Ok(Self { inner, buffer: vec![0; LONGEST].into_boxed_slice() })
    }

    /// The options' owner.
    pub(super) fn options(&self) -> &netlink_sys::Socket {
        &self.inner
    }

    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        loop {
            match send(self.inner.as_raw_fd(), bytes, MsgFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Receives a datagram: one or more messages, to be read with [`frames`].
    pub(super) fn receive(&mut self) -> io::Result<&[u8]> {
        loop {
            match recv(self.inner.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_TRUNC) {
                Ok(length) => {
                    return self.buffer.get(..length).ok_or_else(|| {
                        io::Error::other(format!("a netlink datagram of {length} bytes exceeds {LONGEST}"))
                    });
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// One message of a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) body: Body<'a>,
}

/// Content of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Body<'a> {
    /// Acknowledgement or refusal: error number and what follows it.
    Answer(i32, &'a [u8]),
    /// End of a dump, with the error that ended it or 0.
    Done(i32),
    /// Nothing.
    Empty,
    /// The kernel lost messages.
    Overrun,
    /// A message of the subsystem: type and payload.
    Message(u16, &'a [u8]),
}

/// The messages of a datagram.
pub(super) fn frames(datagram: &[u8]) -> impl Iterator<Item = Result<Frame<'_>, NetlinkError>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let frame = frame(rest);
        rest = match &frame {
            Ok((_, length)) => rest.get(length.next_multiple_of(4)..).unwrap_or_default(),
            Err(_) => &[],
        };
        Some(frame.map(|(frame, _)| frame))
    })
}

/// The first message and its length.
fn frame(bytes: &[u8]) -> Result<(Frame<'_>, usize), NetlinkError> {
    let malformed = |error: &dyn std::fmt::Display| NetlinkError::Malformed(error.to_string());
    let message = NetlinkBuffer::new_checked(bytes).map_err(|error| malformed(&error))?;
    let length = usize::try_from(message.length()).map_err(|error| malformed(&error))?;
    let payload = message.payload();
    let number = || match payload.split_first_chunk() {
        Some((number, rest)) => Ok((i32::from_ne_bytes(*number), rest)),
        None => Err(malformed(&"an acknowledgement without a number")),
    };
    let body = match message.message_type() {
        NLMSG_ERROR => number().map(|(number, rest)| Body::Answer(number, rest))?,
        // Old kernels end a dump without a number.
        NLMSG_DONE => Body::Done(number().map_or(0, |(number, _)| number)),
        NLMSG_NOOP => Body::Empty,
        NLMSG_OVERRUN => Body::Overrun,
        kind => Body::Message(kind, payload),
    };
    Ok((Frame { flags: message.flags(), sequence: message.sequence_number(), body }, length))
}
