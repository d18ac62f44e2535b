//! Findings about addresses that nodes share, and obstacles to sharing on this node. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use windlass_api::{LOTS, SharedLoad, SharingNode, load_shared as reasons};

use super::super::service_proxy::ServiceProxy;
use super::Unshared;

/// Time for which an obstacle may be momentary, as while kube-proxy restarts: two looks.
const MOMENT: Duration = Duration::from_secs(25);

/// Reason why this node shares no address as it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The guard, which passes packets of unknown connections on, is not there.
    Unguarded(String),
    /// It is not known that kube-proxy's chains take the packets of Services.
    Proxy(&'static str),
    /// The kernel or the agent's settings do not allow it.
    NotSupported(String),
}

impl Obstacle {
    /// Returns the obstacle on this node. `unguarded`: reason why its guard does nothing; `unsupported`: reason why it cannot direct packets
    /// or pass them on.
    pub(crate) fn look(
        unguarded: Option<&str>,
        proxy: ServiceProxy,
        unsupported: Option<String>,
    ) -> Option<Self> {
        if let Some(why) = unguarded {
            return Some(Self::Unguarded(why.to_owned()));
        }
        proxy.without_chains().map(Self::Proxy).or(unsupported.map(Self::NotSupported))
    }

    /// Returns the time for which it has to last before the node reports no more that it can share.
    pub(super) fn patience(&self) -> Duration {
        match self {
            Self::Proxy(found) if *found != ServiceProxy::Unknown.name() => Duration::ZERO,
            Self::Unguarded(_) | Self::Proxy(_) | Self::NotSupported(_) => MOMENT,
        }
    }

    fn finding(&self, node: &str) -> Finding {
        let (reason, why) = match self {
            Self::Unguarded(why) => (
                reasons::UNGUARDED,
                format!("the agent's guard does nothing there: {why}; run the agent with its guard"),
            ),
            Self::Proxy(found) => (
                reasons::SERVICE_PROXY,
                format!(
                    "sharing needs kube-proxy in nftables or iptables mode, and the agent found '{found}': let the \
                     agent ask kube-proxy (--kube-proxy-metrics-address)"
                ),
            ),
            Self::NotSupported(why) => (reasons::NOT_SUPPORTED, why.clone()),
        };
        let message = format!("Node {node} cannot share addresses: {why}");
        Finding { holds: false, reason, message }
    }
}

/// State of sharing on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SharingState {
    pub(crate) obstacle: Option<Obstacle>,
    /// Addresses that this node does not share although it should, by address.
    pub(crate) unshared: Vec<Unshared>,
    /// Addresses for which packets are directed.
    pub(crate) in_force: BTreeSet<IpAddr>,
    /// Addresses of nodes that do not answer.
    pub(crate) silent: BTreeSet<IpAddr>,
    /// Addresses of nodes that answer again, and whose lots other nodes still serve.
    pub(crate) returning: BTreeSet<IpAddr>,
    /// Addresses of nodes that never answered: their lots are served where their packets arrive.
    pub(crate) unknown: BTreeSet<IpAddr>,
    /// Addresses of nodes to which packets with a client's source address do not pass from this node, or whose answers do not pass back.
    pub(crate) filtered: BTreeSet<IpAddr>,
    /// Addresses of nodes to which this node passes no packets of connections that it does not know.
    pub(crate) without_mark: BTreeSet<IpAddr>,
}

/// Report about the sharing of an address by the node that is Active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// True if several nodes serve it.
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl SharingState {
    /// Returns the report about an address with these nodes of lots, by `node`; `None`: nothing to report yet.
    pub(crate) fn finding(&self, node: &str, address: IpAddr, load: &SharedLoad) -> Option<Finding> {
        if let Ok(at) = self.unshared.binary_search_by_key(&address, |one| one.address) {
            let Unshared { reason, why, .. } = &self.unshared[at];
            let message = format!("Node {node} alone serves {address}: {why}");
            return Some(Finding { holds: false, reason, message });
        }
        if let Some(obstacle) = &self.obstacle {
            return Some(obstacle.finding(node));
        }
        let servers = load.servers().ok()?;
        let is_filtered = |(server, _): &&(&SharingNode, usize)| self.filtered.contains(&server.address);
        let filtered: Vec<_> = servers.iter().filter(is_filtered).map(|(server, _)| &*server.name).collect();
        if !filtered.is_empty() {
            let message = filtered_sentence(node, address, &filtered, servers.len());
            return Some(Finding { holds: false, reason: reasons::SOURCES_FILTERED, message });
        }
        if let [(server, _)] = servers[..] {
            let message = format!("Node {} alone serves {address}", server.name);
            return Some(Finding { holds: false, reason: reasons::ONE_SERVER, message });
        }
        self.in_force.contains(&address).then(|| Finding {
            holds: true,
            reason: reasons::SHARED,
            message: self.sentence(load, &servers),
        })
    }

    /// Returns the shares of the nodes, and the nodes that are out.
    fn sentence(&self, load: &SharedLoad, servers: &[(&SharingNode, usize)]) -> String {
        let numbers: Vec<_> =
            servers.iter().map(|(server, lots)| format!("{} {lots}", server.name)).collect();
        let names = |is_one: &dyn Fn(&IpAddr) -> bool| -> Vec<&str> {
            let of_these = servers.iter().map(|(server, _)| server).filter(|server| is_one(&server.address));
            of_these.map(|server| &*server.name).collect()
        };
        let (alone, is_out) = (vec!["the node that announces the address"], |address: &IpAddr| {
            [&self.silent, &self.returning, &self.unknown].iter().any(|set| set.contains(address))
        });
        let others = names(&|address| !is_out(address));
        let others = if others.is_empty() { alone.clone() } else { others };
        let out = |which: &BTreeSet<IpAddr>, [one, more]: [&str; 2], others: &[&str]| {
            let names = names(&|address| which.contains(address));
            let (verb, whose) = if names.len() == 1 { (one, "its") } else { (more, "their") };
            let have = if others.len() == 1 { "has" } else { "have" };
            let who = names.join(" and ");
            (!names.is_empty()).then(|| format!("{who} {verb}: {} {have} {whose} lots", others.join(" and ")))
        };
        let of_table = load.nodes.iter().filter(|one| self.without_mark.contains(&one.address));
        let unmarked: Vec<_> = of_table.map(|one| one.name.as_str()).collect();
        let unmarked = (!unmarked.is_empty()).then(|| {
            format!(
                "connections that began on {} end when their lot moves: no mark is left",
                unmarked.join(" and ")
            )
        });
        let parts = [
            Some(format!("{} of {LOTS} lots", numbers.join(", "))),
            out(&self.silent, ["does not answer", "do not answer"], &others),
            out(&self.returning, ["has just returned", "have just returned"], &others),
            out(&self.unknown, ["never answered", "never answered"], &alone),
            unmarked,
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Returns the sentence about servers of an address, of so many, that are filtered.
fn filtered_sentence(node: &str, address: IpAddr, filtered: &[&str], servers: usize) -> String {
    let names = filtered.join(" and ");
    let effect = if filtered.len() < servers {
        format!("other nodes have the lots of {names}")
    } else {
        "no other node has lots, so they stay".to_owned()
    };
    format!(
        "Packets with a client's source address do not pass from node {node} to {names}, or those from {address} do not pass back: {effect}. \
         Let the nodes' ports of the hypervisor or switch send from any source address (no port security, source guard or spoofing filter), also \
         by UDP port 10113"
    )
}
