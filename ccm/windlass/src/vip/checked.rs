//! The checks of a virtual IP that are being made, and what they found.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::checks::{self, CheckState, Verdict};
use super::settings::{CheckSettings, VipSettings};

/// They end when it is dropped.
#[derive(Debug)]
pub(super) struct Checked {
    checks: Vec<(CheckSettings, watch::Receiver<CheckState>)>,
    backends: BTreeMap<SocketAddr, watch::Receiver<CheckState>>,
    /// Each check and backend by its name, and whether the log has that it is well.
    logged: BTreeMap<String, bool>,
    _running: DropGuard,
}

impl Checked {
    /// Begins to make the checks of this virtual IP. `news` is told of what they find.
    pub(super) fn start(vip: &VipSettings, news: &Arc<Notify>) -> Self {
        let token = CancellationToken::new();
        let state = || watch::channel(CheckState::starting(Instant::now()));
        let follow = |mut changes: watch::Receiver<CheckState>| {
            let news = Arc::clone(news);
            tokio::spawn(async move {
                while changes.changed().await.is_ok() {
                    news.notify_one();
                }
            });
        };
        let start = |check: &CheckSettings| {
            let (sender, receiver) = state();
            tokio::spawn(checks::run(check.clone(), sender, token.clone()));
            follow(receiver.clone());
            (check.clone(), receiver)
        };
        let balance = vip
            .balance
            .iter()
            .flat_map(|balance| balance.backends.iter().map(move |backend| (*backend, balance.clone())));
        let backends = balance.map(|(backend, balance)| {
            let (sender, receiver) = state();
            let token = token.clone();
            tokio::spawn(checks::run_backend(backend, balance.question, balance.rhythm, sender, token));
            follow(receiver.clone());
            (backend, receiver)
        });
        Self {
            checks: vip.checks.iter().map(start).collect(),
            backends: backends.collect(),
            logged: BTreeMap::new(),
            _running: token.clone().drop_guard(),
        }
    }

    /// The weights of the checks that fail.
    pub(super) fn failing(&self) -> Vec<u8> {
        let failing = self.checks.iter().filter(|(_, state)| !state.borrow().is_passing());
        failing.map(|(check, _)| check.weight).collect()
    }

    /// The backends that are well.
    pub(super) fn well(&self) -> BTreeSet<SocketAddr> {
        let well = self.backends.iter().filter(|(_, state)| state.borrow().is_passing());
        well.map(|(backend, _)| *backend).collect()
    }

    /// Each check by its name, and whether it passes.
    pub(super) fn checks(&self) -> Vec<(String, bool)> {
        self.checks
            .iter()
            .map(|(check, state)| (check.kind.to_string(), state.borrow().is_passing()))
            .collect()
    }

    /// Each backend, and whether it is well.
    pub(super) fn backends(&self) -> Vec<(String, bool)> {
        self.backends
            .iter()
            .map(|(backend, state)| (backend.to_string(), state.borrow().is_passing()))
            .collect()
    }

    /// Logs what has become of checks and backends.
    pub(super) fn log(&mut self, address: IpAddr) {
        let checks = self.checks.iter().map(|(check, state)| ("check", check.kind.to_string(), state));
        let backends = self.backends.iter().map(|(backend, state)| ("backend", backend.to_string(), state));
        for (kind, name, state) in checks.chain(backends) {
            let state = state.borrow();
            if state.verdict == Verdict::Unknown {
                continue;
            }
            let is_well = state.is_passing();
            if self.logged.insert(format!("{kind} {name}"), is_well) == Some(is_well) {
                continue;
            }
            match &state.error {
                Some(error) if !is_well => tracing::warn!(%address, "{kind} {name} fails: {error}"),
                Some(_) | None => tracing::info!(%address, "{kind} {name} is well"),
            }
        }
    }
}
