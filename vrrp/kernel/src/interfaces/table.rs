//! The table of interfaces: built from a dump, kept by changes. Pure but for [`Interfaces::dump`].

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::AddressFlags;

use super::{InterfaceInfo, OWN_ALIAS, Unusable};
use crate::netlink::{Address, Change, Link, NetlinkError, RouteSocket};
use crate::tag::AddressTag;

#[cfg(test)]
mod tests;

/// Interfaces by index, and their addresses. The last word on each interface and address counts, and the two are apart:
/// it makes no difference which of them is heard of first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interfaces {
    links: BTreeMap<u32, Link>,
    /// The kernel's order: see [`rank`].
    ipv4: BTreeMap<u32, Vec<V4>>,
    ipv6: BTreeMap<u32, BTreeMap<Ipv6Addr, V6>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct V4 {
    address: Ipv4Addr,
    prefix: u8,
    /// The same address may be there once for each prefix length and far end.
    peer: IpAddr,
    secondary: bool,
    scope: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct V6 {
    prefix: u8,
    unusable: Option<Unusable>,
    /// No longer preferred, or temporary (RFC 8981): it will not last.
    transient: bool,
}

impl Interfaces {
    /// Dumps everything from the kernel. Also returns true if the kernel guarantees that nothing changed meanwhile.
    pub(crate) fn dump(route: &mut RouteSocket) -> Result<(Self, bool), NetlinkError> {
        let links = route.links()?;
        let addresses = route.addresses(AddressFamily::Unspec)?;
        let consistent = links.consistent && addresses.consistent;
        let links = links.entries.into_iter().map(Change::Link);
        let addresses = addresses.entries.into_iter().map(Change::Address);
        Ok((links.chain(addresses).collect(), consistent))
    }

    /// Applies a change; returns true if it makes a difference to what this table returns.
    pub(crate) fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Link(link) => {
                if self.links.get(&link.index) == Some(&link) {
                    return false;
                }
                self.links.insert(link.index, link);
                true
            }
            Change::LinkGone(index) => {
                let addresses = self.ipv4.remove(&index).is_some() | self.ipv6.remove(&index).is_some();
                self.links.remove(&index).is_some() | addresses
            }
            // One that the engine binds comes and goes with the Active state: no source of adverts, not the node's.
            Change::Address(address) if AddressTag::is_engine_tag(address.protocol) => self.remove(&address),
            Change::Address(address) => self.add(&address),
            Change::AddressGone(address) => self.remove(&address),
        }
    }

    /// The interface of this name; `None` if there is none, or it is no Ethernet interface, or the engine's own.
    pub fn get(&self, name: &str) -> Option<InterfaceInfo> {
        self.links.values().find(|link| link.name == name).and_then(|link| self.info(link))
    }

    /// All Ethernet interfaces but the engine's own, by name.
    pub(crate) fn all(&self) -> Vec<InterfaceInfo> {
        let mut all: Vec<_> = self.links.values().filter_map(|link| self.info(link)).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Every address but those that another host has, with the name of its interface; without the engine's own.
    pub(crate) fn addresses(&self) -> Vec<(String, IpAddr)> {
        let of = |link: &Link| {
            let v4 = self.ipv4.get(&link.index).into_iter().flatten().map(|entry| IpAddr::V4(entry.address));
            let v6 = self.ipv6.get(&link.index).into_iter().flatten();
            let v6 = v6
                .filter(|(_, entry)| entry.unusable != Some(Unusable::Duplicate))
                .map(|(address, _)| IpAddr::V6(*address));
            v4.chain(v6).map(|address| (link.name.clone(), address)).collect::<Vec<_>>()
        };
        self.links.values().filter(|link| !is_own(link)).flat_map(of).collect()
    }

    fn info(&self, link: &Link) -> Option<InterfaceInfo> {
        if !link.ethernet || is_own(link) {
            return None;
        }
        let mac = link.mac?;
        let ipv4 = self.ipv4.get(&link.index).into_iter().flatten();
        let ipv6 = || self.ipv6.get(&link.index).into_iter().flatten();
        let usable = |transient| {
            let usable =
                ipv6().filter(move |(_, entry)| entry.unusable.is_none() && entry.transient == transient);
            usable.map(|(address, entry)| (*address, entry.prefix))
        };
        Some(InterfaceInfo {
            name: link.name.clone(),
            index: link.index,
            mac,
            mtu: link.mtu,
            ipv4: ipv4.map(|entry| (entry.address, entry.prefix)).collect(),
            ipv6: usable(false).chain(usable(true)).collect(),
            ipv6_lasting: usable(false).count(),
            ipv6_unusable: ipv6()
                .filter_map(|(address, entry)| entry.unusable.map(|unusable| (*address, unusable)))
                .collect(),
            carrier: link.running,
            up: link.up,
            isolated: self.is_isolated(link),
            hardware: matches!(link.kind.as_deref(), None | Some("vlan" | "bond")),
        })
    }

    fn is_isolated(&self, link: &Link) -> bool {
        // One end of a pair that was renamed may be the way out of a host that is a container itself.
        let is_inner = |port: &Link| match port.kind.as_deref() {
            Some("veth") => port.name.starts_with("veth"),
            kind => kind == Some("tun"),
        };
        let mut ports = self.links.values().filter(|port| port.master == Some(link.index));
        link.kind.as_deref() == Some("bridge") && ports.all(is_inner)
    }

    fn add(&mut self, told: &Address) -> bool {
        match told.ip {
            IpAddr::V4(address) => {
                let entry = V4 {
                    address,
                    prefix: told.prefix,
                    peer: told.peer,
                    secondary: told.flags.contains(AddressFlags::Secondary),
                    scope: told.scope,
                };
                let list = self.ipv4.entry(told.index).or_default();
                if list.contains(&entry) {
                    return false;
                }
                // One that became primary or secondary goes to the end of those, as in the kernel.
                list.retain(|other| !same(other, &entry));
                let after = list.partition_point(|other| rank(other) <= rank(&entry));
                list.insert(after, entry);
                true
            }
            IpAddr::V6(address) => {
                let entry = V6 {
                    prefix: told.prefix,
                    unusable: unusable(told.flags),
                    // In IPv6 the flag of a secondary address means a temporary one (IFA_F_TEMPORARY).
                    transient: told.flags.intersects(AddressFlags::Secondary | AddressFlags::Deprecated),
                };
                let addresses = self.ipv6.entry(told.index).or_default();
                addresses.insert(address, entry) != Some(entry)
            }
        }
    }

    fn remove(&mut self, told: &Address) -> bool {
        match told.ip {
            IpAddr::V4(address) => {
                let Some(list) = self.ipv4.get_mut(&told.index) else { return false };
                let before = list.len();
                list.retain(|entry| {
                    (entry.address, entry.prefix, entry.peer) != (address, told.prefix, told.peer)
                });
                let removed = list.len() < before;
                if list.is_empty() {
                    self.ipv4.remove(&told.index);
                }
                removed
            }
            IpAddr::V6(address) => {
                let Some(addresses) = self.ipv6.get_mut(&told.index) else { return false };
                let removed = addresses.remove(&address).is_some();
                if addresses.is_empty() {
                    self.ipv6.remove(&told.index);
                }
                removed
            }
        }
    }
}

