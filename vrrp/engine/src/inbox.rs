//! What other threads want from the timer thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::config::{self, RouterConfig, RouterKey};
use crate::links::LinkState;
use crate::status::{LinkStatus, RouterStatus};

#[cfg(test)]
mod tests;

/// Everything asked for since the timer thread last looked. Newer wishes replace older ones, so it cannot grow without
/// bound: links report changes only, and who asks a question waits for the answer.
#[derive(Default)]
pub(crate) struct Letters {
    pub(crate) desired: Option<Vec<RouterConfig>>,
    /// Those of them that cannot run beside the others, and why.
    pub(crate) disputes: BTreeMap<RouterKey, String>,
    pub(crate) census: Option<BTreeSet<String>>,
    pub(crate) links: Vec<(String, LinkState)>,
    /// Why routers' VIPs cannot be held; `None`: they can.
    pub(crate) obstacles: BTreeMap<RouterKey, Option<String>>,
    pub(crate) questions: Vec<Question>,
    pub(crate) stop: bool,
    /// Nobody reads any more.
    closed: bool,
}

/// Waits for its answer, which is given without a lock. Dropped without one, it has an empty answer.
pub(crate) struct Question(Arc<OnceLock<Answer>>);

impl Question {
    pub(crate) fn answer(self, answer: Answer) {
        // Never answered before.
        let _ = self.0.set(answer);
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.0.get_or_init(Answer::default);
    }
}

/// Answer to a question.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) routers: Vec<RouterStatus>,
    pub(crate) links: Vec<LinkStatus>,
}

/// The inbox and the bell.
pub(crate) struct Inbox {
    letters: Mutex<Letters>,
    pub(crate) bell: EventFd,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        Ok(Self { letters: Mutex::default(), bell })
    }

    pub(crate) fn desire(&self, routers: Vec<RouterConfig>) {
        // Here, by who asks: the timer thread has no time for it.
        let disputes = config::disputes(&routers);
        self.put(|letters| {
            letters.desired = Some(routers);
            letters.disputes = disputes;
        });
    }

    pub(crate) fn census(&self, interfaces: BTreeSet<String>) {
        self.put(|letters| letters.census = Some(interfaces));
    }

    pub(crate) fn link(&self, interface: String, state: LinkState) {
        self.put(|letters| letters.links.push((interface, state)));
    }

    /// The VIPs of this router cannot be held, for this reason, or can again: it is not to run as long.
    pub(crate) fn obstruct(&self, key: RouterKey, obstacle: Option<String>) {
        self.put(|letters| drop(letters.obstacles.insert(key, obstacle)));
    }

    pub(crate) fn stop(&self) {
        self.put(|letters| letters.stop = true);
    }

    /// The timer thread has ended: who asks is not kept waiting for an answer.
    pub(crate) fn close(&self) {
        self.put(|letters| *letters = Letters { closed: true, ..Letters::default() });
    }

    /// What there is to tell, once the timer thread has done all that was asked before; nothing once it has ended. Waits
    /// for it.
    pub(crate) fn ask<T>(&self, read: impl FnOnce(&Answer) -> T) -> T {
        let answer = Arc::new(OnceLock::new());
        let question = Question(Arc::clone(&answer));
        self.put(|letters| {
            if !letters.closed {
                letters.questions.push(question);
            }
        });
        read(answer.wait())
    }

    /// Takes everything. Never waits: who has the inbox in hand rings the bell again afterwards.
    pub(crate) fn take(&self) -> Letters {
        let _ = self.bell.read();
        match self.letters.try_lock() {
            Ok(mut letters) => std::mem::take(&mut *letters),
            Err(TryLockError::Poisoned(letters)) => std::mem::take(&mut *letters.into_inner()),
            Err(TryLockError::WouldBlock) => Letters::default(),
        }
    }

    /// Readable when there is something to take.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(crate) fn put(&self, change: impl FnOnce(&mut Letters)) {
        change(&mut self.letters.lock().unwrap_or_else(PoisonError::into_inner));
        // Fails only when the counter is at its maximum, and then the bell rings already.
        let _ = self.bell.write(1);
    }
}
