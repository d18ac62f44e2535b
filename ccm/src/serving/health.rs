//! Health: named checks, in the words that Kubernetes prints (service-contract S-62, S-51).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

mod report;
mod slis;

#[cfg(test)]
mod tests;

use prometheus::Registry;

use self::report::{CheckLine, CheckResult};
pub(crate) use self::report::{HealthQuery, HealthReport};
use self::slis::Slis;

/// A place where health is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// `/healthz`: whether all is well.
    Healthz,
    /// `/livez`: whether the process should continue; a kubelet ends one that should not.
    Livez,
    /// `/readyz`: whether it does its work, or could take it over.
    Readyz,
}

impl Probe {
    /// `healthz`, `livez` or `readyz`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// The probes that a check belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// It is part of `/healthz`.
    pub healthz: bool,
    /// It is part of `/livez`.
    pub livez: bool,
    /// It is part of `/readyz`.
    pub readyz: bool,
}

impl Scope {
    /// Every probe.
    pub const ALL: Self = Self { healthz: true, livez: true, readyz: true };
    /// `/healthz` and `/livez`: what only a new process could mend.
    pub const LIVE: Self = Self { healthz: true, livez: true, readyz: false };
    /// `/healthz` and `/readyz`.
    pub const HEALTHY: Self = Self { healthz: true, livez: false, readyz: true };
    /// `/healthz` only.
    pub const HEALTHZ: Self = Self { healthz: true, livez: false, readyz: false };
    /// `/readyz` only: what passes by itself.
    pub const READY: Self = Self { healthz: false, livez: false, readyz: true };

    fn covers(self, probe: Probe) -> bool {
        match probe {
            Probe::Healthz => self.healthz,
            Probe::Livez => self.livez,
            Probe::Readyz => self.readyz,
        }
    }
}

type Run = dyn Fn() -> Result<(), String> + Send + Sync;

struct Check {
    name: String,
    scope: Scope,
    run: Box<Run>,
    failing: AtomicBool,
}

/// The checks of a process. Clones are the same: checks may be added while they are served.
#[derive(Clone)]
pub struct HealthChecks {
    checks: Arc<Mutex<Vec<Arc<Check>>>>,
    slis: Slis,
}

impl fmt::Debug for HealthChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.checks().iter().map(|check| &check.name)).finish()
    }
}

impl Default for HealthChecks {
    /// With `ping`, which shows that the process answers.
    fn default() -> Self {
        let health = Self { checks: Arc::default(), slis: Slis::default() };
        health.add("ping", Scope::ALL, || Ok(()));
        health
    }
}

impl HealthChecks {
    /// As [`HealthChecks::default`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check, or replaces the one of this name. It runs at every question: it must not wait, and `Err` is a
    /// sentence for the log.
    pub fn add(
        &self,
        name: impl Into<String>,
        scope: Scope,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        let check = Check { name: name.into(), scope, run: Box::new(check), failing: AtomicBool::new(false) };
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        match checks.iter_mut().find(|known| known.name == check.name) {
            Some(known) => *known = Arc::new(check),
            None => checks.push(Arc::new(check)),
        }
    }

    /// Runs the checks of a probe: what `/healthz?verbose` and its like answer, as `Err` if a check fails.
    pub fn ask(&self, probe: Probe) -> Result<String, String> {
        let health_query = HealthQuery::new(probe, "", "verbose");
        match self.report(&health_query).answer(&health_query, true) {
            (200, text) => Ok(text),
            (_, text) => Err(text),
        }
    }

    /// Runs the checks of a probe that are asked for.
    pub(crate) fn report(&self, health_query: &HealthQuery<'_>) -> HealthReport {
        let all = self.checks().into_iter().filter(|check| check.scope.covers(health_query.probe));
        let all: Vec<_> =
            all.filter(|check| health_query.name.is_none_or(|name| check.name == name)).collect();
        let unmatched =
            health_query.exclude.iter().filter(|name| all.iter().all(|check| check.name != **name));
        let unmatched = unmatched.map(|name| (*name).to_owned()).collect();
        let lines = all.into_iter().map(|check| CheckLine {
            outcome: if health_query.exclude.contains(&check.name.as_str()) {
                CheckResult::Excluded
            } else {
                self.run(&check, health_query.probe)
            },
            name: check.name.clone(),
        });
        HealthReport { lines: lines.collect(), unmatched }
    }

    fn run(&self, check: &Check, probe: Probe) -> CheckResult {
        let result = (check.run)();
        self.slis.count(&check.name, probe, result.is_ok());
        let was_failing = check.failing.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Ok(()) => {
                if was_failing {
                    tracing::info!(check = %check.name, "health check passes again");
                }
                CheckResult::Ok
            }
            Err(reason) => {
                if !was_failing {
                    tracing::warn!(check = %check.name, %reason, "health check fails");
                }
                CheckResult::Failed(reason)
            }
        }
    }

    /// The metrics of `/metrics/slis`.
    pub(crate) fn slis(&self) -> &Registry {
        &self.slis.registry
    }

    fn checks(&self) -> Vec<Arc<Check>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
