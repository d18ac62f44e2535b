//! Who takes the packets of Services on this node, and whether the guard sees them before.
//!
//! kube-proxy in nftables or iptables mode takes them between the guard's chains. Programs that are attached to the node's interfaces
//! (eBPF) take them before netfilter: the guard never sees them, and must not claim to keep anybody out. IPVS takes them after the
//! guard has refused what it does not know, so that with the guard nothing would be served.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_engine::Engine;

use super::health::proxy_mode;

#[cfg(test)]
mod tests;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(10);
/// The kernel's list of what IPVS serves in this network namespace.
const IPVS: &str = "/proc/net/ip_vs";
/// Interfaces that those have made whose programs take packets before netfilter.
const PROGRAMS: [(&str, &str); 2] = [("cilium_host", "Cilium"), ("bpfin.cali", "Calico in eBPF mode")];

/// Whether the agent has a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardMode {
    /// Where who takes the packets of Services lets it work.
    Auto,
    /// In any case: the admin knows that it sees the packets.
    On,
    Off,
}

/// Who takes the packets of Services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceProxy {
    /// Nobody was found, as before kube-proxy has started. The guard sees all packets.
    Unknown,
    /// kube-proxy in nftables mode.
    Nftables,
    /// kube-proxy in iptables mode.
    Iptables,
    /// IPVS: kube-proxy in ipvs mode, or another program.
    Ipvs,
    /// Programs at the interfaces, by whom and how that was seen.
    Programs { by: &'static str, interface: &'static str },
}

/// What tells who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// In which mode kube-proxy is, as it answers itself.
    pub(crate) mode: Option<String>,
    /// Whether IPVS serves anything.
    pub(crate) ipvs: bool,
    /// The node's interfaces.
    pub(crate) interfaces: BTreeSet<String>,
}

impl Evidence {
    /// The agent ends where IPVS turns up, to be started anew without a guard. So while it runs the kernel's word counts: at the
    /// place where kube-proxy tells its mode anybody may answer on a node without one, and end the agent again and again.
    fn forget_mere_word_of_ipvs(&mut self) {
        if !self.ipvs {
            self.mode.take_if(|mode| *mode == "ipvs");
        }
    }
}

impl ServiceProxy {
    /// kube-proxy's own word comes first: IPVS may serve something else, and Cilium leave Services to kube-proxy.
    pub(crate) fn of(evidence: &Evidence) -> Self {
        let Evidence { mode, ipvs, interfaces } = evidence;
        match mode.as_deref() {
            Some("nftables") => return Self::Nftables,
            Some("iptables") => return Self::Iptables,
            Some("ipvs") => return Self::Ipvs,
            Some(_) | None => {}
        }
        if *ipvs {
            return Self::Ipvs;
        }
        let programs = PROGRAMS.into_iter().find(|(interface, _)| interfaces.contains(*interface));
        programs.map_or(Self::Unknown, |(interface, by)| Self::Programs { by, interface })
    }

    /// As it is called in metrics and in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::Programs { .. } => "ebpf",
        }
    }
}

impl GuardMode {
    /// Whether the engine is to have a guard beside this proxy.
    pub(crate) const fn has_guard(self, proxy: ServiceProxy) -> bool {
        match self {
            Self::On => true,
            Self::Off => false,
            Self::Auto => !matches!(proxy, ServiceProxy::Ipvs),
        }
    }

    /// Why the guard, if the engine `has` one, keeps nobody out, whatever it says itself; `None`: it does.
    pub(crate) fn obstacle(self, has: bool, proxy: ServiceProxy) -> Option<String> {
        match (self, proxy) {
            (Self::Off, _) => Some("its agent runs with --guard=false".to_owned()),
            // Of one that began beside IPVS, until it is started anew.
            (Self::Auto, _) if !has => Some(
                "IPVS serves Services on it, beside which there is no guard: use kube-proxy in nftables mode"
                    .to_owned(),
            ),
            (Self::Auto, ServiceProxy::Programs { by, interface }) => Some(format!(
                "{by} (interface {interface}) takes packets before the agent's guard can see them, and no kube-proxy tells its mode: \
                 restrict clients by its own network policies, or start the agent with --guard=true if kube-proxy serves all the same"
            )),
            // The agent ends where IPVS turns up.
            (Self::On, _)
            | (
                Self::Auto,
                ServiceProxy::Unknown | ServiceProxy::Nftables | ServiceProxy::Iptables | ServiceProxy::Ipvs,
            ) => None,
        }
    }
}

/// What there is to see now. `kube_proxy`: where it tells its mode; `None`: it is not asked.
async fn look(kube_proxy: Option<SocketAddr>) -> Evidence {
    let mode = match kube_proxy {
        Some(address) => proxy_mode(address).await,
        None => None,
    };
    let host = tokio::task::spawn_blocking(|| {
        let mut interfaces = BTreeSet::new();
        let is_known = |name: &str| PROGRAMS.iter().any(|(interface, _)| *interface == name);
        match Engine::host_links(is_known) {
            Ok(links) => interfaces.extend(links.into_iter().map(|link| link.name)),
            Err(error) => tracing::debug!(%error, "cannot list the interfaces"),
        }
        // Without IPVS there is no such file.
        (fs::read_to_string(IPVS).is_ok_and(|text| serves(&text)), interfaces)
    });
    let (ipvs, interfaces) = host.await.unwrap_or_default();
    Evidence { mode, ipvs, interfaces }
}

/// Whether the kernel's list has a service in it: below three lines of heads, each begins with its protocol.
fn serves(list: &str) -> bool {
    list.lines()
        .any(|line| ["TCP ", "UDP ", "SCTP ", "FWM "].iter().any(|protocol| line.starts_with(protocol)))
}

/// Who it is now.
pub(crate) async fn find(kube_proxy: Option<SocketAddr>) -> ServiceProxy {
    ServiceProxy::of(&look(kube_proxy).await)
}

/// Looks until `token` is cancelled, and tells who it is when that is another one.
pub(crate) async fn follow(
    kube_proxy: Option<SocketAddr>,
    found: watch::Sender<ServiceProxy>,
    token: CancellationToken,
) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let mut evidence = tokio::select! {
            evidence = async {
                ticks.tick().await;
                look(kube_proxy).await
            } => evidence,
            () = token.cancelled() => return,
        };
        evidence.forget_mere_word_of_ipvs();
        let proxy = ServiceProxy::of(&evidence);
        found.send_if_modified(|known| {
            // A kube-proxy that is restarted is no other one, and what it wrote stays in the kernel.
            if *known == proxy || proxy == ServiceProxy::Unknown {
                return false;
            }
            tracing::info!(proxy = proxy.name(), "this is who takes the packets of Services on this node");
            *known = proxy;
            true
        });
    }
}
