//! Commands of other threads to the timer thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::config::{self, RouterConfig, RouterKey};
use crate::link_state::LinkState;
use crate::status::{LinkStatus, RouterStatus};

#[cfg(test)]
mod tests;

/// Commands since the timer thread last looked. Newer commands replace older ones, so it cannot grow without bound: links report
/// changes only, and a thread that asks a question waits for the answer.
#[derive(Default)]
pub(crate) struct Commands {
    pub(crate) desired: Option<Vec<RouterConfig>>,
    /// Routers of `desired` that cannot run beside the others, with the reason.
    pub(crate) overlaps: BTreeMap<RouterKey, String>,
    pub(crate) listen: Option<BTreeSet<String>>,
    pub(crate) links: Vec<(String, LinkState)>,
    /// Reasons why routers' VIPs cannot be held; `None`: they can.
    pub(crate) hold_errors: BTreeMap<RouterKey, Option<String>>,
    pub(crate) status_requests: Vec<StatusRequest>,
    pub(crate) stop: bool,
    /// True once the timer thread reads no more.
    closed: bool,
}

/// Request for a status, answered without a lock. Dropped without an answer, it has an empty one.
pub(crate) struct StatusRequest(Arc<OnceLock<StatusReport>>);

impl StatusRequest {
    pub(crate) fn answer(self, report: StatusReport) {
        // Never answered before.
        let _ = self.0.set(report);
    }
}

impl Drop for StatusRequest {
    fn drop(&mut self) {
        self.0.get_or_init(StatusReport::default);
    }
}

/// Answer to a question.
#[derive(Default)]
pub(crate) struct StatusReport {
    pub(crate) routers: Vec<RouterStatus>,
    pub(crate) links: Vec<LinkStatus>,
}

/// The inbox and its waker.
pub(crate) struct Inbox {
    commands: Mutex<Commands>,
    pub(crate) waker: EventFd,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        let waker = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { commands: Mutex::default(), waker })
    }

    pub(crate) fn apply(&self, routers: Vec<RouterConfig>) {
        // Here, by the calling thread: the timer thread has no time for it.
        let overlaps = config::overlaps(&routers);
        self.send(|commands| {
            commands.desired = Some(routers);
            commands.overlaps = overlaps;
        });
    }

    pub(crate) fn listen(&self, interfaces: BTreeSet<String>) {
        self.send(|commands| commands.listen = Some(interfaces));
    }

    pub(crate) fn link(&self, interface: String, state: LinkState) {
        self.send(|commands| commands.links.push((interface, state)));
    }

    /// Records why the VIPs of this router cannot be held, or that they can again. The router does not run while they cannot.
    pub(crate) fn set_hold_error(&self, key: RouterKey, hold_error: Option<String>) {
        self.send(|commands| drop(commands.hold_errors.insert(key, hold_error)));
    }

    pub(crate) fn stop(&self) {
        self.send(|commands| commands.stop = true);
    }

    /// Records that the timer thread has ended: no thread is kept waiting for an answer.
    pub(crate) fn close(&self) {
        self.send(|commands| *commands = Commands { closed: true, ..Commands::default() });
    }

    /// Returns the status once the timer thread has carried out all earlier commands; an empty one once it has ended. Waits for it.
    pub(crate) fn status<T>(&self, read: impl FnOnce(&StatusReport) -> T) -> T {
        let answer = Arc::new(OnceLock::new());
        let request = StatusRequest(Arc::clone(&answer));
        self.send(|commands| {
            if !commands.closed {
                commands.status_requests.push(request);
            }
        });
        read(answer.wait())
    }

    /// Takes all commands. Never waits: a thread that has the lock wakes this thread again afterwards.
    pub(crate) fn take(&self) -> Commands {
        let _ = self.waker.read();
        match self.commands.try_lock() {
            Ok(mut commands) => std::mem::take(&mut *commands),
            Err(TryLockError::Poisoned(commands)) => std::mem::take(&mut *commands.into_inner()),
            Err(TryLockError::WouldBlock) => Commands::default(),
        }
    }

    /// Readable when there is something to take.
    pub(crate) fn waker(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }

    pub(crate) fn send(&self, change: impl FnOnce(&mut Commands)) {
        change(&mut self.commands.lock().unwrap_or_else(PoisonError::into_inner));
        // Fails only when the counter is at its maximum, and then the thread is woken already.
        let _ = self.waker.write(1);
    }
}
