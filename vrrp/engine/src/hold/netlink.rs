//! The netlink sockets of the thread.

use std::os::fd::{AsFd, BorrowedFd};

use windlass_kernel::netlink::{Change, Monitor, NetlinkError, Notification, RouteSocket};

/// A socket for requests and one that hears of changes.
pub(super) struct NetlinkSockets {
    pub(super) route: RouteSocket,
    monitor: Monitor,
}

/// What was heard.
pub(super) struct KernelChanges {
    pub(super) changes: Vec<Change>,
    /// Some changes were lost: what came before and after them says nothing certain.
    pub(super) lost: bool,
}

impl NetlinkSockets {
    /// Opens them in the network namespace of the calling thread.
    pub(super) fn open() -> Result<Self, NetlinkError> {
        Ok(Self { monitor: Monitor::open()?, route: RouteSocket::open()? })
    }

    /// All changes reported so far.
    pub(super) fn read_changes(&mut self) -> Result<KernelChanges, NetlinkError> {
        let mut kernel_changes = KernelChanges { changes: Vec::new(), lost: false };
        while let Some(notification) = self.monitor.next()? {
            match notification {
                Notification::Change(change) => kernel_changes.changes.push(change),
                Notification::Overrun => kernel_changes.lost = true,
            }
        }
        Ok(kernel_changes)
    }
}

impl AsFd for NetlinkSockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}
