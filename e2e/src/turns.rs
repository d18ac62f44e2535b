//! Turns of tests with labs, so that none fails for lack of time. Two processors run four labs at once, or two with kubelets, or one
//! with several API servers beside one.

use std::{
    cell::Cell,
    num::NonZero,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{builder::LabBuilder, wait::await_that};

static TURNS: Mutex<Turns> = Mutex::new(Turns { taken: 0, came: 0, served: 0 });
static CHANGED: Condvar = Condvar::new();

/// Which tests run, and how many came and were let in: they are let in in the order in which they came, so that no large one waits until
/// all small ones have run.
struct Turns {
    taken: usize,
    came: u32,
    served: u32,
}

thread_local! {
    /// Size of the turn of the lab of this thread; 0: it is no test's.
    static SIZE: Cell<usize> = const { Cell::new(0) };
}

/// The turn of a test, which ends when it is dropped.
pub(crate) struct Turn(usize);

impl Turn {
    /// Waits for the turn of so many labs of this kind.
    pub(crate) fn wait_for(labs: u8, lab: &LabBuilder) -> Self {
        let most = std::thread::available_parallelism().map_or(1, NonZero::get) * 2;
        let each = match (lab.light, lab.control_plane_nodes) {
            (true, 0 | 1) => 1,
            (false, 0 | 1) => 2,
            (_, 2..) => 3,
        };
        let size = (each * usize::from(labs)).min(most);
        let mut turns = lock();
        let number = turns.came;
        turns.came += 1;
        let wait = CHANGED.wait_while(turns, |turns| turns.served != number || turns.taken + size > most);
        let mut turns = wait.unwrap_or_else(PoisonError::into_inner);
        turns.taken += size;
        turns.served += 1;
        CHANGED.notify_all();
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
        lock().taken += self.0;
    }
}

fn give_back(size: usize) {
    lock().taken -= size;
    CHANGED.notify_all();
}

fn lock() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}
