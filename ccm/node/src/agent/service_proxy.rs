//! Detects the program that handles the packets of Services on this node, and whether the guard sees them before.
//!
//! - kube-proxy in nftables or iptables mode handles them between the guard's chains.
//! - Programs that are attached to the node's interfaces (eBPF) handle them before netfilter: the guard never sees them, and must not claim
//!   to block any client.
//! - IPVS handles them after the guard has refused unknown packets: with the guard no Service would be served.
//! - Open vSwitch and routes of their own handle them in Antrea, OVN-Kubernetes and Kube-OVN: the guard sees those packets untranslated,
//!   and passes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_engine::{Engine, HostRoute};

use super::desired::Desired;
use super::health::request::proxy_mode;
use crate::parts::blocking;

mod masquerade;
#[cfg(test)]
mod tests;

pub use masquerade::MasqueradeMark;

/// Interval of the detection.
const EVERY: Duration = Duration::from_secs(10);
/// The kernel's list of IPVS services in this network namespace.
const IPVS: &str = "/proc/net/ip_vs";
/// Interfaces created by systems whose programs handle packets before netfilter.
const PROGRAMS: [(&str, &str); 2] = [("cilium_host", "Cilium"), ("bpfin.cali", "Calico in eBPF mode")];

/// Interfaces of programs that may serve Services by Open vSwitch, in the place of kube-proxy.
const SWITCHES: [(&str, &str); 4] = [
    ("antrea-gw0", "Antrea"),
    ("ovn-k8s-mp0", "OVN-Kubernetes"),
    ("ovn0", "Kube-OVN"),
    ("br-int", "Open vSwitch"),
];

/// Mode of the agent's guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardMode {
    /// On, unless the program that handles the packets of Services does not work beside it.
    Auto,
    /// Always on: the admin knows that it sees the packets.
    On,
    /// Never.
    Off,
}

/// Program that handles the packets of Services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceProxy {
    /// None was found, as before kube-proxy has started. The guard sees all packets.
    Unknown,
    /// kube-proxy in nftables mode.
    Nftables,
    /// kube-proxy in iptables mode.
    Iptables,
    /// IPVS: kube-proxy in ipvs mode, or another program.
    Ipvs,
    /// Programs at the interfaces, with their name and the interface that reveals them.
    Programs { by: &'static str, interface: &'static str },
    /// A program that diverts packets to an interface of its own by a route or a switch, without netfilter translating them.
    Switched { by: &'static str, seen: Seen },
}

/// Evidence of a program that handles packets without netfilter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// This interface exists.
    Interface(&'static str),
    /// A virtual IP has a route of its own to another interface than the loopback interface.
    Route,
}

/// Evidence of the program that handles the packets of Services.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Mode that kube-proxy itself reports.
    pub(crate) mode: Option<String>,
    /// True if IPVS serves anything.
    pub(crate) ipvs: bool,
    /// The node's interfaces.
    pub(crate) interfaces: BTreeSet<String>,
    /// True if the node has a route of its own for a virtual IP to another interface than the loopback interface.
    pub(crate) routes_vip: bool,
}

impl Evidence {
    /// Discards the mode `ipvs` unless the kernel confirms it. The agent exits when IPVS appears, to be restarted without a guard. On a
    /// node without kube-proxy any program may answer at the address of its mode, and would make the agent exit again and again.
    fn forget_mere_word_of_ipvs(&mut self) {
        if !self.ipvs {
            self.mode.take_if(|mode| *mode == "ipvs");
        }
    }
}

impl ServiceProxy {
    /// Returns the program that the evidence shows. kube-proxy's own report comes first: IPVS may serve something else, and Cilium and
    /// Antrea leave Services to kube-proxy.
    pub(crate) fn of(evidence: &Evidence) -> Self {
        let Evidence { mode, ipvs, interfaces, routes_vip } = evidence;
        match mode.as_deref() {
            Some("nftables") => return Self::Nftables,
            Some("iptables") => return Self::Iptables,
            Some("ipvs") => return Self::Ipvs,
            Some(_) | None => {}
        }
        if *ipvs {
            return Self::Ipvs;
        }
        let has = |(interface, _): &(&str, &str)| interfaces.contains(*interface);
        if let Some((interface, by)) = PROGRAMS.into_iter().find(has) {
            return Self::Programs { by, interface };
        }
        match SWITCHES.into_iter().find(has) {
            Some((interface, by)) => Self::Switched { by, seen: Seen::Interface(interface) },
            None if *routes_vip => {
                Self::Switched { by: "another program than kube-proxy", seen: Seen::Route }
            }
            None => Self::Unknown,
        }
    }

