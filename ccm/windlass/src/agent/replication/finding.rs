//! What is told of the connections of a virtual router, and what keeps this node from having others know them. Pure.

use std::net::IpAddr;

use windlass_api::connections_replicated as reasons;

use super::super::service_proxy::ServiceProxy;
use super::way_back::WayBack;

/// Why this node replicates no connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It is looked for still.
    NotLooked,
    /// The guard, which gives packets the VIP as their source, is not there.
    Unguarded(String),
    /// It is not known that kube-proxy's chains take the packets of Services.
    Proxy(&'static str),
    /// Pods are reached by a tunnel.
    Overlay(String),
    /// How pods are reached cannot be seen.
    RoutesUnknown(String),
}

impl Obstacle {
    /// What is in the way on this node. `unguarded`: why its guard does nothing.
    pub(crate) fn of(unguarded: Option<&str>, proxy: ServiceProxy, way_back: &WayBack) -> Option<Self> {
        if let Some(why) = unguarded {
            return Some(Self::Unguarded(why.to_owned()));
        }
        match proxy {
            ServiceProxy::Nftables | ServiceProxy::Iptables => {}
            ServiceProxy::Unknown | ServiceProxy::Ipvs | ServiceProxy::Programs { .. } => {
                return Some(Self::Proxy(proxy.name()));
            }
        }
        match way_back {
            WayBack::Routed => None,
            WayBack::NotLooked => Some(Self::NotLooked),
            WayBack::Overlay { interface } => Some(Self::Overlay(interface.clone())),
            WayBack::Unknown { reason } => Some(Self::RoutesUnknown(reason.clone())),
        }
    }

    /// Whether it may be gone in a moment, as on a node that has just started.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::NotLooked => true,
            Self::Proxy(found) => *found == ServiceProxy::Unknown.name(),
            Self::Unguarded(_) | Self::Overlay(_) | Self::RoutesUnknown(_) => false,
        }
    }

    /// What is told of it, and what can be done about it; `None`: nothing yet.
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
                    "they need kube-proxy in nftables or iptables mode, and what is known there is '{found}': let the agent ask \
                     kube-proxy (--kube-proxy-metrics-address), or announce the address with connections: Forward"
                ),
            ),
            Self::Overlay(interface) => (
                reasons::OVERLAY,
                format!(
                    "pods are reached by the tunnel {interface}, outside of which answers of backends would not find the way: route pod \
                     networks by the LAN, or announce the address with connections: Forward, as it is now"
                ),
            ),
            Self::RoutesUnknown(why) => (
                reasons::ROUTES_UNKNOWN,
                format!("its routes cannot be read, so that the way back of answers is not known: {why}"),
            ),
        };
        Some(Finding { holds: false, reason, why })
    }
}

/// What is to be told of a virtual router's connections by the node that is Active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Whether another node has them.
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(super) why: String,
}

impl Finding {
    /// A sentence about the connections to an address that `node` announces.
    pub(crate) fn sentence(&self, node: &str, address: IpAddr) -> String {
        if self.holds {
            format!("{}; connections to {address} go on there if node {node} dies", self.why)
        } else {
            format!("Connections to {address} end if node {node} dies: {}", self.why)
        }
    }
}
