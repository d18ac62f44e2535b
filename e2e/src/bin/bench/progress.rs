//! Progress of long work, on the terminal.

use std::time::{Duration, Instant};

/// Least time between two lines.
pub(crate) const PAUSE: Duration = Duration::from_secs(5);

/// Progress of work on a number of items.
pub(crate) struct Progress {
    total: usize,
    printed: Instant,
}

impl Progress {
    /// Starts at 0 of `total` items.
    pub(crate) fn new(total: usize) -> Self {
        Self { total, printed: Instant::now() }
    }

    /// Prints that `done` items are in a state, unless a line was printed just now.
    pub(crate) fn print(&mut self, done: usize, state: &str) {
        if self.printed.elapsed() >= PAUSE {
            self.printed = Instant::now();
            println!("bench: {done} of {} {state}", self.total);
        }
    }
}
