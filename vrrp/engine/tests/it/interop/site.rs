//! A LAN whose hosts have known IPv6 addresses too, usable at once.

use std::fs;
use std::net::Ipv6Addr;

use crate::lab::{Host, Lan};

/// Link-local address of `eth0` of the host with this index.
pub(crate) fn link_local(host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::try_from(2 * (host + 1)).unwrap())
}

/// Link-local address of FRR's macvlan device on that host: between the host's and the next host's, so that the order of
/// the sources is the order of the hosts.
pub(crate) fn macvlan_link_local(host: usize) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(link_local(host)) + 1)
}

/// A LAN of this many hosts. The last one only looks and asks.
pub(crate) fn lan(hosts: usize) -> Lan {
    let lan = Lan::new(hosts);
    for (n, host) in lan.hosts.iter().enumerate() {
        // Without duplicate address detection: an address in doubt cannot be sent from.
        host.ip("link set eth0 addrgenmode none");
        host.ip("-6 addr flush dev eth0");
        host.ip(&format!("addr add {}/64 dev eth0 nodad", link_local(n)));
        host.ip(&format!("addr add 2001:db8::{}/64 dev eth0 nodad", n + 1));
    }
    lan
}

/// Sets a kernel parameter of the host, as `net/ipv4/conf/all/arp_ignore`.
pub(crate) fn sysctl(host: &Host, name: &str, value: &str) {
    let (path, value) = (format!("/proc/sys/{name}"), value.to_owned());
    host.run(move || fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}")));
}
