//! The netlink socket.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::sys::time::TimeVal;

use super::attributes::Attributes;
use super::message::{self, Batch, Content, Operation, TableFamily};
use crate::receive_buffer;

/// In seconds. The kernel answers while it is asked; this only ends a wait for an answer that was lost.
const ANSWER_TIMEOUT: libc::time_t = 5;
/// Longest answer: lists come in pieces of at most 32 KiB.
const ANSWER: usize = 1 << 16;
/// Size that fits into the smallest usual send buffer.
const USUAL_BATCH: usize = 1 << 16;

/// A connection to nf_tables and connection tracking of the network namespace in which it was opened.
pub(crate) struct NetfilterSocket {
    socket: Socket,
    /// Family of the tables that its messages are about.
    tables: TableFamily,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A batch that was not carried out: nothing of it was.
pub(crate) struct Refusal {
    /// Index of the refused message; `None` if the batch was refused as a whole.
    pub message: Option<usize>,
    pub(crate) source: io::Error,
}

impl NetfilterSocket {
    pub(crate) fn open() -> io::Result<Self> {
        Self::open_for(TableFamily::Inet)
    }

    /// Opens one for tables of this family.
    pub(crate) fn open_for(tables: TableFamily) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        // To the kernel: what other processes send is refused.
        socket.connect(&SocketAddr::new(0, 0))?;
        // An error need not repeat the message that failed: many long ones would not fit into the receive buffer.
        socket.set_cap_ack(true)?;
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(ANSWER_TIMEOUT, 0))?;
        Ok(Self { socket, tables, sequence: 0, buffer: vec![0; ANSWER] })
    }

    /// Carries out all of the batch or nothing.
    pub(crate) fn commit(&mut self, batch: &Batch) -> Result<(), Refusal> {
        let whole = |source| Refusal { message: None, source };
        let first = self.start(batch.messages()).map_err(whole)?;
        self.send(&batch.encode(self.tables, first)).map_err(whole)?;
        loop {
            let received = self.receive().map_err(whole)?;
            for reply in message::replies(&self.buffer[..received]) {
                let place = usize::try_from(reply.sequence.wrapping_sub(first)).unwrap_or(usize::MAX);
                if place >= batch.messages() {
                    continue;
                }
                match reply.content {
                    Content::End(Err(source)) => return Err(Refusal { message: Some(place), source }),
                    Content::End(Ok(())) if place == batch.last() => return Ok(()),
                    Content::End(Ok(())) | Content::Object(_) => {}
                }
            }
        }
    }

    /// Sends a request and returns the attributes of the objects that the answer lists. `Interrupted` if they changed meanwhile.
    pub(crate) fn ask(&mut self, operation: Operation, attributes: &Attributes) -> io::Result<Vec<Vec<u8>>> {
        let mut objects = Vec::new();
        self.ask_each(operation, attributes, |object| objects.push(object.to_vec()))?;
        Ok(objects)
    }

    /// Sends a request and passes on the attributes of each object that the answer lists, one by one. `Interrupted`, at the end, if
    /// they changed meanwhile.
    pub(crate) fn ask_each(
        &mut self,
        operation: Operation,
        attributes: &Attributes,
        mut told: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.ask_until(operation, attributes, |object| {
            told(object);
            ControlFlow::Continue(())
        })
    }

    /// Does the same until `told` breaks. The rest of the answer is read before the next request.
    pub(crate) fn ask_until(
        &mut self,
        operation: Operation,
        attributes: &Attributes,
        mut told: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let sequence = self.start(1)?;
        self.send(&message::question(operation, self.tables, attributes, sequence))?;
        let mut interrupted = false;
        loop {
            let received = self.receive()?;
            for reply in message::replies(&self.buffer[..received]) {
                if reply.sequence != sequence {
                    continue;
                }
                interrupted |= reply.interrupted;
                match reply.content {
                    Content::Object(attributes) => {
                        if told(attributes).is_break() {
                            return Ok(());
                        }
                    }
                    Content::End(Err(source)) => return Err(source),
                    Content::End(Ok(())) if interrupted => return Err(io::ErrorKind::Interrupted.into()),
                    Content::End(Ok(())) => return Ok(()),
                }
            }
        }
    }

    /// Sends these requests together and reports each answer with the index of its request: an error, or the requested object; none
    /// for a change that was made. The kernel carries out each by itself, in this order. `ENOBUFS` if answers were lost: the results
    /// are then unknown.
    pub(crate) fn exchange(
        &mut self,
        requests: &[(Operation, Attributes)],
        mut told: impl FnMut(usize, Content<'_>),
    ) -> io::Result<()> {
        let Some(last) = requests.len().checked_sub(1) else { return Ok(()) };
        let first = self.start(requests.len())?;
        self.send(&message::questions(requests, self.tables, first))?;
        loop {
            let received = self.receive_all()?;
            for reply in message::replies(&self.buffer[..received]) {
                let place = usize::try_from(reply.sequence.wrapping_sub(first)).unwrap_or(usize::MAX);
                if place > last {
                    continue;
                }
                let is_end = place == last && matches!(reply.content, Content::End(_));
                if !matches!(reply.content, Content::End(Ok(()))) {
                    told(place, reply.content);
                }
                if is_end {
                    return Ok(());
                }
            }
        }
    }

    /// Enlarges the receive buffer to about this many bytes, for the answers to many requests.
    pub(crate) fn enlarge(&self, bytes: usize) -> io::Result<()> {
        receive_buffer::enlarge(&self.socket, bytes)
    }

    /// Discards unread answers and reserves sequence numbers for so many messages; returns the first.
    fn start(&mut self, messages: usize) -> io::Result<u32> {
        loop {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let first = self.sequence;
        self.sequence = first.wrapping_add(u32::try_from(messages).map_err(io::Error::other)?);
        Ok(first)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > USUAL_BATCH {
            // Beyond the limit of net.core.wmem_max, which CAP_NET_ADMIN allows.
            setsockopt(&self.socket, sockopt::SndBufForce, &bytes.len())?;
        }
        self.socket.send(bytes, 0).map(drop)
    }

    fn receive(&mut self) -> io::Result<usize> {
        loop {
            match self.receive_all() {
                // More errors than the receive buffer takes: the first ones are there.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                result => return result,
            }
        }
    }

    /// The same; `ENOBUFS` if the receive buffer did not take all.
    fn receive_all(&mut self) -> io::Result<usize> {
        loop {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer"));
                }
                result => return result.map_err(io::Error::from),
            }
        }
    }
}
