//! Sessions that there are to be, and the next hops of their routes: pure functions of settings, routes and addresses of the host.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use windlass_bgp::Family;
use windlass_bgp::session::NextHops;
use windlass_bgp::wire::NextHopV6;
use windlass_kernel::interfaces::{HostAddresses, HostRoute, InterfaceInfo};

use super::config::{Endpoint, PeerConfig, Speaker};
use super::status::SessionId;

#[cfg(test)]
mod tests;

/// Most sessions of a node: routers of a rack, or route servers.
pub(super) const MOST_SESSIONS: usize = 16;

/// Returns the sessions of these peers, [`MOST_SESSIONS`] at most, and the number of those beyond.
pub(super) fn sessions<'a>(
    speaker: &'a Speaker,
    routes: &[HostRoute],
) -> (BTreeMap<SessionId, &'a PeerConfig>, usize) {
    let mut sessions = BTreeMap::new();
    for (name, peer) in &speaker.peers {
        let id = |address, interface| SessionId { peer: name.clone(), address, interface };
        match &peer.endpoint {
            Endpoint::Address { address, interface } => {
                sessions.insert(id(*address, interface.clone()), peer);
            }
            Endpoint::Gateway(family) => {
                sessions.extend(gateways(routes, *family).map(|(address, via)| (id(address, via), peer)));
            }
        }
    }
    let beyond = sessions.len().saturating_sub(MOST_SESSIONS);
    (sessions.into_iter().take(MOST_SESSIONS).collect(), beyond)
}

/// Gateways of the default routes of a family. A link-local one is known by its interface as well.
fn gateways(routes: &[HostRoute], family: Family) -> impl Iterator<Item = (IpAddr, Option<String>)> {
    let defaults = routes.iter().filter(|route| route.destination.prefix_len() == 0);
    defaults.filter_map(move |route| {
        let gateway = route.gateway.filter(|gateway| gateway.is_ipv4() == (family == Family::V4))?;
        Some((gateway, is_link_local(gateway).then(|| route.interface.clone())))
    })
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Returns the next hops of a connection from `own` to `peer`: the own address, and an address of the same interface for the other family.
/// `previous` ones stay while the host has them, so that a further address changes nothing.
pub(super) fn next_hops(
    own: IpAddr,
    peer: IpAddr,
    interface: Option<&str>,
    host: &HostAddresses,
    previous: Option<NextHops>,
) -> NextHops {
    let has = |info: &&InterfaceInfo, address: IpAddr| info.addresses().any(|own| own == address);
    let named = |info: &&InterfaceInfo| interface.is_none_or(|name| info.name == name);
    let info = host.interfaces.iter().filter(named).find(|info| has(info, own));
    let kept = previous.filter(|previous| {
        let all =
            previous.ipv4.map(IpAddr::V4).into_iter().chain(previous.ipv6.into_iter().flat_map(addresses));
        let is_complete = previous.ipv4.is_some() == info.is_some_and(|info| !info.ipv4.is_empty())
            && previous.ipv6.is_some() == info.is_some_and(|info| lasting(info).next().is_some());
        is_complete && all.into_iter().all(|address| info.is_some_and(|info| has(&info, address)))
    });
    if let Some(kept) = kept {
        return kept;
    }
    let on_link = info.is_some_and(|info| is_on_link(info, peer));
    let link_local = info.and_then(|info| lasting(info).find(Ipv6Addr::is_unicast_link_local));
    let global = info.and_then(|info| lasting(info).find(|own| !own.is_unicast_link_local()));
    match own {
        IpAddr::V4(own) => NextHops { ipv4: Some(own), ipv6: global.map(|global| NextHopV6(global, None)) },
        IpAddr::V6(own) => {
            let ipv4 = info.and_then(|info| info.ipv4.first()).map(|(address, _)| *address);
            let ipv6 = if own.is_unicast_link_local() {
                global.map_or(NextHopV6(own, None), |global| NextHopV6(global, Some(own)))
            } else {
                NextHopV6(own, link_local.filter(|_| on_link))
            };
            NextHops { ipv4, ipv6: Some(ipv6) }
        }
    }
}

/// Returns true if the host has no longer the own address of a connection, or other next hops than these.
pub(super) fn is_displaced(
    own: IpAddr,
    peer: IpAddr,
    interface: Option<&str>,
    host: &HostAddresses,
    used: NextHops,
) -> bool {
    let has_own = host.addresses.iter().any(|(_, address)| *address == own);
    !has_own || next_hops(own, peer, interface, host, Some(used)) != used
}

fn addresses(next_hop: NextHopV6) -> impl Iterator<Item = IpAddr> {
    [Some(next_hop.0), next_hop.1].into_iter().flatten().map(IpAddr::V6)
}

/// IPv6 addresses that are neither temporary nor deprecated.
fn lasting(info: &InterfaceInfo) -> impl Iterator<Item = Ipv6Addr> {
    info.ipv6.iter().take(info.ipv6_lasting).map(|(address, _)| *address)
}

fn is_on_link(info: &InterfaceInfo, peer: IpAddr) -> bool {
    let v4 = info.ipv4.iter().map(|(own, length)| IpNet::new((*own).into(), *length));
    let v6 = info.ipv6.iter().map(|(own, length)| IpNet::new((*own).into(), *length));
    v4.chain(v6).flatten().any(|net| net.contains(&peer))
}
