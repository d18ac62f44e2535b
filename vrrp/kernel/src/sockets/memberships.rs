//! Detects sockets that have lost the membership of a group that they joined.
//!
//! The kernel drops the memberships of an interface that loses a protocol, as IPv6 when its MTU falls below 1,280 bytes, and of one
//! that is deleted. It sends no notice: a socket that joined before never receives from a group again, although its interface works,
//! and a router on it would become a second Active. The sockets themselves do not know it either: closing one ends a membership of
//! the interface as it is then, possibly another socket's.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[cfg(test)]
mod tests;

/// The groups that the interfaces of a network namespace are in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memberships(BTreeSet<(u32, IpAddr)>);

impl Memberships {
    /// Reads them from the kernel, in the network namespace of the calling thread. Groups that it does not report are missing.
    pub fn read() -> Self {
        // Not /proc/net: that is the process's first thread's.
        let text = |file: &str| read(&format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        Self(v4(&text("igmp")).chain(v6(&text("igmp6"))).collect())
    }

    /// Returns true if the interface with this index is in the group.
    pub fn contains(&self, index: u32, group: IpAddr) -> bool {
        self.0.contains(&(index, group))
    }
}

/// Reads in as few pieces as the kernel lets.
fn read(file: &str) -> io::Result<String> {
    let mut text = String::with_capacity(1 << 16);
    fs::File::open(file)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Lines of interfaces that begin with the index, each followed by indented lines of groups.
fn v4(text: &str) -> impl Iterator<Item = (u32, IpAddr)> + '_ {
    let mut index = None;
    text.lines().filter_map(move |line| {
        let word = line.split_whitespace().next()?;
        if !line.starts_with(char::is_whitespace) {
            index = word.parse().ok();
            return None;
        }
        // The number as it lies in memory.
        let address = u32::from_str_radix(word, 16).ok()?;
        Some((index?, IpAddr::from(Ipv4Addr::from(address.to_ne_bytes()))))
    })
}

/// Index, name, group.
fn v6(text: &str) -> impl Iterator<Item = (u32, IpAddr)> + '_ {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let index = words.next()?.parse().ok()?;
        let address = u128::from_str_radix(words.nth(1)?, 16).ok()?;
        Some((index, IpAddr::from(Ipv6Addr::from(address))))
    })
}
