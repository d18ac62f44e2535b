//! Delays between attempts after consecutive failures. Pure.

use std::time::Duration;

/// Delays that double.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
    /// Percentage by which all delays are multiplied, so that many clients that fail together do not return in the same instant.
    pub percent: u32,
}

impl Backoff {
    /// Delays from `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, percent: 100 }
    }

    /// The delay after this many failures in a row; none after none.
    pub fn delay(self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let doubled = self.first.saturating_mul(1 << doublings.min(31)).min(self.longest);
        doubled.saturating_mul(self.percent) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_are_spread() {
        let backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));
        let seconds = [0, 1, 2, 3, 7, 8, u32::MAX].map(|failures| backoff.delay(failures).as_secs());
        assert_eq!(seconds, [0, 5, 10, 20, 300, 300, 300]);
        let spread = Backoff { percent: 120, ..backoff };
        assert_eq!([1, 99].map(|failures| spread.delay(failures).as_secs()), [6, 360]);
    }
}
