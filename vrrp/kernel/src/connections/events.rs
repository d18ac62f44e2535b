//! Following the kernel's connection tracking.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{self, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg};
use socket2::SockRef;

use super::error::TrackingError;
use super::event::{Event, decode};
use super::filter;
use crate::receive_buffer;

/// Half a second of 80,000 events a second, each some 800 bytes with the kernel's own share (which doubles what is asked for).
const RECEIVE_BUFFER: usize = 16 << 20;
/// Netlink groups: changes (which include the end of a handshake) and ends. Not beginnings: the kernel makes no message of an event
/// without a listener.
const GROUPS: [u32; 2] = [2, 3];
/// Messages of one system call.
const AT_ONCE: usize = 64;
/// Longest message, some 400 bytes but for labels and names of helpers.
const LONGEST: usize = 2048;
/// Setting that switches the kernel's events on.
const SETTING: &str = "/proc/sys/net/netfilter/nf_conntrack_events";

/// Receives events of connections to VIPs from the moment it is open. Does not block; readable when there is an event. A caller that
/// reads it every 100 ms rather than whenever it is readable is not woken for every connection.
pub struct Events {
    socket: Socket,
    vips: BTreeSet<IpAddr>,
    buffers: Vec<[u8; LONGEST]>,
    waiting: VecDeque<Event>,
}

impl Events {
    /// Opens it in the network namespace of the calling thread.
    pub fn open(vips: BTreeSet<IpAddr>) -> Result<Self, TrackingError> {
        Self::with_buffer(vips, RECEIVE_BUFFER)
    }

    /// Opens it with a receive buffer of about this many bytes: a small one makes losses likely.
    pub fn with_buffer(vips: BTreeSet<IpAddr>, bytes: usize) -> Result<Self, TrackingError> {
        Self::check()?;
        let open = || {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            receive_buffer::enlarge(&socket, bytes)?;
            socket.bind_auto()?;
            // To the kernel: what other processes send is refused.
            socket.connect(&SocketAddr::new(0, 0))?;
            socket.set_non_blocking(true)?;
            SockRef::from(&socket).attach_filter(&filter::program(&vips))?;
            for group in GROUPS {
                socket.add_membership(group)?;
            }
            Ok(socket)
        };
        let socket = open().map_err(TrackingError::of("open a socket for events of connection tracking"))?;
        Ok(Self { socket, vips, buffers: vec![[0; LONGEST]; AT_ONCE], waiting: VecDeque::new() })
    }

    /// Returns an error if the kernel sends no events in the calling thread's network namespace. The setting may change while this is
    /// open.
    pub fn check() -> Result<(), TrackingError> {
        check(fs::read_to_string(SETTING))
    }

    /// Changes the VIPs whose connections are reported. Connections to a new VIP that exist already are only found by a list.
    pub fn watch(&mut self, vips: BTreeSet<IpAddr>) -> Result<(), TrackingError> {
        if vips != self.vips {
            SockRef::from(&self.socket)
                .attach_filter(&filter::program(&vips))
                .map_err(TrackingError::of("filter events of connection tracking"))?;
            self.vips = vips;
        }
        Ok(())
    }

    /// Returns the next event, `None` if there is none yet.
    pub fn hear(&mut self) -> Result<Option<Event>, TrackingError> {
        while self.waiting.is_empty() {
            match self.receive() {
                Ok(()) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::ENOBUFS) => return Ok(Some(Event::Lost)),
                Err(errno) => {
                    return Err(TrackingError::of("receive events of connection tracking")(errno.into()));
                }
            }
        }
        Ok(self.waiting.pop_front())
    }

    /// Receives as much as there is, of one system call.
    fn receive(&mut self) -> nix::Result<()> {
        let mut slices: Vec<_> = self.buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        // Made anew each time: they hold pointers, which forbids to send this to another thread.
        let mut headers = MultiHeaders::<()>::preallocate(AT_ONCE, None);
        let received =
            recvmmsg(self.socket.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None)?;
        for message in received {
            if message.flags.contains(MsgFlags::MSG_TRUNC) {
                self.waiting.push_back(Event::Lost);
            }
            for bytes in message.iovs() {
                self.waiting.extend(decode(bytes, &self.vips));
            }
        }
        Ok(())
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns an error unless the kernel sends events, by the text of its setting.
fn check(setting: io::Result<String>) -> Result<(), TrackingError> {
    match setting {
        Ok(text) if text.trim() == "0" => Err(TrackingError::EventsOff),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(TrackingError::NoEvents { path: SETTING })
        }
        Err(error) => Err(TrackingError::of("read net.netfilter.nf_conntrack_events")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_events_is_told_with_the_remedy() {
        assert!(check(Ok("2\n".to_owned())).is_ok());
        assert!(check(Ok("1\n".to_owned())).is_ok());
        let off = check(Ok("0\n".to_owned())).unwrap_err();
        assert!(matches!(off, TrackingError::EventsOff));
        assert!(off.to_string().contains("nf_conntrack_events=1"), "{off}");
        let missing = check(Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(matches!(missing, TrackingError::NoEvents { .. }));
        assert!(missing.to_string().contains("CONFIG_NF_CONNTRACK_EVENTS"), "{missing}");
    }
}