    /// Returns true if `found`, which was seen after `self`, replaces it. A restarting kube-proxy is not replaced, and its rules stay in
    /// the kernel: an interface beside which it served before proves nothing while it does not answer.
    fn gives_way_to(self, found: Self) -> bool {
        let served_beside = matches!(self, Self::Nftables | Self::Iptables);
        match found {
            Self::Unknown => false,
            Self::Switched { seen: Seen::Interface(_), .. } if served_beside => false,
            Self::Nftables
            | Self::Iptables
            | Self::Ipvs
            | Self::Programs { .. }
            | Self::Switched { seen: Seen::Interface(_) | Seen::Route, .. } => self != found,
        }
    }

    /// Returns true if netfilter translates the packets of Services before the guard judges what is left.
    pub(crate) const fn is_of_netfilter(self) -> bool {
        match self {
            Self::Unknown | Self::Nftables | Self::Iptables | Self::Ipvs | Self::Programs { .. } => true,
            Self::Switched { .. } => false,
        }
    }

    /// Returns its name in metrics and in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::Programs { .. } => "ebpf",
            Self::Switched { .. } => "switch",
        }
    }

    /// Returns its name, unless it is kube-proxy in a mode whose chains are known to take the packets of Services.
    pub(crate) const fn without_chains(self) -> Option<&'static str> {
        match self {
            Self::Nftables | Self::Iptables => None,
            Self::Unknown | Self::Ipvs | Self::Programs { .. } | Self::Switched { .. } => Some(self.name()),
        }
    }
}

impl GuardMode {
    /// Returns true if the engine is to have a guard beside this proxy.
    pub(crate) const fn has_guard(self, proxy: ServiceProxy) -> bool {
        match self {
            Self::On => true,
            Self::Off => false,
            Self::Auto => !matches!(proxy, ServiceProxy::Ipvs),
        }
    }

    /// Returns true if the guard refuses untranslated packets for a virtual IP.
    pub(crate) const fn refuses_untranslated(self, proxy: ServiceProxy) -> bool {
        match self {
            Self::On => true,
            Self::Off => false,
            Self::Auto => proxy.is_of_netfilter(),
        }
    }

    /// Returns the reason why the guard, if the engine `has` one, blocks no client whatever its own status; `None`: it does block.
    pub(crate) fn obstacle(self, has: bool, proxy: ServiceProxy) -> Option<String> {
        match (self, proxy) {
            (Self::Off, _) => Some("its agent runs with --guard=false".to_owned()),
            // An agent that started beside IPVS, until it is restarted.
            (Self::Auto, _) if !has => Some(
                "IPVS serves Services on it, and the guard cannot work beside IPVS: use kube-proxy in \
                 nftables mode"
                    .to_owned(),
            ),
            (Self::Auto, ServiceProxy::Programs { by, interface }) => Some(format!(
                "{by} (interface {interface}) takes packets before the agent's guard can see them, and no \
                 kube-proxy reports its mode: restrict clients by its own network policies, or start the \
                 agent with --guard=true if kube-proxy serves all the same"
            )),
            (Self::Auto, ServiceProxy::Switched { by, seen }) => {
                let seen = match seen {
                    Seen::Interface(interface) => format!("interface {interface}"),
                    Seen::Route => "a route of a virtual IP to another interface than lo".to_owned(),
                };
                Some(format!(
                    "{by} ({seen}) takes packets to Services without netfilter, and no kube-proxy reports \
                     its mode: the guard lets untranslated packets pass. Restrict clients by its own network \
                     policies, let the agent ask kube-proxy (--kube-proxy-metrics-address), or start the \
                     agent with --guard=true if kube-proxy serves all the same"
                ))
            }
            // The agent exits when IPVS appears.
            (Self::On, _)
            | (
                Self::Auto,
                ServiceProxy::Unknown | ServiceProxy::Nftables | ServiceProxy::Iptables | ServiceProxy::Ipvs,
            ) => None,
        }
    }
}

