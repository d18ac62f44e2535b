//! Notices of changes to nftables tables.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

#[cfg(test)]
mod tests;

/// Netlink group of changes to nf_tables.
const GROUP: u32 = 7;

/// Readable when a process has changed some table since the last [`Self::drain`].
pub struct RulesetMonitor(Socket);

impl RulesetMonitor {
    /// Opens it in the network namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        // To the kernel: what other processes send is refused.
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_non_blocking(true)?;
        socket.add_membership(GROUP)?;
        Ok(Self(socket))
    }

    /// Discards the notices so far. Their contents do not matter, and lost ones are notices as well.
    pub fn drain(&self) -> io::Result<()> {
        loop {
            match recv(self.0.as_raw_fd(), &mut [0; 1], MsgFlags::MSG_DONTWAIT) {
                Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for RulesetMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
