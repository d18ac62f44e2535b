//! Keeps the table in step with the kernel: applies changes, and dumps the whole again when some were lost.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use windlass_vrrp::Time;

use super::Interfaces;
use crate::netlink::{Monitor, NetlinkError, Notification, RouteSocket};

#[cfg(test)]
mod tests;

/// Interval between two dumps without cause: a safety net for notifications.
const RESYNC_INTERVAL: Duration = Duration::from_mins(1);
/// Time until the next try after a dump failed, or was taken while things changed.
const RETRY: Duration = Duration::from_secs(1);
/// Most notices taken in one go: a storm must not keep orders waiting.
const MAX_NOTIFICATIONS: usize = 4096;

/// The interfaces, followed. Readable when there may be something new.
pub struct Follower {
    monitor: Monitor,
    route: Option<RouteSocket>,
    table: Interfaces,
    /// Time of the next dump.
    resync_at: Time,
}

impl Follower {
    /// Begins to follow the interfaces of the calling thread's network namespace.
    pub fn open(now: Time) -> Result<Self, NetlinkError> {
        Self::with_monitor(Monitor::open()?, now)
    }

    /// Uses a monitor that is already open: later changes are not missed.
    fn with_monitor(monitor: Monitor, now: Time) -> Result<Self, NetlinkError> {
        let mut follower = Self { monitor, route: None, table: Interfaces::default(), resync_at: now };
        follower.resync(now)?;
        Ok(follower)
    }

    /// Returns the interfaces as last reported.
    pub fn table(&self) -> &Interfaces {
        &self.table
    }

    /// Applies the changes, and a dump if that is due; returns true if the table differs from before, or did meanwhile.
    pub fn follow(&mut self, now: Time) -> bool {
        let mut changed = self.take_notifications(now);
        if self.resync_at <= now {
            match self.resync(now) {
                Ok(differs) => changed |= differs,
                Err(error) => {
                    tracing::warn!(%error, "cannot list the interfaces; trying again in a second");
                    // A dump that failed midway leaves its rest in the socket.
                    self.route = None;
                    self.resync_at = now + RETRY;
                }
            }
        }
        changed
    }

    /// Returns the time at which [`Self::follow`] has work even without a notification.
    pub fn deadline(&self) -> Time {
        self.resync_at
    }

    fn take_notifications(&mut self, now: Time) -> bool {
        let (mut changed, mut lost) = (false, false);
        let mut taken = 0_usize;
        // After a loss all that is queued must go before the dump: it is older, and replayed onto the dump without what was
        // lost it would bring back what is gone.
        while lost || taken < MAX_NOTIFICATIONS {
            taken = taken.saturating_add(1);
            match self.monitor.next() {
                Ok(Some(Notification::Change(change))) => changed |= !lost && self.table.apply(change),
                Ok(Some(Notification::Overrun)) => lost = true,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "cannot receive changes of the interfaces; listing all interfaces"
                    );
                    self.resync_at = now;
                    break;
                }
            }
        }
        if lost {
            tracing::debug!("notices of changes to the interfaces were lost; listing them");
            self.resync_at = now;
        }
        // What was lost may leave the table as it was and yet have cost the sockets something.
        changed || lost
    }

    fn resync(&mut self, now: Time) -> Result<bool, NetlinkError> {
        let route = match self.route.take() {
            Some(route) => route,
            None => RouteSocket::open()?,
        };
        let (table, consistent) = Interfaces::dump(self.route.insert(route))?;
        let differs = table != self.table;
        self.table = table;
        self.resync_at = now + if consistent { RESYNC_INTERVAL } else { RETRY };
        Ok(differs)
    }
}

impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}
