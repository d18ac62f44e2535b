//! Controllers that run for leader, whose end is awaited.

use std::fs;

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, await_that, windlass_binary};

use super::ELECTION;
use crate::setup::LIMIT;

/// Starts a controller, notes its id, and tells how it ended.
const WRAPPER: &str = r#"pid=$1; shift; "$@" & echo $! >$pid; wait $!; echo "exit code $?""#;
/// What a controller shows that leads.
const LEADS: &str = "leader_election_master_status{name=\"cloud-controller-manager\"} 1";
/// Longest line that a log may have.
const LINE: usize = 2000;

/// A controller, by the name of its log and by its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    name: String,
    port: u16,
}

/// Two controllers, of which those that have ended are replaced.
pub(super) struct Candidates<'a> {
    lab: &'a Lab,
    running: Vec<Candidate>,
    started: Vec<Candidate>,
}

impl<'a> Candidates<'a> {
    /// Starts the first, and a second one once the first leads.
    pub(super) async fn start(lab: &'a Lab) -> anyhow::Result<Self> {
        let mut candidates = Self { lab, running: Vec::new(), started: Vec::new() };
        candidates.add()?;
        candidates.leader().await?;
        candidates.add()?;
        Ok(candidates)
    }

    fn add(&mut self) -> anyhow::Result<()> {
        let port = 10300 + u16::try_from(self.started.len())?;
        let name = format!("candidate-{port}");
        let program = windlass_binary()?.display().to_string();
        let kubeconfig = self.lab.kubeconfig("controller").display().to_string();
        let (pid, port_flag) = (pid_file(&name), format!("--secure-port={port}"));
        let mut command = vec!["sh", "-c", WRAPPER, "sh", &pid, &program, "controller", "--kubeconfig"];
        command.extend([&*kubeconfig, "--bind-address=127.0.0.1", &*port_flag]);
        command.extend(ELECTION);
        self.lab.start_process("cp", &name, &command)?;
        let candidate = Candidate { name, port };
        self.running.push(candidate.clone());
        self.started.push(candidate);
        Ok(())
    }

    /// Replaces those that have ended.
    pub(super) fn refill(&mut self) -> anyhow::Result<()> {
        self.running.retain(|one| self.lab.process_id("cp", &one.name).is_ok());
        while self.running.len() < 2 {
            self.add()?;
        }
        Ok(())
    }

    /// Waits until one leads.
    pub(super) async fn leader(&self) -> anyhow::Result<Candidate> {
        self.leader_but(None).await
    }

    /// Waits until one other than `not` leads.
    pub(super) async fn leader_but(&self, not: Option<&Candidate>) -> anyhow::Result<Candidate> {
        await_that(&format!("a candidate other than {not:?} leads"), LIMIT, async || {
            for one in self.running.iter().filter(|one| Some(*one) != not) {
                // (It may have ended, or be frozen.)
                let shown = self.lab.ask_controller(one.port, "/metrics").await.unwrap_or_default();
                if shown.contains(LEADS) {
                    return Ok(Some(one.clone()));
                }
            }
            Ok(None)
        })
        .await
    }

    /// Stops a controller in its tracks, as the pause of a VM would.
    pub(super) async fn freeze(&self, one: &Candidate) -> anyhow::Result<()> {
        self.signal(one, "STOP").await
    }

    /// Lets it go on.
    pub(super) async fn thaw(&self, one: &Candidate) -> anyhow::Result<()> {
        self.signal(one, "CONT").await
    }

    async fn signal(&self, one: &Candidate, signal: &str) -> anyhow::Result<()> {
        let script = format!("kill -{signal} $(cat {})", pid_file(&one.name));
        self.lab.exec("cp", &["sh", "-c", &script]).await.map(drop)
    }

    /// Waits until it has ended by itself, because its lease is lost, and said so.
    pub(super) async fn await_lost(&self, one: &Candidate) -> anyhow::Result<String> {
        await_that(&format!("{} has ended with code 1", one.name), LIMIT, async || {
            let log = self.log(one)?;
            ensure!(log.contains("exit code"), "it says {log}");
            Ok(Some(()))
        })
        .await?;
        let log = self.log(one)?;
        ensure!(log.ends_with("exit code 1\n"), "{log}");
        let last = log.lines().find(|line| line.contains("leaderelection lost"));
        Ok(last.with_context(|| format!("the lease was lost, but the log is {log}"))?.to_owned())
    }

    /// Waits until one of those that run says this.
    pub(super) async fn await_said(&self, words: &str) -> anyhow::Result<()> {
        await_that(&format!("a candidate says {words:?}"), LIMIT, async || {
            for one in &self.running {
                if self.log(one)?.contains(words) {
                    return Ok(Some(()));
                }
            }
            Ok(None)
        })
        .await
    }

    /// Checks that none panicked, went mad or told a story.
    pub(super) fn logs_are_short(&self) -> anyhow::Result<()> {
        for one in &self.started {
            let log = self.log(one)?;
            ensure!(!log.contains("panicked"), "{}: {log}", one.name);
            let monster = log.lines().find(|line| line.len() > LINE);
            ensure!(
                monster.is_none(),
                "{} has a line of {} bytes",
                one.name,
                monster.unwrap_or_default().len()
            );
            let ended = log.lines().find_map(|line| line.strip_prefix("exit code "));
            ensure!(matches!(ended, None | Some("1")), "{} ended with code {ended:?}: {log}", one.name);
        }
        Ok(())
    }

    fn log(&self, one: &Candidate) -> anyhow::Result<String> {
        let file = self.lab.logs().join(format!("cp-{}.log", one.name));
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn pid_file(name: &str) -> String {
    format!("/run/lab/{name}.pid")
}
