//! Connections that are over for the client without this node's knowledge: the node was cut off, and another reset them. While the
//! kernel knows one, it takes packets of another connection from the same port for invalid. The first such packet reveals it: none
//! that fits has come since this node has had the VIP.
//!
//! An entry whose windows the kernel does not judge stays: a packet of another connection fits it, so one that does not is forged.
//! Replicas from another node are such entries, and connections that the kernel met midway. Of the others, any sender that can use a
//! client's address and guesses its port can end one that is idle; the set of strays bounds how many (`docs/dev/threats.md`).

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use windlass_kernel::netfilter::attributes::{self, Attributes};
use windlass_kernel::netfilter::contents::of_set;
use windlass_kernel::netfilter::element;
use windlass_kernel::netfilter::message::Operation;

use super::set::{Kind, ends};
use super::{Guard, GuardError};

#[cfg(test)]
mod tests;

const TUPLE: u16 = 1;
const PROTOCOL_INFO: u16 = 4;
const TCP_INFO: u16 = 1;
/// Attributes of a TCP entry: the flags of either direction.
const FLAGS: [u16; 2] = [4, 5];
/// Flag of a direction whose window is not judged.
const BE_LIBERAL: u8 = 8;
const EXPIRES_IN: u16 = 7;
const ID: u16 = 12;
/// Prefix of the settings with the time for which the kernel knows a TCP connection after its last packet, in seconds, by its kind.
const LIMITS: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_";
const LIMIT_NAMES: [&str; 7] =
    ["established", "unacknowledged", "max_retrans", "fin_wait", "close_wait", "syn_recv", "syn_sent"];
const TUPLE_ADDRESSES: u16 = 1;
const DESTINATION_V4: u16 = 2;
const DESTINATION_V6: u16 = 4;
const NESTED: u16 = 0x8000;

impl Guard {
    /// Removes connections to these VIPs from the kernel of which a packet came that does not fit, and none that fits for as long
    /// as this node has had the VIP: they are over, and the packet is of another, which began on another node. Returns how many.
    pub fn forget_strays(&mut self, had_for: &BTreeMap<IpAddr, Duration>) -> Result<usize, GuardError> {
        let mut limits = None;
        let mut forgotten = 0;
        for strays in Kind::Strays.sets() {
            let about = of_set(self.table.name(), strays.name());
            let listed = self.table.ask(Operation::GetElements, &about)?;
            let listed: Vec<_> = listed.iter().flatten().flat_map(|answer| element::read(answer)).collect();
            for ends in listed.iter().filter_map(|element| ends(element, strays.family)) {
                let [_, (vip, _)] = ends;
                let Some(had_for) = had_for.get(&vip) else { continue };
                let named = between(ends);
                let Some(known) = self.table.ask(Operation::GetConnection(family(vip)), &named)? else {
                    continue;
                };
                let Some(known) = known.first() else { continue };
                if !judges_windows(known) {
                    continue;
                }
                let expires_in = attributes::find_number(known, EXPIRES_IN);
                let limits = limits.get_or_insert_with(limits_of_kernel);
                if expires_in
                    .and_then(|left| silent_for(left, limits))
                    .is_some_and(|silent| silent >= *had_for)
                {
                    self.forget_this(family(vip), known)?;
                    forgotten = usize::saturating_add(forgotten, 1);
                }
            }
        }
        Ok(forgotten)
    }

    /// Removes the connection that the kernel listed with this entry, and no other.
    fn forget_this(&mut self, family: u8, entry: &[u8]) -> Result<(), GuardError> {
        let Some(named) = this(entry) else { return Ok(()) };
        self.table.ask(Operation::DeleteConnection(family), &named)?;
        Ok(())
    }
}

/// Returns true if the kernel takes a packet beyond the windows that it saw for invalid, one way at least.
fn judges_windows(entry: &[u8]) -> bool {
    let tcp = attributes::find(entry, PROTOCOL_INFO).and_then(|info| attributes::find(info, TCP_INFO));
    FLAGS.into_iter().any(|way| {
        let flags = tcp.and_then(|tcp| attributes::find(tcp, way)).and_then(|flags| flags.first());
        flags.is_none_or(|flags| flags & BE_LIBERAL == 0)
    })
}

fn limits_of_kernel() -> Vec<u32> {
    let limit = |name: &&str| fs::read_to_string(format!("{LIMITS}{name}")).ok()?.trim().parse().ok();
    LIMIT_NAMES.iter().filter_map(limit).collect()
}

/// Returns the least time since the last packet of a connection that expires in so many seconds, if it expires one of `limits`
/// after that packet.
fn silent_for(expires_in: u32, limits: &[u32]) -> Option<Duration> {
    // By the shortest of the limits: the result is never too long. The kernel reports whole seconds.
    let limit = limits.iter().filter(|limit| **limit > expires_in).min()?;
    Some(Duration::from_secs(limit.saturating_sub(expires_in).saturating_sub(1).into()))
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

/// Names a connection that the kernel listed, by its ends and its number: by the ends alone, it would also be the next one from the
/// same port, which may have begun since.
fn this(entry: &[u8]) -> Option<Attributes> {
    let (tuple, id) = (attributes::find(entry, TUPLE)?, attributes::find(entry, ID)?);
    Some(Attributes::new().bytes(TUPLE | NESTED, tuple).bytes(ID, id))
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 2,
        IpAddr::V6(_) => 10,
    }
}
