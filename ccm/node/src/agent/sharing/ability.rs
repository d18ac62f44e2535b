//! Ability of this node to share addresses, as it is reported to the controller. Pure.

use std::time::{Duration, Instant};

use super::finding::Obstacle;

/// Time between two tries of a kernel that lacks something.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// Result of the last try of the kernel, and the time since which something is in the way.
#[derive(Debug, Default)]
pub(crate) struct Ability {
    /// Time and error of the last try; `None`: none was made.
    tried: Option<(Instant, Option<String>)>,
    obstructed_since: Option<Instant>,
}

impl Ability {
    /// Returns the reason why the kernel cannot direct packets, by a `trial`. A kernel that could once is not tried again.
    pub(crate) fn of_kernel(
        &mut self,
        trial: impl FnOnce() -> Result<(), String>,
        now: Instant,
    ) -> Option<String> {
        let is_due = match &self.tried {
            None => true,
            Some((_, None)) => false,
            Some((at, Some(_))) => now.duration_since(*at) >= TRY_AGAIN,
        };
        if is_due {
            self.tried = Some((now, trial().err()));
        }
        self.tried.as_ref().and_then(|(_, error)| error.clone())
    }

    /// Returns true if the node is to report that it can share. A report that was made stands while an obstacle may be momentary: without it
    /// the controller gives all lots of the node to others.
    pub(crate) fn is_reported(
        &mut self,
        obstacle: Option<&Obstacle>,
        was_reported: bool,
        now: Instant,
    ) -> bool {
        let Some(obstacle) = obstacle else {
            self.obstructed_since = None;
            return true;
        };
        let since = *self.obstructed_since.get_or_insert(now);
        was_reported && now.duration_since(since) < obstacle.patience()
    }
}
