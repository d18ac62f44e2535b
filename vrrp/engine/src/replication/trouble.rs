//! Operations that the kernel refuses for now.

use std::time::Duration;

use windlass_kernel::connections::TrackingError;
use windlass_vrrp::Time;

#[cfg(test)]
mod tests;

/// Time until the next try after the kernel refused.
const RETRY: Duration = Duration::from_secs(5);

/// One kind of operation that the kernel may refuse, with the reason while it does.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    refused: Option<(Time, String)>,
}

impl Trouble {
    /// Returns true if the kernel refuses nothing, or it is time to try again.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.retry().is_none_or(|retry| retry <= now)
    }

    /// Returns the time at which to try again what the kernel refused.
    pub(super) fn retry(&self) -> Option<Time> {
        self.refused.as_ref().map(|(retry, _)| *retry)
    }

    /// Returns the reason why the kernel refuses.
    pub(super) fn error(&self) -> Option<&str> {
        self.refused.as_ref().map(|(_, error)| error.as_str())
    }

    /// Records the outcome of a try. Logs each refusal once, with its consequence.
    pub(super) fn note(&mut self, outcome: &Result<(), TrackingError>, what_follows: &str, now: Time) {
        let error = outcome.as_ref().err().map(ToString::to_string);
        if let Some(error) = error.as_deref().filter(|error| self.error() != Some(error)) {
            tracing::warn!(error, "{what_follows}; trying again");
        }
        self.refused = error.map(|error| (now + RETRY, error));
    }
}
