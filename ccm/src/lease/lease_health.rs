//! Time of the last renewal of the lease, or a foreign program that holds it, for health checks (service-contract S-62).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// State of the lease for health checks: time of the last renewal if this candidate leads, else the foreign program that keeps it from ever
/// leading. Cheap to clone; all clones are the same.
#[derive(Debug, Clone, Default)]
pub struct LeaseHealth(Arc<Mutex<State>>);

/// Last known state of the lease.
#[derive(Debug, Clone, Default)]
enum State {
    /// Another candidate may have it.
    #[default]
    Standby,
    /// Another program holds it; the text is the message for the admin.
    Foreign(String),
    /// It is ours, and was renewed then.
    Leading(Instant),
}

impl LeaseHealth {
    pub(super) fn renewed(&self, at: Instant) {
        self.set(State::Leading(at));
    }

    pub(super) fn ended(&self) {
        self.set(State::Standby);
    }

    /// Records that another candidate has the lease; `foreign`: the message about a holder that is another program.
    pub(super) fn waits(&self, foreign: Option<String>) {
        self.set(foreign.map_or(State::Standby, State::Foreign));
    }

    fn set(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn get(&self) -> State {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fails if this candidate leads and last renewed its lease longer than `limit` before `now`: it is stuck, for
    /// otherwise it would have ended. A standby is well.
    pub fn check(&self, now: Instant, limit: Duration) -> Result<(), String> {
        let renewed = match self.get() {
            State::Standby | State::Foreign(_) => return Ok(()),
            State::Leading(renewed) => renewed,
        };
        let silent = now.saturating_duration_since(renewed);
        if silent <= limit {
            return Ok(());
        }
        Err(format!("the lease was not renewed for {} s, and this process still leads", silent.as_secs()))
    }

    /// Fails while a foreign program has the lease, with its name and the remedy: this candidate neither works nor could take over.
    pub fn check_holder(&self) -> Result<(), String> {
        match self.get() {
            State::Standby | State::Leading(_) => Ok(()),
            State::Foreign(told) => Err(told),
        }
    }
}
