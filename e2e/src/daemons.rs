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
/// Last words of a process that ended by itself to be started anew: a controller that etcd or the API server did not let renew its lease
/// in time, and a kube-proxy whose Node was deleted or has other addresses.
const TO_START_ANEW: [&str; 3] =
    ["leaderelection lost", "Node is being deleted", "NodeIPs changed for the node"];

/// Lines in which these words are looked for: other threads of the process may have the very last ones.
const LAST_WORDS: usize = 4;

/// A process of the lab.
#[derive(Clone, Debug)]
struct Daemon {
    command: Vec<String>,
    pid: i32,
    /// The signal by which the lab ended it. One that was ended in an orderly way is not started with all of its host.
    ended: Option<Signal>,
    /// It is started again where it ends to be started anew.
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
        started.insert(key, Daemon { command, pid, ended: None, kept });
        Ok(())
    }

    /// Starts a process that has ended again, with the same command.
    pub(crate) fn start_again(&self, sandbox: &Sandbox, host: &str, name: &str) -> anyhow::Result<()> {
        let command = self.get(host, name)?.command;
        self.start(sandbox, host, name, command)
    }

    /// From now on a process is started again where it ends to be started anew, as by a kubelet.
    pub(crate) fn keep(&self, host: &str, name: &str) {
        self.change(host, name, |daemon| daemon.kept = true);
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
            if let Some(why) = self.waits_for_its_start(sandbox, &host, &name)? {
                println!("{name} on {host} has ended ({why}) and is started again, as by a kubelet");
                self.start_again(sandbox, &host, &name)?;
            }
        }
        Ok(())
    }

    /// Returns the last words of a process that ended to be started anew; `None` of any other.
    fn waits_for_its_start(
        &self,
        sandbox: &Sandbox,
        host: &str,
        name: &str,
    ) -> anyhow::Result<Option<&'static str>> {
        if self.outer(sandbox, host, name)?.is_some() {
            return Ok(None);
        }
        let words = tail(&sandbox.logs().join(log_name(host, name)), LAST_WORDS);
        Ok(TO_START_ANEW.into_iter().find(|why| words.contains(why)))
    }

    fn kept(&self) -> Vec<(String, String)> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = started.iter().filter(|(_, daemon)| daemon.kept && daemon.ended.is_none());
        kept.map(|(key, _)| key.clone()).collect()
    }

    /// Starts all that have ended on a host again, but for those that were ended in an orderly way.
    pub(crate) fn start_all_again(&self, sandbox: &Sandbox, host: &str) -> anyhow::Result<()> {
        for name in self.names(host) {
            if self.get(host, &name)?.ended != Some(Signal::SIGTERM)
                && self.outer(sandbox, host, &name)?.is_none()
            {
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

    /// Sends a signal that ends the process and waits until it has ended. One that is kept may have ended already to be started anew.
    pub(crate) async fn end(
        &self,
        sandbox: &Sandbox,
        host: &str,
        name: &str,
        signal: Signal,
    ) -> anyhow::Result<()> {
        // Before it ends: a controller may lose its lease on the way, and is not to be started again for that.
        self.change(host, name, |daemon| daemon.ended = Some(signal));
        let Daemon { pid, kept, .. } = self.get(host, name)?;
        if !kept || sandbox.outer(pid).is_some() {
            self.signal(sandbox, host, name, signal)?;
        }
        await_that(&format!("{name} on {host} ends by {signal}"), END, async || {
            Ok(sandbox.outer(pid).is_none().then_some(()))
        })
        .await
    }

    /// All processes of a host are killed, not one by one.
    pub(crate) fn note_killed(&self, host: &str) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let of_host = started.iter_mut().filter(|((on, _), daemon)| on == host && daemon.ended.is_none());
        of_host.for_each(|(_, daemon)| daemon.ended = Some(Signal::SIGKILL));
    }

    /// Fails, with the last lines of its log, if the process has ended and nothing starts it again.
    pub(crate) fn check(&self, sandbox: &Sandbox, logs: &Path, host: &str, name: &str) -> anyhow::Result<()> {
        let Daemon { pid, kept, .. } = self.get(host, name)?;
        if sandbox.outer(pid).is_some() || (kept && self.waits_for_its_start(sandbox, host, name)?.is_some())
        {
            return Ok(());
        }
        let log = logs.join(log_name(host, name));
        let words = tail(&log, 5);
        Err(anyhow!("{name} on {host} has ended; its last words ({}):\n{words}", log.display())
            .context(Hopeless))
    }

    /// Fails if a process of a host has not ended.
    pub(crate) fn check_ended(&self, sandbox: &Sandbox, host: &str) -> anyhow::Result<()> {
        for name in self.names(host) {
            ensure!(self.outer(sandbox, host, &name)?.is_none(), "{name} has not ended");
        }
        Ok(())
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

    fn change(&self, host: &str, name: &str, change: impl FnOnce(&mut Daemon)) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.entry((host.to_owned(), name.to_owned())).and_modify(change);
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
