//! How long what comes and goes, as a node's link or a server that is checked, has to be back before it counts as before. Pure.
//!
//! A node that comes back takes its addresses back, which costs no connection. But the next time that its link goes away costs those
//! that it has by then: so after the second time within [`MEMORY`] it has to be back for a while first, and longer after each
//! further time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long it counts that it was lost.
const MEMORY: Duration = Duration::from_mins(15);
/// All virtual routers of an interface lose it at once, and a cable that is plugged or a speed that is negotiated makes a link come
/// and go for some seconds: that is once.
const ONCE: Duration = Duration::from_secs(5);
/// How long it has to be back after the second time.
const FIRST: Duration = Duration::from_secs(30);
/// And at most.
const LONGEST: Duration = Duration::from_mins(5);

/// When it was lost lately, the latest time last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flaps {
    lost: VecDeque<Instant>,
}

impl Flaps {
    /// It is lost. Says whether that counts.
    pub(crate) fn note(&mut self, now: Instant) -> bool {
        let is_new = self.lost.back().is_none_or(|last| now.saturating_duration_since(*last) >= ONCE);
        if is_new {
            self.lost.push_back(now);
            self.lost.retain(|at| is_remembered(*at, now));
        }
        is_new
    }

    /// How long it has to be back.
    pub(crate) fn delay(&self, now: Instant) -> Duration {
        let times = self.lost.iter().filter(|at| is_remembered(**at, now)).count();
        let Some(further) = times.checked_sub(2) else { return Duration::ZERO };
        // Beyond that it is longer than the longest.
        let doubled = u32::try_from(further).unwrap_or(u32::MAX).min(8);
        (FIRST * 2_u32.pow(doubled)).min(LONGEST)
    }

    /// When the next delay becomes shorter.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Instant> {
        let ends = self.lost.iter().map(|at| *at + MEMORY);
        ends.filter(|end| *end > now).min()
    }
}

fn is_remembered(lost: Instant, now: Instant) -> bool {
    now.saturating_duration_since(lost) < MEMORY
}
