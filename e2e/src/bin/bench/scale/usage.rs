//! Processor time and memory of the processes.

use serde::Serialize;
use windlass_e2e::{Lab, Memory, memory_mb, processor_seconds, statistics::rounded};

use super::NODES;

/// Processor seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cpu {
    pub(crate) controller: f64,
    /// All three together.
    pub(crate) agents: f64,
    pub(crate) apiserver: f64,
    pub(crate) etcd: f64,
    /// The client that creates and watches the Services: this program.
    pub(crate) client: f64,
}

/// Usage of each process since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Cpu,
    /// The most memory that was ever in use, in MB.
    pub(crate) controller_peak_mb: f64,
    /// The same of the largest agent.
    pub(crate) agent_peak_mb: f64,
}

impl Usage {
    /// Reads it.
    pub(crate) fn of(lab: &Lab) -> anyhow::Result<Self> {
        let controller = lab.process_id("cp", "controller")?;
        let mut agents = 0.0;
        let mut agent_peak_mb = 0.0;
        for node in NODES {
            let agent = lab.process_id(node, "agent")?;
            agents += processor_seconds(&agent.to_string())?;
            agent_peak_mb = memory_mb(agent, Memory::Peak)?.max(agent_peak_mb);
        }
        let on_cp = |name: &str| processor_seconds(&lab.process_id("cp", name)?.to_string());
        let cpu = Cpu {
            controller: on_cp("controller")?,
            agents,
            apiserver: on_cp("kube-apiserver")?,
            etcd: on_cp("etcd")?,
            client: processor_seconds("self")?,
        };
        Ok(Self { cpu, controller_peak_mb: memory_mb(controller, Memory::Peak)?, agent_peak_mb })
    }

    /// Returns what was taken after `before`, rounded.
    pub(crate) fn since(&self, before: &Self) -> Cpu {
        let (now, then) = (&self.cpu, &before.cpu);
        let spent = |of: fn(&Cpu) -> f64| rounded(of(now) - of(then), 100.0);
        Cpu {
            controller: spent(|cpu| cpu.controller),
            agents: spent(|cpu| cpu.agents),
            apiserver: spent(|cpu| cpu.apiserver),
            etcd: spent(|cpu| cpu.etcd),
            client: spent(|cpu| cpu.client),
        }
    }
}
