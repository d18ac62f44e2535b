//! Results of a client of an API server.

use std::{collections::BTreeMap, time::Duration};

/// The longest time from one of some moments to the next, or from the last of them to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silence {
    /// Its length. Zero if there was no moment at all.
    pub longest: Duration,
    /// Its start, measured from the beginning.
    pub began: Duration,
    last: Option<Duration>,
}

impl Silence {
    /// Records a moment. One that is recorded after a later moment changes nothing.
    pub(crate) fn broken_at(&mut self, at: Duration) {
        self.measure(at);
        self.last = self.last.max(Some(at));
    }

    /// Records the end of the measurement.
    pub(crate) fn ends_at(&mut self, at: Duration) {
        self.measure(at);
    }

    fn measure(&mut self, at: Duration) {
        let Some(last) = self.last else { return };
        let silence = at.saturating_sub(last);
        if silence > self.longest {
            (self.longest, self.began) = (silence, last);
        }
    }
}

/// Results of a client that sends requests all the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiOutcome {
    /// Requests that have ended.
    pub requests: u64,
    /// Requests without a good answer in time.
    pub failed: u64,
    /// The longest time without a good answer.
    pub outage: Silence,
    /// Number of errors, by error.
    pub errors: BTreeMap<String, u64>,
    /// Starts of the first request that failed and of the last one.
    failing: Option<(Duration, Duration)>,
    ended: bool,
}

impl ApiOutcome {
    /// Returns the time from the start of the first request that failed to the start of the last one.
    pub fn failing(&self) -> Duration {
        self.failing.map_or(Duration::ZERO, |(first, last)| last.saturating_sub(first))
    }

    /// A request has ended.
    pub(super) fn note(&mut self, began: Duration, at: Duration, answered: Result<(), String>) {
        self.requests += 1;
        match answered {
            // Those that were under way when the client ended are counted, but say nothing of a time in which nothing was asked.
            Ok(()) if self.ended => {}
            Ok(()) => self.outage.broken_at(at),
            Err(error) => {
                self.failed += 1;
                let (first, last) = self.failing.unwrap_or((began, began));
                self.failing = Some((first.min(began), last.max(began)));
                *self.errors.entry(error).or_default() += 1;
            }
        }
    }

    /// Nothing is asked any more.
    pub(super) fn end(&mut self, at: Duration) {
        self.outage.ends_at(at);
        self.ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn failed() -> Result<(), String> {
        Err("no answer".into())
    }

    #[test]
    fn the_outage_is_the_longest_time_from_one_good_answer_to_the_next() {
        let mut outcome = ApiOutcome::default();
        for (at, answered) in
            [(5, Ok(())), (15, Ok(())), (25, failed()), (300, Ok(())), (310, failed()), (320, Ok(()))]
        {
            outcome.note(ms(at - 5), ms(at), answered);
        }
        outcome.end(ms(325));
        assert_eq!((outcome.requests, outcome.failed), (6, 2));
        assert_eq!((outcome.outage.longest, outcome.outage.began), (ms(285), ms(15)));
        assert_eq!(outcome.errors, [("no answer".to_owned(), 2)].into());
        assert_eq!(outcome.failing(), ms(285), "from 20 to 305");
    }

    #[test]
    fn an_outage_that_is_not_over_at_the_end_counts_and_what_comes_after_the_end_does_not_shorten_it() {
        let mut outcome = ApiOutcome::default();
        outcome.note(ms(5), ms(10), Ok(()));
        outcome.end(ms(500));
        outcome.note(ms(5), ms(900), Ok(()));
        assert_eq!((outcome.requests, outcome.failed), (2, 0));
        assert_eq!((outcome.outage.longest, outcome.outage.began), (ms(490), ms(10)));
    }

    #[test]
    fn where_nothing_was_ever_answered_there_is_no_outage_but_failures() {
        let mut outcome = ApiOutcome::default();
        outcome.note(ms(5), ms(10), failed());
        outcome.end(ms(1000));
        assert_eq!((outcome.failed, outcome.outage.longest), (1, Duration::ZERO));
    }

    #[test]
    fn a_moment_that_is_told_late_makes_no_silence() {
        let mut silence = Silence::default();
        for at in [10, 200, 50, 210] {
            silence.broken_at(ms(at));
        }
        silence.ends_at(ms(215));
        assert_eq!((silence.longest, silence.began), (ms(190), ms(10)));
    }
}
