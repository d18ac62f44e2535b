//! Up to which instant all adverts that had arrived at a socket were read.
//!
//! The Active may have sent in time although its advert still waits behind others: a Backup's deadline counts only when everything that had
//! arrived by then was read. An empty queue proves that. For a queue that a flood never lets run empty, the next packet does: the kernel
//! stamps packets when they arrive, and all older ones were read. The stamps are the wall clock's. While it is not certain that this clock
//! was not set meanwhile, a count decides: a queue holds a limited number of packets, so after that many were read, all that had arrived
//! when the counting began were among them.

use std::time::Duration;

use windlass_kernel::clock::Clocks;
use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// By how much stamps may be wrong: two CPUs need not queue in the order in which they stamped, and two clocks are not read
/// at one instant.
const TOLERANCE: Duration = Duration::from_millis(1);

/// State of one socket's queue.
#[derive(Debug)]
pub(super) struct Backlog {
    /// Most packets that the queue holds.
    capacity: usize,
    read_through: Time,
    /// `None`: it was empty when last looked at.
    counting: Option<Count>,
    /// Lead of the wall clock, in nanoseconds, at an instant before everything that waits arrived.
    ahead: u64,
}

/// Packets are counted.
#[derive(Debug)]
struct Count {
    since: Clocks,
    /// Still to be read.
    left: usize,
}

impl Backlog {
    /// A queue that was empty.
    pub(super) fn new(capacity: usize, looked: Clocks) -> Self {
        Self { capacity, read_through: Time::default(), counting: None, ahead: looked.ahead }
    }

    /// The queue was read until it was empty, beginning at `began`.
    pub(super) fn emptied(&mut self, began: Clocks) {
        self.read_through = self.read_through.max(began.now);
        self.counting = None;
        self.ahead = began.ahead;
    }

    /// Records that `count` packets were read, beginning at `began`, and that there may be more.
    pub(super) fn read(&mut self, count: usize, began: Clocks) {
        let counting = self.counting.get_or_insert(Count { since: began, left: self.capacity });
        if count < counting.left {
            counting.left = counting.left.saturating_sub(count);
        } else {
            // All that has arrived by `began` is among the next ones.
            self.read_through = self.read_through.max(counting.since.now);
            self.ahead = counting.since.ahead;
            *counting = Count { since: began, left: self.capacity };
        }
    }

    /// The packet to be read next was stamped so by the kernel: the wall clock, in nanoseconds since 1970. `looked` are the
    /// clocks after that.
    pub(super) fn next_is_of(&mut self, stamp: u64, looked: Clocks) {
        let arrived = stamp.wrapping_sub(looked.ahead);
        if is_close(self.ahead, looked.ahead) && arrived <= looked.now.nanos() {
            let sure = arrived.saturating_sub(nanos(TOLERANCE));
            self.read_through = self.read_through.max(Time::from_nanos(sure));
        }
    }

    /// Returns the instant up to which all arrived packets have been read. `looked` is when the kernel last reported which queues are not
    /// empty.
    pub(super) fn read_through(&self, looked: Time) -> Time {
        match self.counting {
            Some(_) => self.read_through,
            None => self.read_through.max(looked),
        }
    }
}

/// Returns true if the wall clock was not set between two looks.
fn is_close(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).min(other.wrapping_sub(one)) <= nanos(TOLERANCE)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
