//! Ports of VIPs, and the sources that may send to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use windlass_kernel::port::ProtocolPort;

#[cfg(test)]
mod tests;

/// The restricted ports of VIPs, the sources that may send to them, and the owners of the VIPs. Any client may send to a port that
/// is not named here, except to other ports of VIPs whose ports are known: none may send to those.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restrictions {
    sources: BTreeMap<IpAddr, BTreeMap<ProtocolPort, Arc<[IpNet]>>>,
    ports: BTreeMap<IpAddr, BTreeSet<ProtocolPort>>,
    owners: BTreeMap<IpAddr, BTreeSet<u64>>,
    ended: BTreeSet<IpAddr>,
    routed: BTreeSet<IpAddr>,
    passes_untranslated: bool,
    masquerade_mark: Option<u32>,
}

impl Restrictions {
    /// kube-proxy's mark for what it masquerades, by default (`masqueradeBit: 14`).
    pub const MASQUERADE_MARK: u32 = 1 << 14;

    /// Lets only these sources send to these ports; none at all where there are none. Ranges of another family than the address are
    /// passed over. A port that was restricted before keeps only the sources that both calls permit. Ports that are restricted
    /// together have their ranges together in memory.
    pub fn restrict(
        &mut self,
        address: IpAddr,
        ports: impl IntoIterator<Item = ProtocolPort>,
        sources: impl IntoIterator<Item = IpNet>,
    ) {
        let of_family = |range: &IpNet| range.addr().is_ipv4() == address.is_ipv4();
        let sources: Vec<IpNet> = sources.into_iter().filter(of_family).collect();
        let sources: Arc<[IpNet]> = IpNet::aggregate(&sources).into();
        for port in ports {
            let restricted = self.sources.entry(address).or_default();
            let sources = match restricted.get(&port) {
                None => Arc::clone(&sources),
                Some(before) => common(before, &sources).into(),
            };
            restricted.insert(port, sources);
        }
    }

    /// Lets no client send to TCP, UDP and SCTP ports of this address but those given here, in one call or several. An address
    /// whose ports are not known, as without any, is as if it had not been named.
    pub fn only_ports(&mut self, address: IpAddr, ports: impl IntoIterator<Item = ProtocolPort>) {
        let mut ports = ports.into_iter().peekable();
        if ports.peek().is_some() {
            self.ports.entry(address).or_default().extend(ports);
        }
    }

    /// Records the owners of this address, by numbers that the caller gives them, in one call or several; an empty list: it has no owner.
    /// Connections to an address that loses all the owners it had, or gets others in their place, end: see
    /// `Engine::restrict` of the engine. Nothing follows from the owners of an address that is not named here.
    pub fn owned_by(&mut self, address: IpAddr, owners: impl IntoIterator<Item = u64>) {
        self.owners.entry(address).or_default().extend(owners);
    }

    /// Has the guard refuse every packet, of either direction, of connections to this address that NAT rules have translated.
    pub fn end_connections(&mut self, address: IpAddr) {
        self.ended.insert(address);
    }

    /// Has the guard treat this address as a VIP even where no virtual router of the node has it: routers send its packets here.
    pub fn guard_routed(&mut self, address: IpAddr) {
        self.routed.insert(address);
    }

    /// The addresses that are guarded without a virtual router.
    pub fn routed(&self) -> &BTreeSet<IpAddr> {
        &self.routed
    }

    /// Has the guard pass packets for a VIP that were not translated: something else than netfilter takes the packets of Services.
    pub fn pass_untranslated(&mut self) {
        self.passes_untranslated = true;
    }

    pub(crate) fn passes_untranslated(&self) -> bool {
        self.passes_untranslated
    }

    /// Has the guard recognise packets to be masqueraded by this packet mark, rather than by [`Self::MASQUERADE_MARK`].
    pub fn set_masquerade_mark(&mut self, mark: u32) {
        self.masquerade_mark = Some(mark);
    }

    pub(crate) fn masquerade_mark(&self) -> u32 {
        self.masquerade_mark.unwrap_or(Self::MASQUERADE_MARK)
    }

    /// The owners of each address of which they are known.
    pub fn owners(&self) -> &BTreeMap<IpAddr, BTreeSet<u64>> {
        &self.owners
    }

    /// The addresses whose connections end.
    pub fn ended(&self) -> &BTreeSet<IpAddr> {
        &self.ended
    }

    /// Returns true if this client may send to this port of an address.
    pub fn permits(&self, client: IpAddr, address: IpAddr, port: ProtocolPort) -> bool {
        let is_port = self.ports.get(&address).is_none_or(|ports| ports.contains(&port));
        let sources = self.sources.get(&address).and_then(|ports| ports.get(&port));
        is_port && sources.is_none_or(|sources| sources.iter().any(|range| range.contains(&client)))
    }

