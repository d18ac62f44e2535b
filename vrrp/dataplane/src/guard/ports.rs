//! Ports that the owners of a VIP have: a packet for another port is refused before a proxy can give it to a Service that named the
//! VIP without owning it (CVE-2020-8554). Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_kernel::netfilter::element::{Element, with_port, with_protocol};
use windlass_kernel::port::Protocol;
use windlass_vrrp::Family;

use crate::restriction::Restrictions;

#[cfg(test)]
mod tests;

/// Protocols with ports: a proxy knows no others.
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// The VIPs whose ports are known, with each protocol that has ports: those of `one` that `other` does not have.
pub(super) fn owned(family: Family, one: &Restrictions, other: &Restrictions) -> BTreeSet<Element> {
    let new =
        one.ports().keys().filter(|vip| Family::of(**vip) == family && !other.ports().contains_key(vip));
    new.flat_map(|vip| PROTOCOLS.map(|protocol| Element::of(with_protocol(*vip, protocol.number()))))
        .collect()
}

/// The ports of those VIPs: those of `one` that `other` does not have. Of thousands of addresses few change at a time.
pub(super) fn ports(family: Family, one: &Restrictions, other: &Restrictions) -> BTreeSet<Element> {
    ports_of(family, one, other, |_, _| true)
}

/// The ports of VIPs to which any client may send, and whose connections go on: those of `one` that `other` does not have.
pub(super) fn open(family: Family, one: &Restrictions, other: &Restrictions) -> BTreeSet<Element> {
    ports_of(family, one, other, Restrictions::is_open)
}

/// The ports of VIPs that `counts`: those of `one` that `other` does not have.
fn ports_of(
    family: Family,
    one: &Restrictions,
    other: &Restrictions,
    counts: fn(&Restrictions, IpAddr) -> bool,
) -> BTreeSet<Element> {
    let vips = one.ports().iter().filter(|(vip, _)| Family::of(**vip) == family && counts(one, **vip));
    let known = |vip: &IpAddr| other.ports().get(vip).filter(|_| counts(other, *vip));
    let changed =
        vips.map(|(vip, ports)| (vip, ports, known(vip))).filter(|(_, ports, known)| *known != Some(*ports));
    changed
        .flat_map(|(vip, ports, known)| {
            let new = ports.iter().filter(move |port| known.is_none_or(|known| !known.contains(port)));
            new.map(|port| Element::of(with_port(*vip, *port)))
        })
        .collect()
}
