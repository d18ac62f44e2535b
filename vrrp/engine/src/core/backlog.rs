//! Up to which instant all adverts that had arrived at a socket were read.
//!
//! The Active may have spoken in time although its advert still waits behind others: a Backup's deadline is believed only
//! when everything that had arrived by then was read. A socket is a queue that holds a limited number of packets, so this
//! ends also under a flood that never lets it run empty: after so many packets were read as it can hold, all that had
//! arrived when the counting began were among them.

use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// What is known of one socket's queue.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Most packets that the queue holds.
    capacity: usize,
    read_through: Time,
    /// Since when packets are counted, and how many are still to be read; `None`: it was empty when last looked at.
    counting: Option<(Time, usize)>,
}

impl Backlog {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, read_through: Time::default(), counting: None }
    }

    /// The queue was read until it was empty, beginning at `began`.
    pub(super) fn emptied(&mut self, began: Time) {
        self.read_through = began;
        self.counting = None;
    }

    /// So many packets were read, beginning at `began`, and there may be more.
    pub(super) fn read(&mut self, count: usize, began: Time) {
        let (since, left) = self.counting.unwrap_or((began, self.capacity));
        if count < left {
            self.counting = Some((since, left - count));
        } else {
            // All that has arrived by `began` is among the next ones.
            self.read_through = since;
            self.counting = Some((began, self.capacity));
        }
    }

    /// Until when all that had arrived is known. `looked` is when the kernel last told which queues are not empty.
    pub(super) fn read_through(&self, looked: Time) -> Time {
        match self.counting {
            Some(_) => self.read_through,
            None => self.read_through.max(looked),
        }
    }
}
