//! Routes that BGP routers get: decided by settings, checks and the node's addresses. Pure.
//!
//! | standing | node | route |
//! |---|---|---|
//! | good | its checks pass | as configured |
//! | degraded | a check fails, or passes and has failed again and again | longer AS path, LOCAL_PREF 0, GRACEFUL_SHUTDOWN |
//! | withheld | it cannot serve the address whatever its programs do | none |
//!
//! If all nodes are degraded, routers use all of them: failing checks never withdraw the address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use windlass_engine::bgp::session::Config;
use windlass_engine::bgp::{Family, Prefix, RouterId};
use windlass_engine::{Endpoint, HostAddresses, Md5Key, PeerConfig, Routes, Speaker};

use super::election::{self, LostPriority};
use super::settings::{BgpSettings, PeerSettings, VipSettings};

#[cfg(test)]
mod tests;

/// Rank of a node among those that announce an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is announced to no router.
    Withheld,
    /// It is announced so that routers prefer every good node.
    Degraded,
    /// It is announced as configured.
    Good,
}

/// Returns the standing of a node; `can_serve`: it has a place to serve the address at.
pub(super) fn standing(can_serve: bool, lost: LostPriority) -> Standing {
    match (can_serve, election::is_fit(lost)) {
        (false, _) => Standing::Withheld,
        (true, false) => Standing::Degraded,
        (true, true) => Standing::Good,
    }
}

/// Returns why no router has the route of an address, though sessions are Established; `families`: those of each such session.
pub(super) fn untaken<'a>(
    address: IpAddr,
    mut families: impl Iterator<Item = &'a BTreeSet<Family>>,
) -> Option<String> {
    let (family, name) = match address {
        IpAddr::V4(_) => (Family::V4, "IPv4"),
        IpAddr::V6(_) => (Family::V6, "IPv6"),
    };
    let first = families.next()?;
    if first.contains(&family) || families.any(|families| families.contains(&family)) {
        return None;
    }
    Some(format!(
        "no BGP router takes {name} routes: activate the {name} unicast family for this neighbour on one"
    ))
}

/// Returns the peers and the routes of each. A peer whose password is not known yet is left out.
pub(super) fn speaker<'a>(
    bgp: &BgpSettings,
    router_id: RouterId,
    passwords: &BTreeMap<PathBuf, Md5Key>,
    vips: impl Iterator<Item = (&'a VipSettings, Standing)>,
) -> Speaker {
    let route = |(vip, standing): (&VipSettings, Standing)| {
        let attributes = vip.route.as_ref()?;
        let attributes = match standing {
            Standing::Withheld => return None,
            Standing::Degraded => attributes.degraded(),
            Standing::Good => attributes.clone(),
        };
        Some((Prefix::try_from(vip.address).ok()?, Arc::new(attributes)))
    };
    let routes: Arc<Routes> = Arc::new(vips.filter_map(route).collect());
    let config = |peer: &PeerSettings| {
        let password = match &peer.password_file {
            Some(file) => Some(passwords.get(file)?.clone()),
            None => None,
        };
        Some((peer.name(), config(bgp, router_id, peer, password)))
    };
    let peers: BTreeMap<String, PeerConfig> = bgp.peers.iter().filter_map(config).collect();
    let routes = peers.keys().map(|name| (name.clone(), Arc::clone(&routes))).collect();
    Speaker { peers, routes }
}

fn config(
    bgp: &BgpSettings,
    router_id: RouterId,
    peer: &PeerSettings,
    password: Option<Md5Key>,
) -> PeerConfig {
    let is_v6 = match &peer.endpoint {
        Endpoint::Address { address, .. } => address.is_ipv6(),
        Endpoint::Gateway(family) => *family == Family::V6,
    };
    let session = Config {
        local_as: bgp.local_as,
        router_id,
        expected_as: peer.expected_as,
        // Both, so that the first address of a family drops no session.
        families: BTreeSet::from(Family::ALL),
        hold_time: peer.hold_time,
        keepalive: peer.keepalive,
        extended_next_hop: is_v6,
    };
    PeerConfig {
        port: peer.port,
        source: peer.source,
        password,
        minimum_ttl: peer.minimum_ttl,
        bfd: peer.bfd,
        next_hops: peer.next_hops,
        ..PeerConfig::new(session, peer.endpoint.clone())
    }
}

/// Returns the BGP Identifier that follows from the node's addresses: an IPv4 address of it, that of the default route first, or else a
/// hash of an IPv6 address, as a number that old routers accept. `None`: the node has no address yet.
pub(super) fn router_id(machine: &HostAddresses, virtual_ips: &BTreeSet<IpAddr>) -> Option<RouterId> {
    let v4 = |address: &IpAddr| if let IpAddr::V4(v4) = address { Some(*v4) } else { None };
    let v6 = |address: &IpAddr| if let IpAddr::V6(v6) = address { Some(*v6) } else { None };
    let of_interfaces = machine.interfaces.iter().flat_map(|interface| {
        let v4 = interface.ipv4.iter().map(|(address, _)| IpAddr::V4(*address));
        let v6 = interface.ipv6.iter().take(interface.ipv6_lasting).map(|(address, _)| IpAddr::V6(*address));
        v4.chain(v6)
    });
    let all: Vec<IpAddr> = machine.sources.iter().copied().chain(of_interfaces).collect();
    let own = || all.iter().filter(|address| !virtual_ips.contains(address));
    let address = own().find_map(v4).or_else(|| {
        let [first, rest @ ..] = crc32fast::hash(&own().find_map(v6)?.octets()).to_be_bytes();
        // 1 to 126: neither loopback nor multicast.
        Some(Ipv4Addr::from([1 + first % 126, rest[0], rest[1], rest[2]]))
    })?;
    RouterId::new(address).ok()
}