impl FromIterator<Change> for Interfaces {
    fn from_iter<I: IntoIterator<Item = Change>>(changes: I) -> Self {
        let mut table = Self::default();
        for change in changes {
            table.apply(change);
        }
        table
    }
}

/// The kernel keeps primary addresses before secondary ones, and among the primary ones those of narrower scope first.
fn rank(entry: &V4) -> (bool, Reverse<u8>) {
    (entry.secondary, Reverse(if entry.secondary { 0 } else { entry.scope }))
}

fn same(one: &V4, other: &V4) -> bool {
    (one.address, one.prefix, one.peer) == (other.address, other.prefix, other.peer)
}

/// Made by the engine.
pub(super) fn is_own(link: &Link) -> bool {
    let alias = link.alias.as_deref().unwrap_or_default();
    link.kind.as_deref() == Some("macvlan") && alias.starts_with(OWN_ALIAS)
}

/// Returns the reason why an IPv6 address with these flags cannot be used. An optimistic one can, while it is tentative (RFC 4429).
fn unusable(flags: AddressFlags) -> Option<Unusable> {
    if flags.contains(AddressFlags::Dadfailed) {
        Some(Unusable::Duplicate)
    } else if flags.contains(AddressFlags::Tentative) && !flags.contains(AddressFlags::Optimistic) {
        Some(Unusable::Tentative)
    } else {
        None
    }
}
