//! Keeping work that is done over and over from filling the time of a core. What there is to look at grows with the
//! cluster, and news come one by one: among ten thousand they are looked at many at a time.

use std::time::{Duration, Instant};

/// The longest that it is put off.
const LONGEST: Duration = Duration::from_millis(250);

/// When the work may be done again: at once, unless it was done a moment ago and took long.
#[derive(Debug)]
pub(crate) struct Pace {
    rests: u32,
    not_before: Option<Instant>,
}

impl Pace {
    /// For work after which it rests so many times as long as it worked.
    pub(crate) fn new(rests: u32) -> Self {
        Self { rests, not_before: None }
    }

    /// Does the work.
    pub(crate) fn take<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.note(began, Instant::now());
        result
    }

    fn note(&mut self, began: Instant, ended: Instant) {
        let rest = ended.duration_since(began) * self.rests;
        self.not_before = Some(ended + rest.min(LONGEST));
    }

    /// Returns when the work may be done.
    pub(crate) async fn rest(&self) {
        if let Some(at) = self.not_before {
            tokio::time::sleep_until(at.into()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_as_many_times_as_long_as_it_worked_and_a_quarter_of_a_second_at_most() {
        let began = Instant::now();
        for (worked, rests) in [(0, 0), (2, 18), (27, 243), (28, 250), (5000, 250)] {
            let mut pace = Pace::new(9);
            let ended = began + Duration::from_millis(worked);
            pace.note(began, ended);
            assert_eq!(pace.not_before, Some(ended + Duration::from_millis(rests)), "{worked} ms");
        }
    }
}
