//! Turns of tests with labs, so that none fails for lack of time. Two processors run two labs at once, one of them with kubelets or
//! more than one API server at most.

use std::{
    cell::Cell,
    num::NonZero,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use crate::{builder::LabBuilder, wait::await_that};

static TAKEN: Mutex<usize> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

thread_local! {
    /// Size of the turn of the lab of this thread; 0: it is no test's.
    static SIZE: Cell<usize> = const { Cell::new(0) };
}

/// The turn of a test, which ends when it is dropped.
pub(crate) struct Turn(usize);

impl Turn {
    /// Waits for the turn of so many labs of this kind.
    pub(crate) fn wait_for(labs: u8, lab: &LabBuilder) -> Self {
        let most = std::thread::available_parallelism().map_or(1, NonZero::get) * 5 / 2;
        let each = if lab.light && lab.control_plane_nodes <= 1 { 2 } else { 3 };
        let size = (each * usize::from(labs)).min(most);
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = GIVEN_BACK.wait_while(taken, |taken| *taken + size > most);
        *wait.unwrap_or_else(PoisonError::into_inner) += size;
        Self(size)
    }

    pub(crate) const fn size(&self) -> usize {
        self.0
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

/// Makes this thread the one of a lab whose turn has this size.
pub(crate) fn set_size(size: usize) {
    SIZE.set(size);
}

/// Waits as [`await_that`] does, for what by its nature takes long and costs no processor time, as the end of a period. Another test
/// may begin meanwhile; this one goes on whether that has ended or not.
pub async fn await_idly<T>(
    what: &str,
    limit: Duration,
    check: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let _idle = Idle::begin();
    await_that(what, limit, check).await
}

/// The time in which a test does without its turn.
struct Idle(usize);

impl Idle {
    fn begin() -> Self {
        let size = SIZE.get();
        give_back(size);
        Self(size)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) += self.0;
    }
}

fn give_back(size: usize) {
    *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= size;
    GIVEN_BACK.notify_all();
}
