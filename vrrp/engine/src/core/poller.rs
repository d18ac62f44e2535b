//! Waits for packets, commands and deadlines (epoll and a timer of nanoseconds), without building anything for it.

use std::io;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use windlass_kernel::clock;
use windlass_vrrp::Time;

const TIMER: u64 = u64::MAX;

/// Waits for the descriptors it was given.
pub(super) struct Poller {
    epoll: Epoll,
    timer: TimerFd,
    /// Time that the timer is set to.
    set_to: Option<Time>,
    /// Room for all of them, so that one look returns everything.
    events: Vec<EpollEvent>,
    ready: usize,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        // The clock of `clock::now`.
        let timer =
            TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        let mut poller = Self { epoll, timer, set_to: None, events: Vec::new(), ready: 0 };
        poller.epoll.add(&poller.timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        poller.events.push(EpollEvent::empty());
        Ok(poller)
    }

    /// Adds a descriptor to wait for. [`Self::ready`] returns its `token`, which must not be `u64::MAX`.
    pub(super) fn add(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        self.events.push(EpollEvent::empty());
        Ok(())
    }

    /// Removes a descriptor.
    pub(super) fn remove(&mut self, descriptor: BorrowedFd<'_>) {
        if self.epoll.delete(descriptor).is_ok() {
            self.events.pop();
            self.ready = 0;
        }
    }

    /// Waits until something is ready or the deadline is reached. Returns an instant at which every descriptor not returned by
    /// [`Self::ready`] was not ready: looked at after the clock was read, so that a thread that was held up in between does not take its
    /// own lateness for silence.
    pub(super) fn wait(&mut self, deadline: Option<Time>) -> Time {
        self.set(deadline);
        self.poll(EpollTimeout::NONE);
        let now = clock::now();
        self.poll(EpollTimeout::ZERO);
        now
    }

    /// The token of the descriptor that is ready as number `at`.
    pub(super) fn ready(&self, at: usize) -> Option<u64> {
        let event = self.events.get(at).filter(|_| at < self.ready)?;
        Some(event.data())
    }

    /// The timer is never read: being set anew is what makes it no longer ready.
    fn set(&mut self, deadline: Option<Time>) {
        if self.set_to == deadline {
            return;
        }
        let outcome = match deadline {
            // 0 would stop it.
            Some(time) => {
                let due = TimeSpec::from_duration(std::time::Duration::from_nanos(time.nanos().max(1)));
                self.timer.set(Expiration::OneShot(due), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            }
            None => self.timer.unset(),
        };
        match outcome {
            Ok(()) => self.set_to = deadline,
            Err(error) => tracing::error!(%error, "cannot set the timer"),
        }
    }

    fn poll(&mut self, timeout: EpollTimeout) {
        self.ready = match self.epoll.wait(&mut self.events, timeout) {
            Ok(ready) => ready,
            Err(Errno::EINTR) => 0,
            // The descriptors are ours and open: a pause is better than a spin.
            Err(error) => {
                tracing::error!(%error, "cannot wait for packets");
                std::thread::sleep(std::time::Duration::from_millis(1));
                0
            }
        };
    }
}
