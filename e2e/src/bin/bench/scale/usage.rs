//! What the processes took of the machine.

use serde::Serialize;
use windlass_e2e::{Lab, Memory, memory_mb, processor_seconds};

use crate::scale::NODES;

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

/// Of each process since its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Cpu,
    /// The most memory that was ever in use, in MB.
    pub(crate) controller_peak_mb: f64,
    /// Of the largest agent.
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

    /// What was taken after `before`.
    pub(crate) fn since(&self, before: &Self) -> Cpu {
        let (now, then) = (&self.cpu, &before.cpu);
        Cpu {
            controller: now.controller - then.controller,
            agents: now.agents - then.agents,
            apiserver: now.apiserver - then.apiserver,
            etcd: now.etcd - then.etcd,
            client: now.client - then.client,
        }
    }
}
