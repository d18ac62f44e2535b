//! A limit of how many do something at a time.

use std::sync::{Condvar, Mutex, PoisonError};

pub(crate) struct Semaphore {
    free: Mutex<usize>,
    freed: Condvar,
}

/// Freed when it is dropped, also by a test that fails.
pub(crate) struct Permit<'a>(&'a Semaphore);

impl Semaphore {
    pub(crate) const fn new(free: usize) -> Self {
        Self { free: Mutex::new(free), freed: Condvar::new() }
    }

    /// Waits for a permit.
    pub(crate) fn take(&self) -> Permit<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
