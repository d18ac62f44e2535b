//! Connections that were forwarded: forgotten when they no longer are.
//!
//! As long as the kernel knows one as it was, kube-proxy leaves it alone, and so also a new connection from the same port.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::attributes::{self, Attributes};
use super::message::Operation;
use super::{Guard, GuardError};

#[cfg(test)]
mod tests;

const TUPLE: u16 = 1;
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
            let listed = self.ask(Operation::GetConnections(family), &with_mark)?.unwrap_or_default();
            let is_ours = |entry: &&Vec<u8>| {
                attributes::find_number(entry, MARK) == Some(mark)
                    && destination(entry).is_some_and(|vip| marked.contains(&(vip, mark)))
            };
            for entry in listed.iter().filter(is_ours) {
                if room == 0 {
                    return Ok(true);
                }
                room -= 1;
                let Some(tuple) = attributes::find(entry, TUPLE) else { continue };
                let named = Attributes::new().bytes(TUPLE | NESTED, tuple);
                self.ask(Operation::DeleteConnection(family), &named)?;
            }
        }
        Ok(false)
    }
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
