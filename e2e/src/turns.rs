//! Turns of tests with labs, so that none fails for lack of time. Two processors run four labs at once, or two with kubelets, or one
//! with several API servers beside one.

use std::{
    cell::Cell,
    collections::VecDeque,
    num::NonZero,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{builder::LabBuilder, wait::await_that};

static TURNS: Mutex<Turns> = Mutex::new(Turns { running: Vec::new(), waiting: VecDeque::new(), came: 0 });
static CHANGED: Condvar = Condvar::new();

/// Sizes of the tests that run, and those that wait, in the order in which they came.
struct Turns {
    running: Vec<usize>,
    waiting: VecDeque<Waiting>,
    came: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    number: u32,
    size: usize,
}

impl Turns {
    /// Returns the test that begins next, if there is room in `most` for one. It is the first that came. While there is no room for that
    /// one, others begin that leave room for it, however long they last.
    fn next(&self, most: usize) -> Option<Waiting> {
        let first = *self.waiting.front()?;
        let taken: usize = self.running.iter().sum();
        if taken + first.size <= most {
            return Some(first);
        }
        let beside = most - first.size;
        let small: usize = self.running.iter().filter(|size| **size <= beside).sum();
        let fits = |one: &&Waiting| taken + one.size <= most && small + one.size <= beside;
        self.waiting.iter().find(fits).copied()
    }

    fn begin(&mut self, number: u32) {
        if let Some(at) = self.waiting.iter().position(|one| one.number == number) {
            self.running.extend(self.waiting.remove(at).map(|one| one.size));
        }
    }

    fn end(&mut self, size: usize) {
        if let Some(at) = self.running.iter().position(|one| *one == size) {
            self.running.swap_remove(at);
        }
    }
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
        turns.waiting.push_back(Waiting { number, size });
        let is_next = |turns: &Turns| turns.next(most).is_some_and(|next| next.number == number);
        let wait = CHANGED.wait_while(turns, |turns| !is_next(turns));
        wait.unwrap_or_else(PoisonError::into_inner).begin(number);
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
        lock().running.push(self.0);
    }
}

fn give_back(size: usize) {
    lock().end(size);
    CHANGED.notify_all();
}

fn lock() -> MutexGuard<'static, Turns> {
    TURNS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tests_begin_beside_large_ones_and_keep_none_waiting() {
        // Sizes of those that run, of those that wait, and which of these begins next.
        let rows: [(&[usize], &[usize], Option<u32>); 11] = [
            (&[], &[3, 1], Some(0)),
            (&[1], &[3, 1], Some(0)),
            (&[3], &[3, 3, 2, 1], Some(3)),
            (&[3, 1], &[3, 1], None),
            (&[1, 1], &[3, 1], None),
            (&[2, 1], &[2, 1], None),
            (&[3], &[2, 1], Some(1)),
            (&[2], &[3, 1], Some(1)),
            (&[2, 2], &[1], None),
            (&[4], &[4, 1], None),
            (&[3], &[], None),
        ];
        for (running, waiting, expected) in rows {
            let numbered = (0..).zip(waiting).map(|(number, size)| Waiting { number, size: *size });
            let turns = Turns { running: running.to_vec(), waiting: numbered.collect(), came: 0 };
            let next = turns.next(4).map(|next| next.number);
            assert_eq!(next, expected, "{running:?} run, {waiting:?} wait");
        }
    }

    #[test]
    fn the_first_begins_once_those_have_ended_that_ran_when_it_came() {
        let mut turns = Turns { running: vec![3, 1], waiting: VecDeque::new(), came: 0 };
        let sizes = [3, 1, 1, 2, 1];
        turns.waiting.extend((0..).zip(sizes).map(|(number, size)| Waiting { number, size }));
        turns.end(1);
        turns.begin(turns.next(4).unwrap().number);
        assert_eq!((turns.running.clone(), turns.next(4)), (vec![3, 1], None));
        turns.end(3);
        assert_eq!(turns.next(4), Some(Waiting { number: 0, size: 3 }));
    }
}