/// Collects the current evidence. `kube_proxy`: address at which it reports its mode; `None`: it is not queried. `vips`: virtual IPs, with
/// the interfaces that they are announced on.
async fn look(kube_proxy: Option<SocketAddr>, vips: BTreeMap<IpAddr, String>) -> Evidence {
    let mode = match kube_proxy {
        Some(address) => proxy_mode(address).await,
        None => None,
    };
    let is_told = mode.is_some();
    let host = blocking(move || {
        let mut interfaces = BTreeSet::new();
        let is_known = |name: &str| PROGRAMS.iter().chain(&SWITCHES).any(|(interface, _)| *interface == name);
        match Engine::host_links(is_known) {
            Ok(links) => interfaces.extend(links.into_iter().map(|link| link.name)),
            Err(error) => tracing::debug!(%error, "cannot list the interfaces"),
        }
        // A kube-proxy's own report counts: no need to read all routes.
        let routes_vip =
            !is_told && !vips.is_empty() && Engine::routes().is_ok_and(|routes| has_route_of(&vips, &routes));
        // Without IPVS there is no such file.
        (fs::read_to_string(IPVS).is_ok_and(|text| serves(&text)), interfaces, routes_vip)
    });
    let (ipvs, interfaces, routes_vip) = host.await.unwrap_or_default();
    Evidence { mode, ipvs, interfaces, routes_vip }
}

/// Returns true if one of these addresses has a route of its own to another interface than the loopback interface and that of its
/// clients. (By the latter the engine forwards connections to other nodes.)
fn has_route_of(vips: &BTreeMap<IpAddr, String>, routes: &[HostRoute]) -> bool {
    routes.iter().any(|route| {
        let destination = route.destination;
        destination.prefix_len() == destination.max_prefix_len()
            && route.interface != "lo"
            && vips.get(&destination.addr()).is_some_and(|of_clients| *of_clients != route.interface)
    })
}

/// Returns true if the kernel's list has a service in it: below three header lines, each begins with its protocol.
fn serves(list: &str) -> bool {
    list.lines()
        .any(|line| ["TCP ", "UDP ", "SCTP ", "FWM "].iter().any(|protocol| line.starts_with(protocol)))
}

/// Detects the current program.
pub(crate) async fn find(kube_proxy: Option<SocketAddr>) -> ServiceProxy {
    ServiceProxy::of(&look(kube_proxy, BTreeMap::new()).await)
}

/// Returns the virtual IPs of this node's virtual routers, with their interfaces.
fn vips(desired: Option<&Desired>) -> BTreeMap<IpAddr, String> {
    let assignments = desired.into_iter().flat_map(|desired| &desired.assignments);
    assignments
        .flat_map(|one| one.addresses.iter().map(|address| (*address, one.interface.clone())))
        .collect()
}

/// Runs the detection until `token` is cancelled, and publishes each change.
pub(crate) async fn follow(
    kube_proxy: Option<SocketAddr>,
    desired: &watch::Receiver<Option<Arc<Desired>>>,
    found: &watch::Sender<ServiceProxy>,
    mark: &watch::Sender<MasqueradeMark>,
    token: &CancellationToken,
) {
    let mut ticks = crate::every(EVERY);
    loop {
        let mut evidence = tokio::select! {
            evidence = async {
                ticks.tick().await;
                let vips = vips(desired.borrow().as_deref());
                look(kube_proxy, vips).await
            } => evidence,
            () = token.cancelled() => return,
        };
        evidence.forget_mere_word_of_ipvs();
        let proxy = ServiceProxy::of(&evidence);
        masquerade::follow(kube_proxy, proxy, mark).await;
        found.send_if_modified(|known| {
            if !known.gives_way_to(proxy) {
                return false;
            }
            tracing::info!(proxy = proxy.name(), "found the service proxy of this node");
            *known = proxy;
            true
        });
    }
}
