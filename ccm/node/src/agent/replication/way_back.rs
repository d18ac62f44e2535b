//! Path of backends' answers to a virtual IP by its LAN. Answers of backends that are reached by another path may be dropped by
//! reverse-path filters, or by the LAN. The agent therefore asks nodes beyond such paths (`ask`). Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use windlass_engine::{Family, HostRoute, LinkKind};

use super::super::desired::Assignment;

mod answers;
pub(crate) mod ask;
mod filters;
#[cfg(test)]
mod tests;
pub(super) mod words;

use answers::{Answers, Verdict};
use filters::Filters;

/// Kinds of devices that encapsulate packets.
const TUNNELS: [&str; 10] =
    ["vxlan", "geneve", "ipip", "gre", "gretap", "sit", "ip6tnl", "ip6gre", "ip6gretap", "wireguard"];
/// Name prefixes of such devices, some of which have no kind of their own.
const TUNNEL_NAMES: [&str; 4] = ["flannel.", "vxlan.calico", "tunl0", "wg"];
/// Name prefixes of devices through which programs at interfaces or Open vSwitch send: no route needs to lead there.
const TUNNELS_WITHOUT_ROUTES: [&str; 5] =
    ["cilium_vxlan", "cilium_geneve", "genev_sys_", "vxlan_sys_", "gre_sys"];
/// Largest number of host bits of a route that may be that of a node's pods.
const POD_BITS_V4: u8 = 11;
const POD_BITS_V6: u8 = 72;

/// Return path of answers to the virtual IPs of each segment, by its interface and family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaysBack(BTreeMap<(String, Family), WayBack>);

/// Return path of backends' answers to a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// Not examined yet.
    #[default]
    NotLooked,
    /// Answers arrive by the LAN, except from these ranges.
    Arrives(Vec<Astray>),
    /// Pods are reached by a tunnel beyond which no host can be asked.
    Overlay {
        /// Tunnel device.
        interface: String,
    },
    /// Pods are reached by tunnels, and no answer is known to arrive.
    Lost {
        /// The answers that do not arrive, or the hosts that did not answer, in words.
        why: String,
    },
    /// The path cannot be read.
    Unknown {
        /// Reason.
        reason: String,
    },
}

/// Range of backends whose answers do not arrive, or are not known to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Astray {
    pub(crate) range: IpNet,
    /// Interface by which they are reached.
    interface: String,
    cause: Cause,
}

/// Reason why an answer does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// The backend's node answers, but this node's filter drops the answer that comes by the LAN.
    FilterHere,
    /// The backend's node answers, but the answer is dropped there or on the LAN.
    Elsewhere,
    /// The backend's node does not answer.
    Silence,
    /// There is no host to ask.
    NobodyToAsk,
}

/// Segment and state of this node to examine.
struct View<'a> {
    /// The segment's interface.
    interface: &'a str,
    family: Family,
    /// Address from which its hosts are asked.
    own: Option<IpAddr>,
    links: &'a [LinkKind],
    routes: &'a [HostRoute],
}

impl WaysBack {
    /// Returns the return path of a virtual router's segment.
    pub(crate) fn of(&self, assignment: &Assignment) -> &WayBack {
        self.0.get(&segment(assignment)).unwrap_or(&WayBack::NotLooked)
    }
}

/// Returns the segment of a virtual router.
fn segment(assignment: &Assignment) -> (String, Family) {
    (assignment.interface.clone(), Family::of(assignment.source))
}

