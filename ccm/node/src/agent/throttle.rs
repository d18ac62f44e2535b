//! Limits repeated work to a part of a core's time. The work grows with the cluster, and updates come one by one: among ten thousand, many
//! are processed together.

use std::time::{Duration, Instant};

/// Longest delay of the work.
const LONGEST: Duration = Duration::from_millis(250);

/// Long-run interval between orders to the engine, per address that it has: each order costs it a pass over all that it concerns.
const EACH: Duration = Duration::from_micros(300);
/// Upper bound of that interval.
const LONGEST_OF_ENGINE: Duration = Duration::from_secs(1);
/// Number of orders that may come sooner, at a quarter of that interval: only a long burst has to wait.
const SOONER: u32 = 20;

/// Earliest time of the next run: immediately, unless the last run was a moment ago and took long.
#[derive(Debug)]
pub(crate) struct Throttle {
    idle_factor: u32,
    not_before: Option<Instant>,
    /// Time at which the engine will have rested for all its orders.
    rested: Option<Instant>,
}

impl Throttle {
    /// Creates a throttle that pauses for `idle_factor` times the duration of the work.
    pub(crate) fn new(idle_factor: u32) -> Self {
        Self { idle_factor, not_before: None, rested: None }
    }

    /// Runs the work.
    pub(crate) fn run<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.note(began, Instant::now());
        result
    }

    fn note(&mut self, began: Instant, ended: Instant) {
        let rest = ended.duration_since(began) * self.idle_factor;
        self.not_before = Some(ended + rest.min(LONGEST));
    }

    /// Delays the work by the longest time.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.not_before = self.not_before.max(Some(now + LONGEST));
    }

    /// Records that the work gave orders to an engine with this number of addresses.
    pub(crate) fn note_engine_update(&mut self, addresses: usize, now: Instant) {
        let count = u32::try_from(addresses).unwrap_or(u32::MAX);
        let each = EACH.saturating_mul(count).min(LONGEST_OF_ENGINE);
        let rested = self.rested.map_or(now, |rested| rested.max(now)) + each;
        self.rested = Some(rested);
        let owed = rested.duration_since(now).saturating_sub(each * SOONER);
        let not_before = now + owed.max(each / 4);
        self.not_before = self.not_before.max(Some(not_before));
    }

    /// Returns when the work may run.
    pub(crate) async fn ready(&self) {
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
            let mut throttle = Throttle::new(9);
            let ended = began + Duration::from_millis(worked);
            throttle.note(began, ended);
            assert_eq!(throttle.not_before, Some(ended + Duration::from_millis(rests)), "{worked} ms");
        }
    }

    #[test]
    fn the_engine_of_many_addresses_has_a_quarter_of_a_second_between_few_orders_and_a_second_between_many() {
        let mut now = Instant::now();
        let mut throttle = Throttle::new(29);
        let mut order = |addresses| {
            throttle.note_engine_update(addresses, now);
            let rest = throttle.not_before.map(|at| at.duration_since(now)).unwrap_or_default();
            now += rest;
            rest.as_millis()
        };
        let rests: Vec<u128> = (0..60).map(|_| order(10_000)).collect();
        assert!(rests[..20].iter().all(|rest| *rest == 250), "{rests:?}");
        assert!(rests[30..].iter().all(|rest| *rest == 1000), "{rests:?}");
        let mut throttle = Throttle::new(29);
        throttle.note_engine_update(10, now);
        assert_eq!(throttle.not_before, Some(now + Duration::from_micros(750)));
    }
}
