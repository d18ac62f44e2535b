//! What the kernel's connection tracking is to forget, so that a packet is taken for what it is.
//!
//! As long as the kernel knows a connection that was forwarded, kube-proxy leaves it alone, and so also a new connection from the same
//! port. As long as it knows one that is closed, for two minutes, it takes packets of another connection from the same port, which
//! began on another node, for invalid.
//!
//! So it does as long as it knows one that is over for the client without this node having heard of that: the node was cut off, and
//! another reset it. Such a one is found by the first packet that does not fit: nothing that does has come since the VIP is here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use super::ruleset;
use super::set::Kind;
use super::{Guard, GuardError};
use crate::netfilter::attributes::{self, Attributes};
use crate::netfilter::element;
use crate::netfilter::message::Operation;

#[cfg(test)]
mod tests;

const TUPLE: u16 = 1;
const PROTOCOL_INFO: u16 = 4;
const EXPIRES_IN: u16 = 7;
const ID: u16 = 12;
const FILTER: u16 = 25;
/// By the destination of the first packet alone.
const BY_DESTINATION: u32 = 1 << 1;
/// States of a TCP connection after which nothing comes: LAST_ACK, TIME_WAIT, CLOSE.
const CLOSED: std::ops::RangeInclusive<u8> = 6..=8;
/// For how long the kernel knows a TCP connection after its last packet, in seconds, by what that was.
const LIMITS: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_";
const LIMIT_NAMES: [&str; 7] =
    ["established", "unacknowledged", "max_retrans", "fin_wait", "close_wait", "syn_recv", "syn_sent"];
/// VIPs that are asked about one by one; of more, all connections are listed.
const ONE_BY_ONE: usize = 16;
const TUPLE_ADDRESSES: u16 = 1;
const DESTINATION_V4: u16 = 2;
const DESTINATION_V6: u16 = 4;
const MARK: u16 = 8;
const MARK_MASK: u16 = 21;
const NESTED: u16 = 0x8000;
/// Connections that are forgotten in one call, each by an exchange with the kernel: a few milliseconds.
const AT_ONCE: usize = 512;

