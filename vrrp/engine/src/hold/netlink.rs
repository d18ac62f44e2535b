//! The netlink sockets of the thread.

use std::os::fd::{AsFd, BorrowedFd};

use windlass_kernel::netlink::{Change, Monitor, NetlinkError, Notification, RouteSocket};

/// Socket for requests and one that receives changes.
pub(super) struct NetlinkSockets {
    pub(super) route: RouteSocket,
    monitor: Monitor,
}

/// Changes that the kernel reported.
pub(super) struct KernelChanges {
    pub(super) changes: Vec<Change>,
    /// True if some changes were lost: the others are no complete record then.
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
