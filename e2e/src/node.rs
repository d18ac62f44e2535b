//! A node of the lab and the faults that can be inflicted on it.

use std::{fmt::Write as _, fs, net::Ipv4Addr};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use crate::{
    lab::Lab,
    topology::{Host, Mac, Role},
    wait::await_that,
};

/// Which packets of a node a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Packets to the node.
    Incoming,
    /// Packets from the node.
    Outgoing,
}

/// A node of a lab.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) host: &'a Host,
}

impl Lab {
    /// The nodes, in order; those of a control plane that has its own are apart.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let nodes = self.hosts.iter().filter(|host| matches!(host.role, Role::Node(_)));
        nodes.map(|host| Node { lab: self, host })
    }

    /// The nodes that are of the cluster from the beginning.
    pub(crate) fn first_nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.nodes().filter(|node| !self.options.kubelets.late.iter().any(|late| late == node.name()))
    }

    /// The nodes of the control plane, in order, where it has any of its own.
    pub fn control_plane_nodes(&self) -> impl Iterator<Item = Node<'_>> {
        let nodes = self.hosts.iter().filter(|host| host.role == Role::ControlPlaneNode);
        nodes.map(|host| Node { lab: self, host })
    }

    /// Both.
    pub(crate) fn all_nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.nodes().chain(self.control_plane_nodes())
    }

    /// A node, of the control plane or not, to look at and to inflict faults on.
    pub fn node(&self, name: &str) -> anyhow::Result<Node<'_>> {
        self.all_nodes().find(|node| node.host.name == name).with_context(|| {
            let there: Vec<&str> = self.all_nodes().map(|node| node.host.name.as_str()).collect();
            format!("the lab has no node {name:?} (it has {})", there.join(", "))
        })
    }
}

