//! Whether answers of backends reach a virtual IP by its LAN: where pods are reached by a tunnel their answers come out of it, and not
//! to whom they are for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_engine::{Engine, RoutedLink};

use super::super::desired::{Assignment, Desired};

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(10);
/// Kinds of devices that put packets into others.
const TUNNELS: [&str; 10] =
    ["vxlan", "geneve", "ipip", "gre", "gretap", "sit", "ip6tnl", "ip6gre", "ip6gretap", "wireguard"];
/// Beginnings of the names of such devices, some of which have no kind of their own.
const TUNNEL_NAMES: [&str; 4] = ["flannel.", "vxlan.calico", "tunl0", "wg"];
/// Beginnings of the names of devices that programs at interfaces or Open vSwitch send by: no route needs to lead there.
const TUNNELS_WITHOUT_ROUTES: [&str; 5] =
    ["cilium_vxlan", "cilium_geneve", "genev_sys_", "vxlan_sys_", "gre_sys"];

/// How pods of other nodes are reached from this one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// It was not looked yet.
    #[default]
    NotLooked,
    /// By the LAN.
    Routed,
    /// Some by a tunnel.
    Overlay {
        /// The device.
        interface: String,
    },
    /// It cannot be seen.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl WayBack {
    /// By these interfaces routes lead to other hosts.
    pub(crate) fn of(links: &[RoutedLink]) -> Self {
        let overlay = links.iter().find(|link| is_used_tunnel(link));
        overlay.map_or(Self::Routed, |link| Self::Overlay { interface: link.name.clone() })
    }
}

fn is_used_tunnel(link: &RoutedLink) -> bool {
    let begins = |names: &[&str]| names.iter().any(|name| link.name.starts_with(name));
    let is_tunnel = link.kind.as_deref().is_some_and(|kind| TUNNELS.contains(&kind)) || begins(&TUNNEL_NAMES);
    (link.has_routes && is_tunnel) || begins(&TUNNELS_WITHOUT_ROUTES)
}

/// Looks, as long as connections are to be replicated, until `token` is cancelled.
pub(crate) async fn follow(
    mut desired: watch::Receiver<Option<Arc<Desired>>>,
    found: watch::Sender<WayBack>,
    token: CancellationToken,
) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            // The first time at once.
            Ok(()) = desired.changed(), if *found.borrow() == WayBack::NotLooked => {}
            () = token.cancelled() => return,
        }
        if !desired.borrow_and_update().as_deref().is_some_and(wants_replication) {
            continue;
        }
        let now = look().await;
        found.send_if_modified(|known| {
            let is_news = *known != now;
            if is_news {
                tracing::info!(way = ?now, "this is how pods of other nodes are reached");
                *known = now;
            }
            is_news
        });
    }
}

fn wants_replication(desired: &Desired) -> bool {
    desired.assignments.iter().any(Assignment::replicates)
}

async fn look() -> WayBack {
    match tokio::task::spawn_blocking(Engine::routed_links).await {
        Ok(Ok(links)) => WayBack::of(&links),
        Ok(Err(error)) => WayBack::Unknown { reason: error.to_string() },
        Err(error) => WayBack::Unknown { reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_reach_a_vip_by_the_lan_where_no_route_leads_through_a_tunnel() {
        let rows: [(&str, Option<&str>, bool, bool); 17] = [
            ("eth0", None, true, true),
            ("bond0.7", Some("vlan"), true, true),
            ("br-lan", Some("bridge"), true, true),
            ("cni0", Some("bridge"), true, true),
            ("cali12ab", Some("veth"), true, true),
            ("cilium_host", Some("veth"), true, true),
            ("tunl0", Some("ipip"), false, true),
            ("vxlan100", Some("vxlan"), false, true),
            ("flannel.1", Some("vxlan"), true, false),
            ("flannel.4096", None, true, false),
            ("vxlan.calico", Some("vxlan"), true, false),
            ("tunl0", Some("ipip"), true, false),
            ("kube-bridge-gre", Some("gre"), true, false),
            ("wg-pods", Some("wireguard"), true, false),
            ("sit1", Some("sit"), true, false),
            ("cilium_vxlan", Some("vxlan"), false, false),
            ("genev_sys_6081", Some("geneve"), false, false),
        ];
        for (name, kind, has_routes, routed) in rows {
            let links = [RoutedLink::new("lo", None, false), RoutedLink::new(name, kind, has_routes)];
            let expected =
                if routed { WayBack::Routed } else { WayBack::Overlay { interface: name.to_owned() } };
            assert_eq!(WayBack::of(&links), expected, "{name} {kind:?} {has_routes}");
        }
        assert_eq!(WayBack::of(&[]), WayBack::Routed);
    }
}
