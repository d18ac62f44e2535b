//! Many nodes on one subnet, each with an agent in a network namespace of its own: more than the lab has by itself, without
//! kube-proxy and pods.
//!
//! ```text
//!   198.19.0.0/21 on the LAN, beside its own subnet
//!     .4.1 …            nodes s1, s2, …
//!     .0.0 to .3.255    free for a pool
//!     .7.1, .7.2        cp and the first client
//! ```

use std::{collections::BTreeMap, fmt::Write as _, net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{api::core::v1::Node, jiff::Timestamp};
use kube::{Api, api::PostParams};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::{
    answering::{Answering, Rhythm},
    lab::Lab,
    topology::Mac,
};

/// Most nodes.
const MAX: u8 = 250;
/// Requests of this program under way.
const IN_FLIGHT: usize = 16;
/// Rate that does not keep the agents of a hundred nodes busy: each receives all questions.
const RHYTHM: Rhythm = Rhythm { at_once: 5, pause: Duration::from_millis(50) };

/// The nodes of a segment. More than thirty need [`KernelLimits`](crate::KernelLimits).
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    lab: &'a Lab,
    client: &'a str,
    nodes: u8,
}

impl Lab {
    /// Makes a segment of so many nodes that `client` is on, too, and their Nodes; nothing runs there yet.
    pub async fn segment<'a>(&'a self, client: &'a str, nodes: u8) -> anyhow::Result<Segment<'a>> {
        ensure!((1..=MAX).contains(&nodes), "a segment has 1 to {MAX} nodes, not {nodes}");
        let segment = Segment { lab: self, client, nodes };
        let mut script = format!(
            "ip -n cp addr add 198.19.7.1/21 dev eth0\n\
             ip -n {client} addr add 198.19.7.2/21 dev eth0\n"
        );
        for number in 1..=nodes {
            let (name, mac) = (name(number), mac(number));
            let _ = write!(
                script,
                "ip netns add {name}\n\
                 ip -n {name} link set lo up\n\
                 ip -n lan link add v-{name} type veth peer name eth0 address {mac} netns {name}\n\
                 ip -n lan link set v-{name} master br0 up\n\
                 ip -n {name} addr add 198.19.4.{number}/21 brd + dev eth0\n\
                 ip -n {name} link set eth0 up\n\
                 ip -n {name} route add 192.0.2.0/24 dev eth0\n\
                 nsenter --net=/run/netns/{name} sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'\n"
            );
        }
        self.sandbox.script(&script).context("making the segment")?;
        let made = stream::iter(1..=nodes).map(|number| segment.join(number)).buffer_unordered(IN_FLIGHT);
        made.try_collect::<Vec<()>>().await?;
        Ok(segment)
    }
}

impl Segment<'_> {
    async fn join(&self, number: u8) -> anyhow::Result<()> {
        let (name, address) = (name(number), format!("198.19.4.{number}"));
        // Not older than the boot of this machine: agents wait for a kubelet that has not reported since.
        let now = Timestamp::now().to_string();
        let node: Node = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
                "annotations": {"alpha.kubernetes.io/provided-node-ip": address},
            },
            "spec": {},
            "status": {
                "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "written by the lab",
                    "lastHeartbeatTime": now, "lastTransitionTime": now,
                }],
            },
        }))?;
        let api: Api<Node> = Api::all(self.lab.client());
        api.create(&PostParams::default(), &node).await.with_context(|| format!("writing Node {name}"))?;
        self.lab.bind_agent_token(&name).await
    }

    /// Names of the nodes.
    pub fn nodes(&self) -> impl Iterator<Item = String> + use<> {
        (1..=self.nodes).map(name)
    }

    /// Starts an agent on each node.
    pub fn start_agents(&self) -> anyhow::Result<()> {
        self.nodes().try_for_each(|node| self.lab.start_agent_in(&node, &[]))
    }

    /// Process ids of the agents that run.
    pub fn agents(&self) -> anyhow::Result<Vec<i32>> {
        let running = self.nodes().map(|node| {
            let agent = self.lab.daemons.outer(&self.lab.sandbox, &node, "agent")?;
            anyhow::Ok(agent.map(nix::unistd::Pid::as_raw))
        });
        running.filter_map(Result::transpose).collect()
    }

    /// Crashes nodes, all at the same moment: their cables are dead and their agents are killed.
    pub fn power_off(&self, nodes: &[String]) -> anyhow::Result<()> {
        let cut = |node: &String| format!("ip -n lan link set v-{node} down\n");
        self.lab.sandbox.script(&nodes.iter().map(cut).collect::<String>())?;
        nodes
            .iter()
            .try_for_each(|node| self.lab.daemons.signal(&self.lab.sandbox, node, "agent", Signal::SIGKILL))
    }

    /// Asks for these addresses, a hundred a second in turn.
    pub fn answering(&self, addresses: &[IpAddr]) -> anyhow::Result<Answering> {
        let nodes: BTreeMap<Mac, String> =
            (1..=self.nodes).map(|number| (mac(number), name(number))).collect();
        self.lab.answering_of(self.client, addresses, nodes, RHYTHM)
    }

    /// Packets that the client has received so far: what goes to all of the LAN is among them, what others say to one is not.
    pub async fn packets(&self) -> anyhow::Result<u64> {
        let text = self.lab.exec(self.client, &["cat", "/proc/net/dev"]).await?;
        let line = text.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
        let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        packets.with_context(|| format!("no eth0 in {text}"))
    }
}

fn name(number: u8) -> String {
    format!("s{number}")
}

fn mac(number: u8) -> Mac {
    Mac([2, 0, 0, 0, 1, number])
}
