//! Time until the next attempt to connect.

use std::time::Duration;

use super::event::DownReason;

/// First and last wait while TCP does not connect: a router that boots is met soon.
const UNREACHABLE: (u64, u64) = (1, 30);
/// First and last wait after a refusal: a router that is not configured for us is not asked hundreds of times.
const REFUSED: (u64, u64) = (5, 120);
/// A session that is shorter counts as refused.
const SHORT: Duration = Duration::from_secs(30);
/// A session of this length clears the record.
const PROVEN: Duration = Duration::from_mins(2);

/// Failed attempts in a row, of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    unreachable: u32,
    refused: u32,
}

impl Backoff {
    /// TCP has connected.
    pub(super) fn connected(&mut self) {
        self.unreachable = 0;
    }

    /// Returns the time to wait after a session that was Established for `lived`, or an attempt that never was.
    pub(super) fn after(&mut self, reason: &DownReason, lived: Option<Duration>) -> Duration {
        if lived.is_some_and(|lived| lived >= PROVEN) {
            *self = Self::default();
        }
        let is_refusal = match (reason, lived) {
            (_, Some(lived)) => lived < SHORT,
            (DownReason::ConnectFailed, None) => false,
            (_, None) => true,
        };
        let (failures, (first, last)) =
            if is_refusal { (&mut self.refused, REFUSED) } else { (&mut self.unreachable, UNREACHABLE) };
        let wait = 2_u64.saturating_pow(*failures).saturating_mul(first).min(last);
        *failures = failures.saturating_add(1);
        Duration::from_secs(wait)
    }
}