impl Node<'_> {
    /// Name, as `n1`.
    pub fn name(&self) -> &str {
        &self.host.name
    }

    /// Address on the LAN.
    pub fn address(&self) -> Ipv4Addr {
        self.host.address
    }

    /// Link-layer address on the LAN.
    pub fn mac(&self) -> Mac {
        self.host.mac()
    }

    /// Pulls the node's cable: its port of the bridge goes down, and its `eth0` loses carrier.
    pub fn pull_cable(&self) -> anyhow::Result<()> {
        self.script(&format!("ip -n lan link set v-{} down", self.name()))
    }

    /// Plugs the cable in again.
    pub fn plug_cable(&self) -> anyhow::Result<()> {
        self.script(&format!("ip -n lan link set v-{} up", self.name()))
    }

    /// Gives the node's interface another IPv4 address in place of the one it had, `from`; the others find its pods there.
    pub fn readdress(&self, from: Ipv4Addr, to: Ipv4Addr) -> anyhow::Result<()> {
        let (name, cp) = (self.name(), self.lab.host("cp")?.address);
        let mut script = format!(
            "ip -n {name} addr del {from}/24 dev eth0\n\
             ip -n {name} addr add {to}/24 brd + dev eth0\n\
             ip -n {name} route replace default via {cp}\n"
        );
        // What went through the old address went with it: the ways to the pods of others, and theirs to its own.
        for other in self.lab.nodes().filter(|other| other.name() != name) {
            if let (Some([pods, _]), Some([own, _])) = (other.host.pod_cidrs(), self.host.pod_cidrs()) {
                let _ = writeln!(script, "ip -n {name} route replace {pods} via {}", other.address());
                let _ = writeln!(script, "ip -n {} route replace {own} via {to}", other.name());
            }
        }
        if let Some([own, _]) = self.host.pod_cidrs() {
            let _ = writeln!(script, "ip -n cp route replace {own} via {to}");
        }
        self.script(&script)
    }

    /// Gives the node's interface `from` another name, and its addresses and routes back afterwards, as whoever manages the node's
    /// network does: it has to be down meanwhile.
    pub fn rename_interface(&self, from: &str, to: &str) -> anyhow::Result<()> {
        self.script(&format!(
            "of='ip -n {}'\n\
             addresses=$($of -6 -o addr show dev {from} scope global | awk '{{print $4}}')\n\
             routes=$($of -4 route show dev {from}; $of -6 route show dev {from} | grep -v ^fe80 || true)\n\
             $of link set dev {from} down\n\
             $of link set dev {from} name {to}\n\
             $of link set dev {to} up\n\
             for address in $addresses; do $of addr add $address dev {to} nodad; done\n\
             echo \"$routes\" | sed 's/ linkdown//' | while read -r route; do\n\
             [ -z \"$route\" ] || $of route replace $route dev {to}\ndone",
            self.name()
        ))
    }

    /// Makes `eth0` the port of a new bridge and moves its addresses and routes to the bridge, as network managers do for
    /// virtual machines. The bridge has the link-layer address of `eth0`. Its packets do not pass iptables and nftables as bridged ones: the
    /// kernel would drop what leaves for another node's pod by the port by which it came.
    pub fn move_to_bridge(&self, bridge: &str) -> anyhow::Result<()> {
        self.script(&format!(
            "ip -n {name} link add {bridge} address {} type bridge mcast_snooping 0 forward_delay 0\n\
             ip -n {name} link set {bridge} up\n\
             nsenter --net=/run/netns/{name} sh -c 'nf=/proc/sys/net/bridge/bridge-nf-call-iptables; [ ! -e $nf ] || echo 0 >$nf'",
            self.mac(),
            name = self.name(),
        ))?;
        self.move_addresses("eth0", bridge, &format!("link set eth0 master {bridge}"))
    }

    /// Reverts [`Self::move_to_bridge`] and deletes the bridge.
    pub fn move_from_bridge(&self, bridge: &str) -> anyhow::Result<()> {
        self.move_addresses(bridge, "eth0", "link set eth0 nomaster")?;
        self.script(&format!("ip -n {} link del {bridge}", self.name()))
    }

    /// Moves the addresses and routes of one interface to another one. `between` is the command of `ip` for the time at which neither has
    /// them. One process does it all: an agent that looked meanwhile would report that the node has no interface, and the node would lose
    /// its rank.
    fn move_addresses(&self, from: &str, to: &str, between: &str) -> anyhow::Result<()> {
        self.script(&format!(
            "of='ip -n {name}'\n\
             {{ echo addr flush dev {from} scope global; echo {between}\n\
             $of -4 -o addr show dev {from} scope global | awk '{{print \"addr add\", $4, \"brd + dev {to}\"}}'\n\
             $of -6 -o addr show dev {from} scope global | awk '{{print \"addr add\", $4, \"dev {to} nodad\"}}'\n\
             {{ $of -4 route show dev {from}; $of -6 route show dev {from} | grep -v ^fe80 || true; }} | sed 's/ linkdown//' |\n\
             awk 'NF {{print \"route replace\", $0, \"dev {to}\"}}'; }} >/run/lab/move-{name}\n\
             $of -batch /run/lab/move-{name}",
            name = self.name(),
        ))
    }

    /// Adds an address, as `192.0.2.200/32`, to the node's interface, or takes it away.
    pub fn bind(&self, address: &str, bound: bool) -> anyhow::Result<()> {
        let verb = if bound { "add" } else { "del" };
        self.script(&format!("ip -n {} addr {verb} {address} dev eth0", self.name()))
    }

    /// Loses this percentage (1 to 100) of the node's packets in one direction, on the LAN's side of the cable, where the
    /// node cannot see it. In place of an earlier loss in that direction.
    pub fn lose(&self, direction: Direction, percent: u8) -> anyhow::Result<()> {
        ensure!((1..=100).contains(&percent), "a loss is 1 to 100 %, not {percent}");
        let (table, port) = self.loss(direction);
        // nft takes no comparison that is always true.
        let chance =
            if percent == 100 { String::new() } else { format!("numgen random mod 100 < {percent}") };
        self.script(&format!(
            "nsenter --net=/run/netns/lan nft -f - <<END
            table bridge {table}
            delete table bridge {table}
            table bridge {table} {{ chain forward {{ type filter hook forward priority 0; {port} \"v-{}\" \
            {chance} drop; }}; }}\nEND",
            self.name()
        ))
    }

    /// Ends a loss.
    pub fn lose_nothing(&self, direction: Direction) -> anyhow::Result<()> {
        let (table, _) = self.loss(direction);
        self.script(&format!("nsenter --net=/run/netns/lan nft delete table bridge {table}"))
    }

    fn loss(&self, direction: Direction) -> (String, &'static str) {
        match direction {
            Direction::Incoming => (format!("incoming-{}", self.name()), "oifname"),
            Direction::Outgoing => (format!("outgoing-{}", self.name()), "iifname"),
        }
    }

    /// Limits what the node sends and receives, each to this many megabits a second. Packets wait for 20 ms at most, so that adverts and
    /// answers of nodes are in time.
    pub fn limit_rate(&self, mbit: u32) -> anyhow::Result<()> {
        let (name, limit) = (self.name(), format!("root tbf rate {mbit}mbit burst 32kb latency 20ms"));
        self.script(&format!(
            "tc -n {name} qdisc add dev eth0 {limit}\ntc -n lan qdisc add dev v-{name} {limit}"
        ))
    }

    /// Ends the limit.
    pub fn unlimit_rate(&self) -> anyhow::Result<()> {
        let name = self.name();
        self.script(&format!("tc -n {name} qdisc del dev eth0 root\ntc -n lan qdisc del dev v-{name} root"))
    }

    /// Stops the agent's process in its tracks (SIGSTOP), as a VM pause would.
    pub fn freeze_agent(&self) -> anyhow::Result<()> {
        self.signal_agent(Signal::SIGSTOP)
    }

    /// Lets a frozen agent go on.
    pub fn thaw_agent(&self) -> anyhow::Result<()> {
        self.signal_agent(Signal::SIGCONT)
    }

    /// Sends a signal to the agent of this node, be it a process of the lab (light) or a pod's.
    pub fn signal_agent(&self, signal: Signal) -> anyhow::Result<()> {
        let agents = self.agents();
        ensure!(!agents.is_empty(), "no windlass agent runs on {}", self.name());
        for pid in agents {
            kill(pid, signal).with_context(|| format!("sending {signal} to the agent of {}", self.name()))?;
        }
        Ok(())
    }

    /// Ends a process that the lab started on this node with SIGKILL: `kube-proxy`, `agent`, `kubelet`, `containerd`.
    pub async fn kill(&self, process: &str) -> anyhow::Result<()> {
        self.lab.daemons.end(&self.lab.sandbox, self.name(), process, Signal::SIGKILL).await
    }

    /// Starts a process that has ended again, with its former arguments.
    pub fn start_again(&self, process: &str) -> anyhow::Result<()> {
        self.lab.daemons.start_again(&self.lab.sandbox, self.name(), process)
    }

    /// Powers the node off: its cable is dead and each of its processes and containers is killed. It stays off.
    pub async fn power_off(&self) -> anyhow::Result<()> {
        self.pull_cable()?;
        self.kill_all().await
    }

    /// Kills each of the node's processes and containers. Its kernel and its cable live.
    pub async fn kill_all(&self) -> anyhow::Result<()> {
        self.lab.daemons.note_killed(self.name());
        let limit = std::time::Duration::from_secs(30);
        await_that(&format!("the processes of {} are dead", self.name()), limit, async || {
            let alive = self.processes();
            for pid in &alive {
                // It may have ended meanwhile.
                let _ = kill(*pid, Signal::SIGKILL);
            }
            ensure!(alive.is_empty(), "{} alive: {alive:?}", alive.len());
            // One that is ending has no environment any more, and is no use to start again yet.
            self.lab.daemons.check_ended(&self.lab.sandbox, self.name())?;
            Ok(Some(()))
        })
        .await
    }

    /// Light only: powers the node on again. Its kernel knows nothing of before: no rules, no connections, no addresses but the
    /// node's own. Its kube-proxy starts and is waited for; whatever else ran on it is for the caller to start. A node of the control plane
    /// starts all that it ran, with its data, and nothing is waited for.
    pub async fn power_on(&self) -> anyhow::Result<()> {
        self.forget()?;
        self.plug_cable()?;
        if self.host.role == Role::ControlPlaneNode {
            return self.lab.daemons.start_all_again(&self.lab.sandbox, self.name());
        }
        self.start_again("kube-proxy")?;
        self.lab.await_kube_proxies(std::iter::once(*self)).await
    }

    /// The node's kernel knows nothing of before.
    pub(crate) fn forget(&self) -> anyhow::Result<()> {
        let name = self.name();
        self.script(&format!(
            "nsenter --net=/run/netns/{name} nft flush ruleset\n\
             nsenter --net=/run/netns/{name} conntrack --flush\n\
             for address in $(ip -n {name} -o addr show dev eth0 | awk '$4 ~ /\\/(32|128)$/ {{print $4}}'); do\n\
             ip -n {name} addr del $address dev eth0\ndone"
        ))
    }

    /// Stops each of the node's processes in its tracks (SIGSTOP). Its kernel and its cable live.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal_all(Signal::SIGSTOP)
    }

    /// Lets a frozen node go on.
    pub fn thaw(&self) -> anyhow::Result<()> {
        self.signal_all(Signal::SIGCONT)
    }

    fn signal_all(&self, signal: Signal) -> anyhow::Result<()> {
        let processes = self.processes();
        ensure!(!processes.is_empty(), "nothing runs on {}", self.name());
        for pid in processes {
            // It may have ended meanwhile.
            let _ = kill(pid, signal);
        }
        Ok(())
    }

    /// Excludes the node from load balancers, as for a drain, by the label of Kubernetes for it, or includes it again.
    pub async fn exclude(&self, excluded: bool) -> anyhow::Result<()> {
        let change = json!({"metadata": {"labels": {EXCLUDE: excluded.then_some("true")}}});
        let nodes: Api<NodeObject> = Api::all(self.lab.client());
        nodes.patch(self.name(), &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    }

    /// The processes of the node: those the lab started on it and what they started. Containers do not inherit the mark,
    /// but descend from a shim that does.
    fn processes(&self) -> Vec<Pid> {
        let mark = format!("{MARK}={}", self.name());
        self.lab.sandbox.processes(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
    }

    pub(crate) fn agents(&self) -> Vec<Pid> {
        let is_agent = |pid: &Pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.next().is_some_and(|program| program.ends_with(b"windlass"))
                && words.next() == Some(b"agent")
        };
        self.processes().into_iter().filter(is_agent).collect()
    }

    fn script(&self, script: &str) -> anyhow::Result<()> {
        self.lab.sandbox.script(script).map(drop)
    }
}

/// Label by which Kubernetes excludes a node from load balancers.
pub(crate) const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Environment variable that marks every process a node started; what they start inherits it.
pub(crate) const MARK: &str = "WINDLASS_LAB_NODE";

impl Lab {
    /// Starts a process of a node, marked as the node's.
    pub(crate) fn start_on_node(&self, node: &str, name: &str, command: Vec<String>) -> anyhow::Result<()> {
        let mut marked = vec!["env".to_owned(), format!("{MARK}={node}")];
        marked.extend(command);
        self.daemons.start(&self.sandbox, node, name, marked)
    }
}