    /// Returns true if this permits less to this address than `before` did, or may do so.
    pub fn is_narrower_than(&self, before: &Self, address: IpAddr) -> bool {
        let has_fewer_ports = match (before.ports.get(&address), self.ports.get(&address)) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(now)) => !before.is_subset(now),
        };
        let sources = self.sources.get(&address);
        has_fewer_ports || (sources.is_some() && sources != before.sources.get(&address))
    }

    /// The restricted ports of an address.
    pub fn of(&self, address: IpAddr) -> Option<&BTreeMap<ProtocolPort, Arc<[IpNet]>>> {
        self.sources.get(&address)
    }

    /// Returns true if any client may send to this address, and its connections go on.
    pub(crate) fn is_open(&self, address: IpAddr) -> bool {
        !self.sources.contains_key(&address) && !self.ended.contains(&address)
    }

    /// The ports of each address whose ports are known.
    pub(crate) fn ports(&self) -> &BTreeMap<IpAddr, BTreeSet<ProtocolPort>> {
        &self.ports
    }

    /// Returns true if the ports of another address than these are known.
    pub fn has_ports_of_others_than(&self, addresses: &BTreeSet<IpAddr>) -> bool {
        let mut addresses = addresses.iter();
        self.ports.keys().any(|one| !addresses.by_ref().any(|address| address == one))
    }

    /// Returns a copy without the ports of other addresses than these.
    #[must_use]
    pub fn with_ports_only_of(&self, addresses: &BTreeSet<IpAddr>) -> Self {
        let mut left = self.clone();
        left.ports.retain(|address, _| addresses.contains(address));
        left
    }

    /// Returns true if both have the same sources for restricted ports.
    pub(crate) fn has_sources_of(&self, other: &Self) -> bool {
        self.sources == other.sources
    }

    /// Returns true if nothing is restricted.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.ports.is_empty()
    }

    /// Returns every restricted port, with the sources that may send to it.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, ProtocolPort, &Arc<[IpNet]>)> {
        self.sources
            .iter()
            .flat_map(|(address, ports)| ports.iter().map(|(port, sources)| (*address, *port, sources)))
    }

    /// Returns the restricted ports for which `other` has not the same sources, with their sources.
    pub(crate) fn unlike(&self, other: &Self) -> impl Iterator<Item = (IpAddr, ProtocolPort, &Arc<[IpNet]>)> {
        self.iter().filter(|(address, port, sources)| {
            other.of(*address).and_then(|ports| ports.get(port)).is_none_or(|known| known != *sources)
        })
    }

    /// Returns the addresses whose sources or ports differ between the two.
    pub fn differing(&self, other: &Self) -> BTreeSet<IpAddr> {
        unequal(&self.sources, &other.sources).chain(unequal(&self.ports, &other.ports)).collect()
    }

    /// Returns the addresses whose sources, ports or ends differ between the two.
    pub(crate) fn differing_for_the_guard(&self, other: &Self) -> BTreeSet<IpAddr> {
        let mut differing = self.differing(other);
        differing.extend(self.ended.symmetric_difference(&other.ended));
        differing
    }

    /// Returns the addresses whose owners differ between the two.
    pub fn owned_differently(&self, other: &Self) -> impl Iterator<Item = IpAddr> {
        unequal(&self.owners, &other.owners)
    }

    /// Returns these restrictions as far as the change to them from `installed` has at most so many elements of sets: the addresses beyond
    /// are as installed. An address changes as a whole, so the first may have more. `None` if all fit.
    pub(crate) fn first_part_since(&self, installed: &Self, most: usize) -> Option<Self> {
        let differing = installed.differing(self);
        let mut elements: usize = 0;
        let fits = |address: &&IpAddr| {
            let is_first = elements == 0;
            let of_address = [installed, self].map(|one| one.elements(address));
            elements = of_address.into_iter().fold(elements, usize::saturating_add);
            is_first || elements <= most
        };
        let fitting = differing.iter().take_while(fits).count();
        (fitting < differing.len()).then(|| self.as_other_of(installed, differing.iter().skip(fitting)))
    }

    /// Returns the most elements that the guard's sets have for an address: of each port one, of the open ones another, of each range its
    /// edges.
    fn elements(&self, address: &IpAddr) -> usize {
        let sources = self.sources.get(address).into_iter().flat_map(BTreeMap::values);
        let ports = self.ports.get(address).map_or(0, BTreeSet::len).saturating_mul(2);
        sources
            .fold(ports, |sum, ranges| sum.saturating_add(ranges.len().saturating_mul(2)).saturating_add(1))
    }

    /// Returns a copy with the sources and ports of `other` for these addresses.
    #[must_use]
    pub fn as_other_of<'a>(&self, other: &Self, addresses: impl IntoIterator<Item = &'a IpAddr>) -> Self {
        let mut mixed = self.clone();
        for address in addresses {
            replace(&mut mixed.sources, *address, other.sources.get(address));
            replace(&mut mixed.ports, *address, other.ports.get(address));
        }
        mixed
    }
}

/// Returns the addresses that have not the same in both, in their order: among thousands a walk along both takes a fraction of the time of
/// questions for each.
fn unequal<T: PartialEq>(
    some: &BTreeMap<IpAddr, T>,
    others: &BTreeMap<IpAddr, T>,
) -> impl Iterator<Item = IpAddr> {
    let (mut some, mut others) = (some.iter().peekable(), others.iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let first = match (some.peek(), others.peek()) {
                (Some((one, _)), Some((other, _))) => **one.min(other),
                (Some((only, _)), None) | (None, Some((only, _))) => **only,
                (None, None) => return None,
            };
            let one = some.next_if(|(address, _)| **address == first);
            let other = others.next_if(|(address, _)| **address == first);
            if one.map(|(_, value)| value) != other.map(|(_, value)| value) {
                return Some(first);
            }
        }
    })
}

fn replace<T: Clone>(map: &mut BTreeMap<IpAddr, T>, address: IpAddr, by: Option<&T>) {
    match by {
        Some(value) => map.insert(address, value.clone()),
        None => map.remove(&address),
    };
}

/// Returns the common part of the ranges: of two ranges one holds the other, or they have nothing in common.
fn common(some: &[IpNet], others: &[IpNet]) -> Vec<IpNet> {
    let within = |these: &[IpNet], those: &[IpNet]| -> Vec<IpNet> {
        these.iter().copied().filter(|range| those.iter().any(|wide| wide.contains(range))).collect()
    };
    IpNet::aggregate(&[within(some, others), within(others, some)].concat())
}
