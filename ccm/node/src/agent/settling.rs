//! Readiness of a new agent: every virtual router has an Active, which has not changed for a while. Until then a rolling update does not
//! continue with the next node, whose addresses this one may be about to take.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_engine::{Engine, RouterKey, RouterStatus, State};

use super::desired::Desired;

/// Interval of the check.
const EVERY: Duration = Duration::from_millis(100);
/// Shortest time without a change.
const LEAST: Duration = Duration::from_secs(1);
/// Number of advertisement intervals without a change: an election is over within four.
const INTERVALS: u32 = 4;

/// State of one virtual router.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Standing {
    key: RouterKey,
    state: State,
    active: Option<IpAddr>,
    /// True if it cannot run.
    failed: bool,
}

impl Standing {
    fn of(router: &RouterStatus) -> Self {
        let RouterStatus { key, state, active, error, .. } = router;
        Self { key: key.clone(), state: *state, active: *active, failed: error.is_some() }
    }
}

/// State of all virtual routers, and the start of that state.
#[derive(Debug, Default)]
struct Settling {
    since: Option<(Instant, Vec<Standing>)>,
}

impl Settling {
    /// Returns `Ok` if all is settled, or the reason why not. A router that cannot run is not waited for.
    fn note(&mut self, desired: &Desired, routers: Vec<Standing>, now: Instant) -> Result<(), String> {
        let has = |key: RouterKey| routers.iter().any(|router| router.key == key);
        let missing = desired.assignments.iter().find(|one| one.key().is_ok_and(|key| !has(key)));
        if let Some(one) = missing {
            self.since = None;
            return Err(format!("virtual router {} was not started yet", one.virtual_router));
        }
        if let Some(router) = routers.iter().find(|router| !router.failed && router.active.is_none()) {
            let waits = format!("{} has no Active yet", router.key);
            self.since = None;
            return Err(waits);
        }
        let since = match &self.since {
            Some((since, known)) if *known == routers => *since,
            Some(_) | None => {
                self.since = Some((now, routers));
                now
            }
        };
        if now.duration_since(since) >= patience(desired) {
            Ok(())
        } else {
            Err("the virtual routers have only just found their Active".to_owned())
        }
    }
}

fn patience(desired: &Desired) -> Duration {
    let intervals = desired.assignments.iter().map(|one| one.interval_milliseconds);
    LEAST.max(Duration::from_millis(intervals.max().unwrap_or(0).into()) * INTERVALS)
}

/// Publishes through `ready` what is missing, and returns when nothing is, or `token` is cancelled.
pub(crate) async fn run(
    engine: &Engine,
    desired: &watch::Receiver<Option<Arc<Desired>>>,
    ready: &watch::Sender<Result<(), String>>,
    token: &CancellationToken,
) {
    let mut settling = Settling::default();
    loop {
        let known = desired.borrow().clone();
        if let Some(known) = known {
            let verdict =
                settling.note(&known, engine.snapshot().iter().map(Standing::of).collect(), Instant::now());
            let is_ready = verdict.is_ok();
            drop(ready.send_replace(verdict));
            if is_ready {
                return;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = token.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests;
