//! Delay until a flapping link or checked server counts as recovered. Pure.
//!
//! A node that comes back takes its addresses back, which costs no connection. But the next loss of its link costs the connections that it
//! has by then. After the second loss within [`MEMORY`] it therefore has to be back for a while first, and longer after each further loss.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Time for which a loss counts.
const MEMORY: Duration = Duration::from_mins(15);
/// Window in which losses count as one. All virtual routers of an interface lose it together, and a plugged cable or a negotiated speed
/// makes a link come and go for some seconds.
const ONCE: Duration = Duration::from_secs(5);
/// Delay after the second loss.
const FIRST: Duration = Duration::from_secs(30);
/// Longest delay.
const LONGEST: Duration = Duration::from_mins(5);

/// Recent losses, the latest last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flaps {
    lost: VecDeque<Instant>,
}

impl Flaps {
    /// Records a loss. Returns true if it counts.
    pub(crate) fn note(&mut self, now: Instant) -> bool {
        let is_new = self.lost.back().is_none_or(|last| now.saturating_duration_since(*last) >= ONCE);
        if is_new {
            self.lost.push_back(now);
            self.lost.retain(|at| is_remembered(*at, now));
        }
        is_new
    }

    /// Returns the time for which it has to be back.
    pub(crate) fn delay(&self, now: Instant) -> Duration {
        let times = self.lost.iter().filter(|at| is_remembered(**at, now)).count();
        let Some(further) = times.checked_sub(2) else { return Duration::ZERO };
        // Beyond that it is longer than the longest.
        let doubled = u32::try_from(further).unwrap_or(u32::MAX).min(8);
        (FIRST * 2_u32.pow(doubled)).min(LONGEST)
    }

    /// Returns the instant at which the delay becomes shorter.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Instant> {
        let ends = self.lost.iter().map(|at| *at + MEMORY);
        ends.filter(|end| *end > now).min()
    }
}

fn is_remembered(lost: Instant, now: Instant) -> bool {
    now.saturating_duration_since(lost) < MEMORY
}
