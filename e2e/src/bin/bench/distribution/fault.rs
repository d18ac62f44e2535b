//! Faults of the nodes that serve the address, and what becomes of its connections.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    ops::Range,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use windlass_e2e::{
    EndpointState::{self, Ready, Terminating},
    KeptConnection, KeptOptions, SERVICE_PORT,
};

use super::{
    AFTER, ATTEMPT,
    scene::{DIRECTOR, NODES, Scene, System},
};
use crate::system::{CLIENT, await_owner};

/// Ports of the client for new connections, below those that its kernel chooses.
pub(crate) const PORTS: Range<u16> = 20_000..20_100;
/// Least age of connections before the fault.
const AGE: Duration = Duration::from_millis(1500);

/// Fault of a node or of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A third node gets a pod.
    Join,
    /// The pod of the director is to end. It serves its connections until they end.
    Leave,
    /// Two pods are replaced by two on other nodes, one by one, the new one first.
    Rollout,
    /// A node with a pod dies that is not the director.
    Server,
    /// The director dies.
    Director,
}

/// Results of one fault.
pub(crate) struct Sample {
    pub(crate) connections: Vec<KeptConnection>,
    /// Connections whose pod lives.
    pub(crate) expected: usize,
    /// The longest time without an answer to a new connection: if a node dies, of those to its lots. `None` if it has none.
    pub(crate) outage: Option<Duration>,
}

impl Fault {
    /// Name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Rollout => "rollout",
            Self::Server => "server",
            Self::Director => "director",
        }
    }

    /// The nodes with a pod before the fault.
    fn before(self) -> &'static [&'static str] {
        match self {
            Self::Join | Self::Rollout => &NODES[..2],
            Self::Leave | Self::Server | Self::Director => &NODES[..3],
        }
    }

    /// The pods after each step.
    fn steps(self) -> Vec<Vec<(&'static str, EndpointState)>> {
        let [n1, n2, n3, n4] = NODES;
        match self {
            Self::Join => vec![vec![(n1, Ready), (n2, Ready), (n3, Ready)]],
            Self::Leave => vec![vec![(n1, Terminating), (n2, Ready), (n3, Ready)]],
            Self::Rollout => vec![
                vec![(n1, Ready), (n2, Ready), (n3, Ready)],
                vec![(n1, Terminating), (n2, Ready), (n3, Ready)],
                vec![(n1, Terminating), (n2, Ready), (n3, Ready), (n4, Ready)],
                vec![(n1, Terminating), (n2, Terminating), (n3, Ready), (n4, Ready)],
            ],
            Self::Server | Self::Director => Vec::new(),
        }
    }

    /// The node that dies.
    fn victim(self) -> Option<&'static str> {
        match self {
            Self::Join | Self::Leave | Self::Rollout => None,
            Self::Server => self.before().last().copied(),
            Self::Director => Some(DIRECTOR),
        }
    }
}

impl Scene<'_> {
    /// Inflicts a fault while clients keep connections and open new ones.
    pub(crate) async fn measure(
        &self,
        system: System,
        fault: Fault,
        options: KeptOptions,
    ) -> anyhow::Result<Sample> {
        let Self { lab, vip, .. } = *self;
        self.serve(system, fault.before()).await?;
        await_owner(lab, vip, DIRECTOR).await?;
        let victim = fault.victim();
        let ports = lab.servers_of(CLIENT, PORTS, self.target())?.into_iter();
        let is_affected = |server: &str| victim.is_none_or(|node| server == format!("web-{node}"));
        let ports: Vec<u16> = ports.filter(|(_, server)| is_affected(server)).map(|(port, _)| port).collect();
        let kept = lab.keep_connections(CLIENT, &[self.target()], options).await?;
        let expected = self.living(fault.before(), victim, options.connections).await?;
        let probe = (!ports.is_empty()).then(|| lab.probe_from(CLIENT, ports, self.target(), ATTEMPT));
        let probe = probe.transpose()?;
        tokio::time::sleep(AGE).await;
        kept.watch();
        for pods in fault.steps() {
            self.write(system, &pods).await?;
        }
        if let Some(node) = victim {
            self.turn_off(node).await?;
        }
        tokio::time::sleep(AFTER).await;
        let outage = match probe {
            Some(probe) => {
                let seen = probe.stop()?;
                ensure!(seen.answered > 0, "no new connection was ever answered");
                Some(seen.longest_gap)
            }
            None => None,
        };
        let connections = kept.stop()?.pop().context("no connections")?;
        if let Some(node) = victim {
            self.turn_on(node).await?;
        }
        Ok(Sample { connections, expected, outage })
    }

    /// Returns the number of the client's connections whose pod is not on the node that dies.
    async fn living(&self, nodes: &[&str], victim: Option<&str>, all: usize) -> anyhow::Result<usize> {
        let client: IpAddr = self.lab.host(CLIENT)?.address.into();
        let ports = self.lab.open_ports(CLIENT, self.vip, SERVICE_PORT).await?;
        let (mut living, mut found) = (0, 0);
        for &node in nodes {
            let served = self.lab.served_by(node).await?;
            let served: BTreeSet<u16> =
                served.iter().filter(|peer| peer.ip() == client).map(SocketAddr::port).collect();
            let count = served.intersection(&ports).count();
            found += count;
            living += if Some(node) == victim { 0 } else { count };
        }
        ensure!(found == all, "the pods have {found} of {all} connections");
        Ok(living)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_leaves_a_ready_pod_and_ends_none_that_has_connections() {
        for fault in [Fault::Join, Fault::Leave, Fault::Rollout, Fault::Server, Fault::Director] {
            for pods in fault.steps() {
                assert!(pods.iter().any(|(_, state)| *state == Ready), "{fault:?}: {pods:?}");
                let has_pod = |node| pods.iter().any(|(of, _)| of == node);
                assert!(fault.before().iter().all(has_pod), "{fault:?}: {pods:?}");
            }
        }
    }

    #[test]
    fn each_node_that_dies_has_a_pod_and_one_of_them_is_the_director() {
        for (fault, is_director) in [(Fault::Server, false), (Fault::Director, true)] {
            let victim = fault.victim().unwrap();
            assert!(fault.before().contains(&victim), "{fault:?}");
            assert_eq!(victim == DIRECTOR, is_director, "{fault:?}");
        }
    }
}
