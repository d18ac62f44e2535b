//! Whether answers of backends arrive at a virtual IP by its LAN: backends that are reached by another way than the LAN may be kept from
//! that by reverse-path filters, and by what the LAN lets pass. So nodes beyond such ways are asked (`ask`). Pure.

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

/// Kinds of devices that put packets into others.
const TUNNELS: [&str; 10] =
    ["vxlan", "geneve", "ipip", "gre", "gretap", "sit", "ip6tnl", "ip6gre", "ip6gretap", "wireguard"];
/// Beginnings of the names of such devices, some of which have no kind of their own.
const TUNNEL_NAMES: [&str; 4] = ["flannel.", "vxlan.calico", "tunl0", "wg"];
/// Beginnings of the names of devices that programs at interfaces or Open vSwitch send by: no route needs to lead there.
const TUNNELS_WITHOUT_ROUTES: [&str; 5] =
    ["cilium_vxlan", "cilium_geneve", "genev_sys_", "vxlan_sys_", "gre_sys"];
/// A route to as many addresses as so many bits tell apart, or fewer, may be that of a node's pods.
const POD_BITS_V4: u8 = 11;
const POD_BITS_V6: u8 = 72;

/// How answers to the virtual IPs of each segment come back, by its interface and family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaysBack(BTreeMap<(String, Family), WayBack>);

/// How answers of backends come back to a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum WayBack {
    /// It was not looked yet.
    #[default]
    NotLooked,
    /// By the LAN, but for those from these ranges.
    Arrives(Vec<Astray>),
    /// Pods are reached by a tunnel beyond which nobody can be asked.
    Overlay {
        /// The device.
        interface: String,
    },
    /// Pods are reached by tunnels, and no answer is known to arrive.
    Lost {
        /// Which answers do not, or what nobody answered.
        why: String,
    },
    /// It cannot be seen.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// Where backends are whose answers do not arrive, or are not known to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Astray {
    pub(crate) range: IpNet,
    /// By which they are reached.
    interface: String,
    cause: Cause,
}

/// Why an answer does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// Its node answers, but that does not arrive by the LAN, where this node's filter drops it.
    FilterHere,
    /// Likewise, and what drops it is there, or on the LAN.
    Elsewhere,
    /// Its node answers nothing.
    Silence,
    /// Whose node cannot be asked.
    NobodyToAsk,
}

/// What is looked at: the segment, and the node as it is.
struct View<'a> {
    /// The segment's interface.
    interface: &'a str,
    family: Family,
    /// From which its hosts are asked.
    own: Option<IpAddr>,
    links: &'a [LinkKind],
    routes: &'a [HostRoute],
}

impl WaysBack {
    /// That of a virtual router's segment.
    pub(crate) fn of(&self, assignment: &Assignment) -> &WayBack {
        self.0.get(&segment(assignment)).unwrap_or(&WayBack::NotLooked)
    }
}

/// The segment of a virtual router.
fn segment(assignment: &Assignment) -> (String, Family) {
    (assignment.interface.clone(), Family::of(assignment.source))
}

impl View<'_> {
    /// The hosts to ask: those that take packets on by other interfaces than the segment's, and are on the link there.
    fn hosts(&self) -> impl Iterator<Item = IpAddr> {
        self.ways_elsewhere().filter_map(|(route, _)| askable(route))
    }

    /// Routes that may lead to pods by other interfaces than the segment's, and whether that is a tunnel.
    fn ways_elsewhere(&self) -> impl Iterator<Item = (&HostRoute, bool)> {
        let elsewhere = self.routes.iter().filter(|route| {
            Family::of(route.destination.network()) == self.family && route.interface != self.interface
        });
        let with_kind = elsewhere.map(|route| (route, self.is_tunnel(&route.interface)));
        with_kind.filter(|(route, is_tunnel)| *is_tunnel || (is_narrow(route) && askable(route).is_some()))
    }

    /// Whether this node drops what comes by the segment's interface from who is reached by another.
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

    /// How answers come back.
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
                // What is no tunnel comes back as ever, as long as nothing else is known.
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
    /// Where nobody has answered.
    pub(super) fn silent(range: &str, interface: &str) -> Self {
        let range = range.parse().expect("a range");
        Self { range, interface: interface.to_owned(), cause: Cause::Silence }
    }
}

/// Who takes packets on that go by this route, if that host is on the link there and has an address that counts beyond it.
fn askable(route: &HostRoute) -> Option<IpAddr> {
    let family = Family::of(route.destination.network());
    route.gateway.filter(|gateway| match gateway {
        IpAddr::V4(_) => route.is_direct && family == Family::V4,
        IpAddr::V6(gateway) => route.is_direct && family == Family::V6 && !gateway.is_unicast_link_local(),
    })
}

/// Whether so few addresses are beyond it as a node has pods.
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
