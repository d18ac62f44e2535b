//! Faults: controllers and agents killed and frozen, cables pulled, the API server away.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::{LIMIT, Random, Scene};
use crate::{ControllerOptions, Lab, await_that};

pub(super) const CONTROLLERS: [(&str, u16); 2] = [("controller", 10258), ("second", 10268)];
pub(super) const AGENTS: [&str; 2] = ["n1", "n2"];

/// Starts a controller, by its name and port.
pub(super) fn start(lab: &Lab, (name, http_port): (&str, u16)) -> anyhow::Result<()> {
    lab.start_controller(ControllerOptions::short_lease(name, http_port))
}

pub(super) struct Faults<'a> {
    scene: &'a Scene<'a>,
    pub(super) random: Random,
}

impl<'a> Faults<'a> {
    pub(super) fn new(scene: &'a Scene<'a>, seed: u64) -> Self {
        Self { scene, random: Random(seed) }
    }

    pub(super) async fn make_until_over(&mut self) -> anyhow::Result<()> {
        while !self.scene.is_over() {
            self.revive()?;
            let kind = self.make_one().await?;
            self.scene.journal.count(kind);
            tokio::time::sleep(Duration::from_millis(self.random.below(500))).await;
        }
        Ok(())
    }

    async fn make_one(&mut self) -> anyhow::Result<&'static str> {
        let lab = self.scene.lab;
        let controller = self.random.one_of(&CONTROLLERS);
        let node = lab.node(self.random.one_of(&AGENTS))?;
        let pause = Duration::from_millis(self.random.below(2000));
        let tell = |what: &str| self.scene.journal.note(what);
        Ok(match self.random.below(9) {
            0 | 1 => {
                tell(&format!("{} is killed", controller.0));
                self.kill(controller).await?;
                start(lab, controller)?;
                "controller killed"
            }
            2 => {
                tell(&format!("both controllers are killed for {pause:?}"));
                for controller in CONTROLLERS {
                    self.kill(controller).await?;
                }
                tokio::time::sleep(pause).await;
                self.revive()?;
                "both controllers killed"
            }
            3 => {
                tell(&format!("{} is frozen for {:?}", controller.0, 2 * pause));
                self.signal(controller, Signal::SIGSTOP)?;
                tokio::time::sleep(2 * pause).await;
                self.signal(controller, Signal::SIGCONT)?;
                "controller frozen"
            }
            4 => {
                tell(&format!("the agent of {} is killed for {pause:?}", node.name()));
                lab.stop_agent(node.name(), Signal::SIGKILL).await?;
                tokio::time::sleep(pause).await;
                lab.start_agent(node.name())?;
                "agent killed"
            }
            5 => {
                tell(&format!("the agent of {} is frozen for {pause:?}", node.name()));
                // (It may just be starting.)
                await_that("the agent runs", LIMIT, async || Ok(Some(node.freeze_agent()?))).await?;
                tokio::time::sleep(pause).await;
                node.thaw_agent()?;
                "agent frozen"
            }
            6 | 7 => {
                tell(&format!("the cable of {} is pulled for {pause:?}", node.name()));
                node.pull_cable()?;
                tokio::time::sleep(pause).await;
                node.plug_cable()?;
                "cable pulled"
            }
            _ => {
                tell(&format!("the API server is stopped for {pause:?}"));
                lab.stop_api_server().await?;
                tokio::time::sleep(pause).await;
                lab.start_api_server().await?;
                "API server stopped"
            }
        })
    }

    /// Starts the controllers that have ended, as a kubelet would: one that could not renew its lease ends, as it has to.
    fn revive(&self) -> anyhow::Result<()> {
        for controller in CONTROLLERS {
            if !self.scene.lab.controller_runs(controller.0)? {
                start(self.scene.lab, controller)?;
            }
        }
        Ok(())
    }

    /// Sends a signal to a controller, unless it has just ended by itself.
    fn signal(&self, (name, _): (&str, u16), signal: Signal) -> anyhow::Result<()> {
        let lab = self.scene.lab;
        let sent = lab.signal_controller(name, signal);
        if sent.is_err() && !lab.controller_runs(name)? { Ok(()) } else { sent }
    }

    /// Kills a controller, unless it has just ended by itself.
    async fn kill(&self, (name, _): (&str, u16)) -> anyhow::Result<()> {
        let lab = self.scene.lab;
        let killed = lab.stop_controller(name, Signal::SIGKILL).await;
        if killed.is_err() && !lab.controller_runs(name)? { Ok(()) } else { killed }
    }

    /// Sees that both controllers run: those that saw the storm, or others, which know only what the cluster shows.
    pub(super) async fn heal(&mut self) -> anyhow::Result<()> {
        if self.random.once_in(2) {
            for controller in CONTROLLERS {
                self.kill(controller).await?;
            }
        }
        self.revive()
    }
}
