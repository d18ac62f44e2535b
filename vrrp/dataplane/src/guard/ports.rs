//! Ports that the owners of a VIP have: a packet for another port is refused before a proxy can give it to a Service that named the
//! VIP without owning it (CVE-2020-8554). Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_kernel::netfilter::element::{Element, with_port, with_protocol};
use windlass_kernel::port::Protocol;

use crate::restriction::Restrictions;

#[cfg(test)]
mod tests;

/// Protocols with ports: a proxy knows no others.
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// The VIPs of these whose ports are known, with each protocol that has ports: those of `one` that `other` does not have.
pub(super) fn owned(
    vips: impl Iterator<Item = IpAddr>,
    one: &Restrictions,
    other: &Restrictions,
) -> BTreeSet<Element> {
    let new = vips.filter(|vip| one.ports().contains_key(vip) && !other.ports().contains_key(vip));
    new.flat_map(|vip| PROTOCOLS.map(|protocol| Element::of(with_protocol(vip, protocol.number())))).collect()
}

/// The ports of these VIPs: those of `one` that `other` does not have.
pub(super) fn ports(
    vips: impl Iterator<Item = IpAddr>,
    one: &Restrictions,
    other: &Restrictions,
) -> BTreeSet<Element> {
    ports_of(vips, one, other, |_, _| true)
}

/// The ports of those of these VIPs to which any client may send, and whose connections go on: those of `one` that `other` does not have.
pub(super) fn open(
    vips: impl Iterator<Item = IpAddr>,
    one: &Restrictions,
    other: &Restrictions,
) -> BTreeSet<Element> {
    ports_of(vips, one, other, Restrictions::is_open)
}

/// The ports of those of these VIPs that `counts`: those of `one` that `other` does not have.
fn ports_of(
    vips: impl Iterator<Item = IpAddr>,
    one: &Restrictions,
    other: &Restrictions,
    counts: fn(&Restrictions, IpAddr) -> bool,
) -> BTreeSet<Element> {
    let of = |restrictions: &Restrictions, vip: IpAddr| {
        restrictions.ports().get(&vip).filter(|_| counts(restrictions, vip)).cloned().unwrap_or_default()
    };
    vips.flat_map(|vip| {
        let (new, known) = (of(one, vip), of(other, vip));
        new.into_iter()
            .filter(move |port| !known.contains(port))
            .map(move |port| Element::of(with_port(vip, port)))
    })
    .collect()
}
