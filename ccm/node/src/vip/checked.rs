//! The checks that virtual IPs need, each made once for all of them, and what they found.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::checks::{self, CheckState, Verdict};
use super::election::LostPriority;
use super::metrics::ShownCheck;
use super::settings::{CheckKind, CheckSettings, Rhythm, VipSettings};
use crate::parts::Parts;

/// A check that is made again and again, until it is dropped.
#[derive(Debug)]
struct Repeated {
    state: watch::Receiver<CheckState>,
    _running: DropGuard,
}

/// The checks that are made.
#[derive(Debug)]
pub(super) struct RunningChecks {
    /// Notified when one has found something.
    news: Arc<Notify>,
    running: Vec<(CheckKind, Rhythm, Weak<Repeated>)>,
    parts: Arc<Parts>,
}

impl RunningChecks {
    pub(super) fn new(parts: Arc<Parts>) -> Self {
        Self { news: Arc::default(), running: Vec::new(), parts }
    }

    pub(super) fn news(&self) -> &Arc<Notify> {
        &self.news
    }

    /// Returns the running check of this kind and rhythm; starts it if there is none.
    fn of(&mut self, kind: &CheckKind, rhythm: Rhythm) -> Arc<Repeated> {
        self.running.retain(|(_, _, check)| check.strong_count() > 0);
        let known = self.running.iter().find(|(of, at, _)| of == kind && *at == rhythm);
        if let Some(check) = known.and_then(|(_, _, check)| check.upgrade()) {
            return check;
        }
        let token = CancellationToken::new();
        let (sender, state) = watch::channel(CheckState::starting(Instant::now()));
        let (of_check, stop) = (kind.clone(), token.clone());
        let run = async move || checks::run(of_check.clone(), rhythm, &sender, &stop).await;
        tokio::spawn(self.parts.keep("vip-checks", &token, run));
        let (news, mut changes) = (Arc::clone(&self.news), state.clone());
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                news.notify_one();
            }
        });
        let check = Arc::new(Repeated { state, _running: token.drop_guard() });
        self.running.push((kind.clone(), rhythm, Arc::downgrade(&check)));
        check
    }
}

/// The checks of a virtual IP.
#[derive(Debug)]
pub(super) struct Checked {
    checks: Vec<(CheckSettings, Arc<Repeated>)>,
    backends: BTreeMap<SocketAddr, Arc<Repeated>>,
    /// Each check and backend by its name, and what the log has of it.
    logged: BTreeMap<String, Logged>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Logged {
    Well,
    /// It passes, and has to prove itself.
    Proving,
    Failing,
}

impl Checked {
    /// Starts the checks of this virtual IP, or shares those that run already.
    pub(super) fn start(vip: &VipSettings, running: &mut RunningChecks) -> Self {
        let checks = vip.checks.iter().map(|check| (check.clone(), running.of(&check.kind, check.rhythm)));
        let checks = checks.collect();
        let mut backends = BTreeMap::new();
        if let Some(balance) = &vip.balance {
            for backend in &balance.backends {
                let (target, question) = ((*backend).into(), balance.question.clone());
                let check = running.of(&CheckKind::Server { target, question }, balance.rhythm);
                backends.insert(*backend, check);
            }
        }
        Self { checks, backends, logged: BTreeMap::new() }
    }

    /// Returns the priority that its checks take from this node.
    pub(super) fn lost_priority(&self, now: Instant) -> LostPriority {
        let mut lost = LostPriority::default();
        for (check, repeated) in &self.checks {
            let state = repeated.state.borrow();
            if !state.is_passing() {
                lost.failing = lost.failing.saturating_add(check.weight);
            } else if state.is_proving(now) {
                lost.proving = lost.proving.saturating_add(check.weight);
            }
        }
        lost
    }

    /// The backends that are well.
    pub(super) fn well(&self) -> BTreeSet<SocketAddr> {
        let well = self.backends.iter().filter(|(_, check)| check.state.borrow().is_passing());
        well.map(|(backend, _)| *backend).collect()
    }

    /// Each check as it is shown.
    pub(super) fn checks(&self, now: Instant) -> Vec<ShownCheck> {
        let shown = |(check, repeated): &(CheckSettings, Arc<Repeated>)| {
            let state = repeated.state.borrow();
            ShownCheck {
                name: check.kind.to_string(),
                is_passing: state.is_passing(),
                is_proving: state.is_proving(now),
            }
        };
        self.checks.iter().map(shown).collect()
    }

    /// Each backend, and whether it is well.
    pub(super) fn backends(&self) -> Vec<(String, bool)> {
        let shown = |(backend, check): (&SocketAddr, &Arc<Repeated>)| {
            (backend.to_string(), check.state.borrow().is_passing())
        };
        self.backends.iter().map(shown).collect()
    }

    /// Logs what has become of checks and backends.
    pub(super) fn log(&mut self, address: IpAddr, now: Instant) {
        let checks = self.checks.iter().map(|(check, repeated)| ("check", check.kind.to_string(), repeated));
        let backends =
            self.backends.iter().map(|(backend, repeated)| ("backend", backend.to_string(), repeated));
        for (kind, name, repeated) in checks.chain(backends) {
            let state = repeated.state.borrow();
            let is = match state.verdict {
                Verdict::Unknown => continue,
                Verdict::Failing => Logged::Failing,
                // A backend that is well gets connections, whatever it was before.
                Verdict::Passing if kind == "check" && state.is_proving(now) => Logged::Proving,
                Verdict::Passing => Logged::Well,
            };
            if self.logged.insert(format!("{kind} {name}"), is) == Some(is) {
                continue;
            }
            let error = state.error.as_deref().unwrap_or_default();
            match is {
                Logged::Failing => tracing::warn!(%address, "{kind} {name} fails: {error}"),
                Logged::Well => tracing::info!(%address, "{kind} {name} is well"),
                Logged::Proving => {
                    let proves =
                        state.proves_until.map(|until| until.saturating_duration_since(now).as_secs());
                    tracing::warn!(
                        %address,
                        "{kind} {name} is well, but has failed repeatedly ({error}): for {} s other fit \
                         nodes have precedence; find out why its server comes and goes, or \
                         raise fall or intervalMs",
                        proves.unwrap_or_default()
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vip::settings;

    #[tokio::test]
    async fn what_several_addresses_ask_alike_is_asked_once_as_long_as_one_needs_it() {
        let file = b"vips:\n\
            - {address: 192.0.2.100, checks: [{command: {command: [/bin/true]}}, {tcp: {address: '127.0.0.1:1'}, weight: 20}]}\n\
            - {address: 192.0.2.101, checks: [{tcp: {address: '127.0.0.1:1'}}]}\n\
            - {address: 192.0.2.102, checks: [{tcp: {address: '127.0.0.1:1'}, fall: 9}]}\n";
        let vips = settings::parse(file, "vip.yaml").unwrap().vips;
        let mut running = RunningChecks::new(Arc::new(Parts::new()));
        let mut checked: Vec<Checked> = vips.iter().map(|vip| Checked::start(vip, &mut running)).collect();
        assert_eq!(running.running.len(), 3);
        assert!(Arc::ptr_eq(&checked[0].checks[1].1, &checked[1].checks[0].1), "their weights differ alone");
        checked.remove(0);
        let again = Checked::start(&vips[2], &mut running);
        assert_eq!(running.running.len(), 2, "nobody needs the command");
        assert!(Arc::ptr_eq(&again.checks[0].1, &checked[1].checks[0].1));
    }
}
