//! The netlink sockets of the thread.

use std::os::fd::{AsFd, BorrowedFd};

use crate::netlink::{Change, Monitor, NetlinkError, Notice, Route};

/// A socket to order with and one to hear with.
pub(super) struct Kernel {
    pub(super) route: Route,
    monitor: Monitor,
}

/// What was heard.
pub(super) struct Heard {
    pub(super) changes: Vec<Change>,
    /// Some changes were lost: what came before and after them says nothing certain.
    pub(super) lost: bool,
}

impl Kernel {
    /// Opens them in the network namespace of the calling thread.
    pub(super) fn open() -> Result<Self, NetlinkError> {
        Ok(Self { monitor: Monitor::open()?, route: Route::open()? })
    }

    /// All that has been told so far.
    pub(super) fn hear(&mut self) -> Result<Heard, NetlinkError> {
        let mut heard = Heard { changes: Vec::new(), lost: false };
        while let Some(notice) = self.monitor.next()? {
            match notice {
                Notice::Change(change) => heard.changes.push(change),
                Notice::Overrun => heard.lost = true,
            }
        }
        Ok(heard)
    }
}

impl AsFd for Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}