impl View<'_> {
    /// Returns the hosts to ask: gateways behind other interfaces than the segment's, which are on the link there.
    fn hosts(&self) -> impl Iterator<Item = IpAddr> {
        self.ways_elsewhere().filter_map(|(route, _)| askable(route))
    }

    /// Returns the routes that may lead to pods by other interfaces than the segment's, each with true if that is a tunnel.
    fn ways_elsewhere(&self) -> impl Iterator<Item = (&HostRoute, bool)> {
        let elsewhere = self.routes.iter().filter(|route| {
            Family::of(route.destination.network()) == self.family && route.interface != self.interface
        });
        let with_kind = elsewhere.map(|route| (route, self.is_tunnel(&route.interface)));
        with_kind.filter(|(route, is_tunnel)| *is_tunnel || (is_narrow(route) && askable(route).is_some()))
    }

    /// Returns true if this node drops packets that arrive by the segment's interface from sources that it reaches by another.
    fn is_filtered(&self, filters: &Filters) -> bool {
        match self.family {
            Family::V4 => filters.is_strict(self.interface),
            Family::V6 => false,
        }
    }

    fn is_tunnel(&self, interface: &str) -> bool {
        let mut links = self.links.iter().filter(|link| link.name == interface);
        let of_kind = |link: &LinkKind| link.kind.as_deref().is_some_and(|kind| TUNNELS.contains(&kind));
        links.any(of_kind) || begins(interface, &TUNNEL_NAMES)
    }

    /// Evaluates the return path of answers.
    fn way_back(&self, answers: &Answers, filters: &Filters) -> WayBack {
        if let Some(link) = self.links.iter().find(|link| begins(&link.name, &TUNNELS_WITHOUT_ROUTES)) {
            return WayBack::Overlay { interface: link.name.clone() };
        }
        let (mut astray, mut tunnels, mut arrives) = (Vec::new(), Vec::new(), false);
        for (route, is_tunnel) in self.ways_elsewhere() {
            let verdict = askable(route).zip(self.own).map(|(host, own)| answers.verdict(own, host));
            let cause = match verdict {
                Some(Verdict::Arrives) => None,
                Some(Verdict::Lost) if self.is_filtered(filters) => Some(Cause::FilterHere),
                Some(Verdict::Lost) => Some(Cause::Elsewhere),
                // Without other evidence a path that is no tunnel counts as open.
                Some(Verdict::Unknown) | None if !is_tunnel => continue,
                Some(Verdict::Unknown) => Some(Cause::Silence),
                None => Some(Cause::NobodyToAsk),
            };
            arrives |= is_tunnel && cause.is_none();
            if is_tunnel {
                tunnels.push(&route.interface);
            }
            let interface = &route.interface;
            let stray = |cause| Astray { range: route.destination, interface: interface.clone(), cause };
            astray.extend(cause.map(stray));
        }
        astray.sort_unstable();
        astray.dedup();
        match tunnels.first() {
            None => WayBack::Arrives(astray),
            Some(_) if arrives => WayBack::Arrives(astray),
            Some(interface) if astray.iter().all(|stray| stray.cause == Cause::NobodyToAsk) => {
                WayBack::Overlay { interface: (*interface).clone() }
            }
            Some(_) => WayBack::Lost { why: words::of(&astray, self.interface) },
        }
    }
}

#[cfg(test)]
impl Astray {
    /// Returns a range from which no host has answered.
    pub(super) fn silent(range: &str, interface: &str) -> Self {
        let range = range.parse().expect("a range");
        Self { range, interface: interface.to_owned(), cause: Cause::Silence }
    }
}

/// Returns the gateway of this route, if that host is on the link there and has an address that is valid beyond it.
fn askable(route: &HostRoute) -> Option<IpAddr> {
    let family = Family::of(route.destination.network());
    route.gateway.filter(|gateway| match gateway {
        IpAddr::V4(_) => route.is_direct && family == Family::V4,
        IpAddr::V6(gateway) => route.is_direct && family == Family::V6 && !gateway.is_unicast_link_local(),
    })
}

/// Returns true if the route covers no more addresses than a node's pods may use.
fn is_narrow(route: &HostRoute) -> bool {
    let most = match Family::of(route.destination.network()) {
        Family::V4 => POD_BITS_V4,
        Family::V6 => POD_BITS_V6,
    };
    route.destination.max_prefix_len() - route.destination.prefix_len() <= most
}

fn begins(name: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| name.starts_with(beginning))
}
