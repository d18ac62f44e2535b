//! Link-layer addresses of this node: a claim from one of them is no conflict.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use windlass_vrrp::Time;

use super::frame::Mac;

/// Time for which a list of the node's interfaces is valid. It is read only when a claim looks foreign.
const FRESH: Duration = Duration::from_secs(1);

/// The node's link-layer addresses.
#[derive(Debug, Default)]
pub(super) struct OwnMacs {
    /// Addresses of the interfaces with virtual routers, and of virtual routers.
    engine_macs: BTreeSet<Mac>,
    /// Addresses of all interfaces, as of this instant. One on the same LAN answers for another's address (Linux' `arp_ignore` 0).
    all: Option<(Time, BTreeSet<Mac>)>,
}

impl OwnMacs {
    pub(super) fn set(&mut self, engine_macs: impl Iterator<Item = Mac>) {
        self.engine_macs = engine_macs.collect();
    }

    /// Returns true if it is one of the engine's own. Cheap enough for every packet.
    pub(super) fn is_engine_mac(&self, mac: Mac) -> bool {
        self.engine_macs.contains(&mac)
    }

    /// Returns true if it is any of this node's.
    pub(super) fn contains(&mut self, mac: Mac, now: Time) -> bool {
        if self.is_engine_mac(mac) {
            return true;
        }
        let known = self.all.take().filter(|(at, _)| now.since(*at) < FRESH);
        let (_, all) = self.all.insert(known.unwrap_or_else(|| (now, interfaces())));
        all.contains(&mac)
    }
}

/// All addresses of this node.
pub(super) fn addresses() -> BTreeSet<IpAddr> {
    let Ok(entries) = getifaddrs() else { return BTreeSet::new() };
    let ip = |entry: InterfaceAddress| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    };
    entries.filter_map(ip).collect()
}

fn interfaces() -> BTreeSet<Mac> {
    let Ok(entries) = getifaddrs() else { return BTreeSet::new() };
    let mac = |entry: InterfaceAddress| entry.address?.as_link_addr()?.addr();
    entries.filter_map(mac).filter(|mac| *mac != Mac::default()).collect()
}
