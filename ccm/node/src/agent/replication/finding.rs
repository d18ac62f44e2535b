//! Findings about the connections of a virtual router, and obstacles to their replication on this node. Pure.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use windlass_api::connections_replicated as reasons;

use super::super::service_proxy::ServiceProxy;
use super::way_back::{Astray, WayBack};

/// Time for which the guard may do nothing, or routes be unreadable: several looks at them.
const MOMENT: Duration = Duration::from_secs(10);
/// Time for which kube-proxy may not report its mode, as during its restart: two looks.
const RESTART: Duration = Duration::from_secs(25);

/// Reason why this node replicates no connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The ways back were not examined yet.
    NotLooked,
    /// The guard, which gives packets the VIP as their source, is not there.
    Unguarded(String),
    /// It is not known that kube-proxy's chains take the packets of Services.
    Proxy(&'static str),
    /// It is not known which packets kube-proxy masquerades.
    MasqueradeMark,
    /// Pods are reached by a tunnel beyond which no host can be asked.
    Overlay(String),
    /// Pods are reached by tunnels, and no answer arrives, as far as is known.
    NoWayBack(String),
    /// The routes to pods cannot be read.
    RoutesUnknown(String),
}

impl Obstacle {
    /// Returns the ranges of backends whose answers go astray, or the obstacle on this node. `unguarded`: reason why its guard does
    /// nothing; `mark`: kube-proxy's for packets that it masquerades.
    pub(crate) fn look<'a>(
        unguarded: Option<&str>,
        proxy: ServiceProxy,
        mark: Option<u32>,
        way_back: &'a WayBack,
    ) -> Result<&'a [Astray], Self> {
        if let Some(why) = unguarded {
            return Err(Self::Unguarded(why.to_owned()));
        }
        if let Some(found) = proxy.without_chains() {
            return Err(Self::Proxy(found));
        }
        if mark.is_none() {
            return Err(Self::MasqueradeMark);
        }
        match way_back {
            WayBack::Arrives(astray) => Ok(astray),
            WayBack::NotLooked => Err(Self::NotLooked),
            WayBack::Overlay { interface } => Err(Self::Overlay(interface.clone())),
            WayBack::Lost { why } => Err(Self::NoWayBack(why.clone())),
            WayBack::Unknown { reason } => Err(Self::RoutesUnknown(reason.clone())),
        }
    }

    /// Returns true if the obstacle may disappear shortly, as on a node that has just started.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::NotLooked | Self::MasqueradeMark => true,
            Self::Proxy(found) => *found == ServiceProxy::Unknown.name(),
            Self::Unguarded(_) | Self::Overlay(_) | Self::NoWayBack(_) | Self::RoutesUnknown(_) => false,
        }
    }

    /// Returns the time for which it has to last before it has an effect, if there was no obstacle before.
    pub(super) fn patience(&self) -> Duration {
        match self {
            Self::Unguarded(_) | Self::RoutesUnknown(_) => MOMENT,
            Self::Proxy(found) if *found == ServiceProxy::Unknown.name() => RESTART,
            Self::MasqueradeMark => RESTART,
            Self::NotLooked | Self::Proxy(_) | Self::Overlay(_) | Self::NoWayBack(_) => Duration::ZERO,
        }
    }

    /// Returns the report of it, with a remedy; `None`: nothing to report yet.
    pub(super) fn finding(&self) -> Option<Finding> {
        let (reason, why) = match self {
            Self::NotLooked => return None,
            Self::Unguarded(why) => (
                reasons::UNGUARDED,
                format!(
                    "they need the agent's guard, which does nothing there: {why}; run the agent with its guard"
                ),
            ),
            Self::Proxy(found) => (
                reasons::SERVICE_PROXY,
                format!(
                    "they need kube-proxy in nftables or iptables mode, and the agent found '{found}': let \
                     the agent ask kube-proxy (--kube-proxy-metrics-address), or announce the address with \
                     connections: Forward"
                ),
            ),
            Self::MasqueradeMark => (
                reasons::SERVICE_PROXY,
                "they need kube-proxy's masquerade mark, which its configuration does not show (/configz at \
                 --kube-proxy-metrics-address): name its masqueradeBit (--kube-proxy-masquerade-bit)"
                    .to_owned(),
            ),
            Self::Overlay(interface) => (
                reasons::OVERLAY,
                format!(
                    "pods are reached by the tunnel {interface}, and the agent cannot check whether answers \
                     of backends would arrive outside of it: use VXLAN, route pod networks by the LAN, or \
                     announce the address with connections: Forward, as it is now"
                ),
            ),
            Self::NoWayBack(why) => (
                reasons::NO_WAY_BACK,
                format!(
                    "answers of backends to the address would not arrive outside of the tunnel to their pods: {why}"
                ),
            ),
            Self::RoutesUnknown(why) => (
                reasons::ROUTES_UNKNOWN,
                format!("the agent cannot read its routes, so the way back of answers is unknown: {why}"),
            ),
        };
        Some(Finding { holds: false, reason, why })
    }
}

/// Report about a virtual router's connections by the node that is Active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// True if another node has them.
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(super) why: String,
}

impl Finding {
    /// A sentence about the connections to an address that `node` announces.
    pub(crate) fn sentence(&self, node: &str, address: IpAddr) -> String {
        if self.holds {
            format!("{}; connections to {address} continue there if node {node} dies", self.why)
        } else {
            format!("Connections to {address} end if node {node} dies: {}", self.why)
        }
    }
}

/// Names the connections that are left out because answers of backends do not arrive; `which` has their ranges.
pub(super) fn astray(which: &str) -> String {
    format!("those with backends in {which}")
}

/// Names the connections from before replication began on this node, which are left out: their backends answer to the node.
pub(super) fn earlier(since: Timestamp) -> String {
    format!("those from before {since}, when replication began")
}

/// Explains why no node has the connections: the nodes `full` have no room for them, and the nodes `lack` are not known to have them for
/// another reason.
pub(super) fn not_in_sync(full: Vec<&str>, lack: Vec<&str>) -> String {
    let said = |nodes: Vec<&str>, one: &str, more: &str, remedy: &str| {
        let verb = if nodes.len() == 1 { one } else { more };
        (!nodes.is_empty()).then(|| format!("{} {verb} {remedy}", nodes.join(" and ")))
    };
    let remedy = "no room for them: raise net.netfilter.nf_conntrack_max there";
    let full = said(full, "has", "have", remedy);
    let remedy = "not have them: look whether its agent runs, and whether a firewall lets UDP port 10112 (--replication-port) \
                  pass between the nodes";
    let lack = said(lack, "does", "do", remedy);
    full.into_iter().chain(lack).collect::<Vec<_>>().join("; ")
}
