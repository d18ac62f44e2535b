//! How long ago the lease was got or renewed, for a health check (service-contract S-62).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// Whether this candidate, if it leads, renewed its lease lately. Cheap to clone; all clones are the same.
#[derive(Debug, Clone, Default)]
pub struct LeaseHealth(Arc<Mutex<Option<Instant>>>);

impl LeaseHealth {
    pub(super) fn renewed(&self, at: Instant) {
        self.set(Some(at));
    }

    pub(super) fn ended(&self) {
        self.set(None);
    }

    fn set(&self, at: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    /// Fails if this candidate leads and last renewed its lease longer than `limit` before `now`: it is stuck, for
    /// otherwise it would have ended. A standby is well.
    pub fn check(&self, now: Instant, limit: Duration) -> Result<(), String> {
        let renewed = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = renewed.map(|at| now.saturating_duration_since(at)).unwrap_or_default();
        if silent <= limit {
            return Ok(());
        }
        Err(format!("the lease was not renewed for {} s, and this process still leads", silent.as_secs()))
    }
}
