//! The long-running processes of a lab: started, signalled, started again, by host and name.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use nix::{sys::signal::Signal, unistd::Pid};

use crate::{
    sandbox::Sandbox,
    wait::{Hopeless, await_that},
};

/// Time limit of a process between its signal to end and its end.
const END: Duration = Duration::from_secs(30);
/// Interval between checks whether a supervised process has ended.
const LOOK: Duration = Duration::from_millis(500);
/// Last words of a controller that has to end, since etcd or the API server did not let it renew its lease in time.
const LEASE_LOST: &str = "leaderelection lost";

/// A process of the lab.
#[derive(Clone, Debug)]
struct Daemon {
    command: Vec<String>,
    pid: i32,
    /// It was ended in an orderly way: nothing that starts a host's processes again starts it.
    ended: bool,
    /// It is started again where it ends because its lease is lost.
    kept: bool,
}

/// The processes that the lab started, by host and name.
#[derive(Debug, Default)]
pub(crate) struct Daemons {
    started: Mutex<BTreeMap<(String, String), Daemon>>,
}

impl Daemons {
    /// Starts `command` on `host`; its output goes to `<host>-<name>.log`.
    pub(crate) fn start(
        &self,
        sandbox: &Sandbox,
        host: &str,
        name: &str,
        command: Vec<String>,
    ) -> anyhow::Result<()> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (host.to_owned(), name.to_owned());
        let before = started.get(&key);
        if let Some(before) = before {
            ensure!(sandbox.outer(before.pid).is_none(), "{name} runs on {host} already");
        }
        let kept = before.is_some_and(|before| before.kept);
        let pid = sandbox
            .spawn(host, &log_name(host, name), &command)
            .with_context(|| format!("starting {name} on {host}"))?;
        started.insert(key, Daemon { command, pid, ended: false, kept });
        Ok(())
    }

    /// Starts a process that has ended again, with the same command.
    pub(crate) fn start_again(&self, sandbox: &Sandbox, host: &str, name: &str) -> anyhow::Result<()> {
        let command = self.get(host, name)?.command;
        self.start(sandbox, host, name, command)
    }

    /// From now on a process is started again where it ends because its lease is lost, as a kubelet would.
    pub(crate) fn keep(&self, host: &str, name: &str) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.entry((host.to_owned(), name.to_owned())).and_modify(|daemon| daemon.kept = true);
    }

    /// Starts those that are kept again, until this is dropped.
    pub(crate) async fn keep_running(&self, sandbox: &Sandbox) -> anyhow::Error {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Err(error) = self.start_kept_again(sandbox) {
                return error;
            }
        }
    }

    fn start_kept_again(&self, sandbox: &Sandbox) -> anyhow::Result<()> {
        for (host, name) in self.kept() {
            let has_ended = self.outer(sandbox, &host, &name)?.is_none();
            if has_ended && tail(&sandbox.logs().join(log_name(&host, &name)), 1).contains(LEASE_LOST) {
                println!("{name} on {host} has lost its lease and is started again, as by a kubelet");
                self.start_again(sandbox, &host, &name)?;
            }
        }
        Ok(())
    }

    fn kept(&self) -> Vec<(String, String)> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = started.iter().filter(|(_, daemon)| daemon.kept && !daemon.ended);
        kept.map(|(key, _)| key.clone()).collect()
    }

    /// Starts all that have ended on a host again, but for those that were ended in an orderly way.
    pub(crate) fn start_all_again(&self, sandbox: &Sandbox, host: &str) -> anyhow::Result<()> {
        for name in self.names(host) {
            if !self.get(host, &name)?.ended && self.outer(sandbox, host, &name)?.is_none() {
                self.start_again(sandbox, host, &name)?;
            }
        }
        Ok(())
    }

    /// Sends a signal.
    pub(crate) fn signal(
        &self,
        sandbox: &Sandbox,
        host: &str,
        name: &str,
        signal: Signal,
    ) -> anyhow::Result<()> {
        sandbox.signal(self.get(host, name)?.pid, signal).with_context(|| format!("{name} on {host}"))
    }

    /// Sends a signal that ends the process and waits until it has ended.
    pub(crate) async fn end(
        &self,
        sandbox: &Sandbox,
        host: &str,
        name: &str,
        signal: Signal,
    ) -> anyhow::Result<()> {
        if signal == Signal::SIGTERM {
            // Before it ends: a controller may lose its lease on the way, and is not to be started again for that.
            let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            started.entry((host.to_owned(), name.to_owned())).and_modify(|daemon| daemon.ended = true);
        }
        self.signal(sandbox, host, name, signal)?;
        let pid = self.get(host, name)?.pid;
        await_that(&format!("{name} on {host} ends by {signal}"), END, async || {
            Ok(sandbox.outer(pid).is_none().then_some(()))
        })
        .await
    }

    /// Fails, with the last lines of its log, if the process has ended.
    pub(crate) fn check(&self, sandbox: &Sandbox, logs: &Path, host: &str, name: &str) -> anyhow::Result<()> {
        if sandbox.outer(self.get(host, name)?.pid).is_some() {
            return Ok(());
        }
        let log = logs.join(log_name(host, name));
        let words = tail(&log, 5);
        Err(anyhow!("{name} on {host} has ended; its last words ({}):\n{words}", log.display())
            .context(Hopeless))
    }

    /// Id of a process as the host's processes see it; `None` once it has ended.
    pub(crate) fn outer(&self, sandbox: &Sandbox, host: &str, name: &str) -> anyhow::Result<Option<Pid>> {
        Ok(sandbox.outer(self.get(host, name)?.pid))
    }

    /// Id of a process as those of the lab see it.
    pub(crate) fn inner(&self, host: &str, name: &str) -> anyhow::Result<i32> {
        Ok(self.get(host, name)?.pid)
    }

    fn get(&self, host: &str, name: &str) -> anyhow::Result<Daemon> {
        let key = (host.to_owned(), name.to_owned());
        let found = self.started.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        found.with_context(|| {
            let there = self.names(host).join(", ");
            format!("the lab never started {name} on {host} (it started: {there})")
        })
    }

    /// Returns the names of all processes that were ever started on a host.
    fn names(&self, host: &str) -> Vec<String> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.keys().filter(|(on, _)| on == host).map(|(_, name)| name.clone()).collect()
    }
}

/// Name of the log of a process.
pub(crate) fn log_name(host: &str, name: &str) -> String {
    format!("{host}-{name}.log")
}

/// The last lines of a file.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