impl Guard {
    /// Has the kernel forget connections to these VIPs that have these marks. Whether there are more.
    pub fn forget_connections(&mut self, marked: &BTreeSet<(IpAddr, u32)>) -> Result<bool, GuardError> {
        let kinds: BTreeSet<(u8, u32)> = marked.iter().map(|(vip, mark)| (family(*vip), *mark)).collect();
        let mut room = AT_ONCE;
        for (family, mark) in kinds {
            let with_mark = Attributes::new().number(MARK, mark).number(MARK_MASK, u32::MAX);
            let is_ours = |entry: &[u8]| {
                attributes::find_number(entry, MARK) == Some(mark)
                    && destination(entry).is_some_and(|vip| marked.contains(&(vip, mark)))
            };
            if self.forget(family, &with_mark, is_ours, &mut room)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has the kernel forget closed TCP connections to these VIPs. Whether there are more.
    pub fn forget_closed(&mut self, vips: &BTreeSet<IpAddr>) -> Result<bool, GuardError> {
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = vips.iter().partition(|vip| vip.is_ipv4());
        let all = Attributes::new;
        let mut questions: Vec<(u8, Attributes)> = if v4.len() <= ONE_BY_ONE {
            v4.into_iter().filter_map(|vip| Some((family(vip), to(vip)?))).collect()
        } else {
            v4.first().map(|vip| (family(*vip), all())).into_iter().collect()
        };
        questions.extend(v6.first().map(|vip| (family(*vip), all())));
        let is_closed = |entry: &[u8]| {
            state(entry).is_some_and(|state| CLOSED.contains(&state))
                && destination(entry).is_some_and(|vip| vips.contains(&vip))
        };
        let mut room = AT_ONCE;
        for (family, question) in questions {
            if self.forget(family, &question, is_closed, &mut room)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has the kernel forget connections to these VIPs of which a packet came that does not fit, and of which none that does has come
    /// for as long as this node has had the VIP: they are over, and the packet is of another, which began on another node. How many.
    pub fn forget_strays(&mut self, had_for: &BTreeMap<IpAddr, Duration>) -> Result<usize, GuardError> {
        let mut limits = None;
        let mut forgotten = 0;
        for strays in Kind::Strays.sets() {
            let listed = self.ask(Operation::GetElements, &ruleset::of_set(self.table.name(), strays))?;
            let listed: Vec<_> = listed.iter().flatten().flat_map(|answer| element::read(answer)).collect();
            for ends in listed.iter().filter_map(|element| element.ends(strays.family)) {
                let [_, (vip, _)] = ends;
                let Some(had_for) = had_for.get(&vip) else { continue };
                let named = between(ends);
                let Some(known) = self.ask(Operation::GetConnection(family(vip)), &named)? else { continue };
                let Some(known) = known.first() else { continue };
                let expires_in = attributes::find_number(known, EXPIRES_IN);
                let limits = limits.get_or_insert_with(limits_of_kernel);
                if expires_in
                    .and_then(|left| silent_for(left, limits))
                    .is_some_and(|silent| silent >= *had_for)
                {
                    self.forget_this(family(vip), known)?;
                    forgotten += 1;
                }
            }
        }
        Ok(forgotten)
    }

    /// Forgets those of the connections that the question lists and that `is_over` names, as long as there is room. Whether there
    /// are more.
    fn forget(
        &mut self,
        family: u8,
        question: &Attributes,
        is_over: impl Fn(&[u8]) -> bool,
        room: &mut usize,
    ) -> Result<bool, GuardError> {
        let listed = self.ask(Operation::GetConnections(family), question)?.unwrap_or_default();
        for entry in listed.iter().filter(|entry| is_over(entry)) {
            if *room == 0 {
                return Ok(true);
            }
            *room -= 1;
            self.forget_this(family, entry)?;
        }
        Ok(false)
    }

    /// Forgets the connection that the kernel listed with this entry, and no other.
    fn forget_this(&mut self, family: u8, entry: &[u8]) -> Result<(), GuardError> {
        let Some(named) = this(entry) else { return Ok(()) };
        self.ask(Operation::DeleteConnection(family), &named).map(drop)
    }
}

fn limits_of_kernel() -> Vec<u32> {
    let limit = |name: &&str| fs::read_to_string(format!("{LIMITS}{name}")).ok()?.trim().parse().ok();
    LIMIT_NAMES.iter().filter_map(limit).collect()
}

/// For how long a connection that expires in so many seconds was silent, at least, where it expires so many after its last packet.
fn silent_for(expires_in: u32, limits: &[u32]) -> Option<Duration> {
    // By the shortest of the limits: it was not silent for longer than is told. The kernel tells whole seconds.
    let limit = limits.iter().filter(|limit| **limit > expires_in).min()?;
    Some(Duration::from_secs((limit - expires_in - 1).into()))
}

/// Names the TCP connection that began with a packet between these ends.
fn between([(source, source_port), (destination, port)]: [(IpAddr, u16); 2]) -> Attributes {
    const TCP: u8 = 6;
    let addresses = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Attributes::new().bytes(1, &source.octets()).bytes(DESTINATION_V4, &destination.octets())
        }
        (source, destination) => {
            let [source, destination] = [source, destination].map(|address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            });
            Attributes::new().bytes(3, &source.octets()).bytes(DESTINATION_V6, &destination.octets())
        }
    };
    let ports =
        Attributes::new().bytes(1, &[TCP]).bytes(2, &source_port.to_be_bytes()).bytes(3, &port.to_be_bytes());
    let tuple = Attributes::new().nest(TUPLE_ADDRESSES, &addresses).nest(2, &ports);
    Attributes::new().nest(TUPLE, &tuple)
}

/// A question about connections to this address. There is none for IPv6: Linux (6.18) then lists all but those.
fn to(vip: IpAddr) -> Option<Attributes> {
    let IpAddr::V4(vip) = vip else { return None };
    let addresses = Attributes::new().bytes(DESTINATION_V4, &vip.octets());
    let by = Attributes::new().bytes(1, &BY_DESTINATION.to_ne_bytes()).bytes(2, &0_u32.to_ne_bytes());
    let tuple = Attributes::new().nest(TUPLE_ADDRESSES, &addresses);
    Some(Attributes::new().nest(TUPLE, &tuple).nest(FILTER, &by))
}

/// Names a connection that the kernel listed, by its ends and its number: by the ends alone, it would also be the next one from the
/// same port, which may have begun since.
fn this(entry: &[u8]) -> Option<Attributes> {
    let (tuple, id) = (attributes::find(entry, TUPLE)?, attributes::find(entry, ID)?);
    Some(Attributes::new().bytes(TUPLE | NESTED, tuple).bytes(ID, id))
}

/// The state of a TCP connection, as the kernel numbers it.
fn state(entry: &[u8]) -> Option<u8> {
    let tcp = attributes::find(attributes::find(entry, PROTOCOL_INFO)?, 1)?;
    attributes::find(tcp, 1)?.first().copied()
}

/// Where the first packet of a connection, as the kernel tells it, was sent to.
fn destination(entry: &[u8]) -> Option<IpAddr> {
    let addresses = attributes::find(attributes::find(entry, TUPLE)?, TUPLE_ADDRESSES)?;
    let v4 = || Some(<[u8; 4]>::try_from(attributes::find(addresses, DESTINATION_V4)?).ok()?.into());
    let v6 = || Some(<[u8; 16]>::try_from(attributes::find(addresses, DESTINATION_V6)?).ok()?.into());
    v4().or_else(v6)
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 2,
        IpAddr::V6(_) => 10,
    }
}
