//! Settings of the network by interface: forwarding, reverse-path filter, ARP.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use windlass_common::listing::first_of;
use windlass_node::agent::is_containers;

use super::Host;
use crate::inspect::problems::Problem;

/// The device on which IPVS has the addresses of Services.
const IPVS: &str = "kube-ipvs0";
/// Stands for all interfaces, and for those to come.
const ALL: &str = "all";
const DEFAULT: &str = "default";

/// Settings of an interface, of `all` or of `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inspect::check) struct Settings {
    pub(in crate::inspect::check) forwarding: u8,
    pub(in crate::inspect::check) rp_filter: u8,
    pub(in crate::inspect::check) proxy_arp: u8,
    pub(in crate::inspect::check) arp_ignore: u8,
}

impl Default for Settings {
    /// Nothing is wrong with these.
    fn default() -> Self {
        Self { forwarding: 1, rp_filter: 0, proxy_arp: 0, arp_ignore: 0 }
    }
}

/// Reads the settings below `root`, the kernel's folder of IPv4's.
pub(super) fn read(root: &Path) -> BTreeMap<String, Settings> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| {
        let value = |name: &str, default| {
            let text = fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            text.trim().parse().unwrap_or(default)
        };
        let Settings { forwarding, rp_filter, proxy_arp, arp_ignore } = Settings::default();
        let settings = Settings {
            forwarding: value("forwarding", forwarding),
            rp_filter: value("rp_filter", rp_filter),
            proxy_arp: value("proxy_arp", proxy_arp),
            arp_ignore: value("arp_ignore", arp_ignore),
        };
        (entry.file_name().to_string_lossy().into_owned(), settings)
    };
    entries.map(of).collect()
}

pub(super) fn findings(host: &Host) -> Vec<Problem> {
    let found = [forwarding(host), forwarding_v6(host), strict_filters(host), proxy_arp(host), ipvs(host)];
    found.into_iter().flatten().collect()
}

/// The node's own interfaces of which this is true.
fn interfaces(host: &Host, is: impl Fn(&Settings) -> bool) -> Vec<&String> {
    let is_own = |name: &str| !matches!(name, ALL | DEFAULT | "lo") && !is_containers(name);
    let found = host.settings.iter().filter(|(name, settings)| is_own(name) && is(settings));
    found.map(|(name, _)| name).collect()
}

fn all(host: &Host) -> Settings {
    host.settings.get(ALL).copied().unwrap_or_default()
}

/// Returns a problem if packets that arrive on an interface are not forwarded. `all` only counts for later interfaces, as those of pods.
fn forwarding(host: &Host) -> Option<Problem> {
    let disabled = interfaces(host, |settings| settings.forwarding == 0);
    let (what, setting) = match (all(host).forwarding, disabled[..].first()) {
        (0, _) => ("net.ipv4.ip_forward".to_owned(), "net.ipv4.ip_forward".to_owned()),
        (_, None) => return None,
        (_, Some(first)) => (
            format!("net.ipv4.conf.INTERFACE.forwarding of {}", first_of(disabled.iter(), 3)),
            format!("net/ipv4/conf/{first}/forwarding"),
        ),
    };
    Some(Problem::error("Host", "forwarding", "NotForwarding").says(
        format!(
            "{what} is 0: the kernel drops packets to pods, so a virtual IP on this node does not answer"
        ),
        format!("sysctl -w {setting}=1, and the same in /etc/sysctl.d"),
    ))
}

fn forwarding_v6(host: &Host) -> Option<Problem> {
    (host.ipv6_forwarding == Some(0) && host.addresses.iter().any(is_global_v6)).then(|| {
        Problem::warning("Host", "forwarding", "NotForwarding").says(
            "net.ipv6.conf.all.forwarding is 0: the kernel drops IPv6 packets to pods, so an IPv6 virtual IP on this node does not answer",
            "sysctl -w net.ipv6.conf.all.forwarding=1, and the same in /etc/sysctl.d; nothing, if there are to be no IPv6 addresses",
        )
    })
}

fn is_global_v6(address: &std::net::IpAddr) -> bool {
    match address {
        std::net::IpAddr::V4(_) => false,
        std::net::IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
    }
}

/// Interfaces whose reverse-path filter is strict: the higher of the interface's and of that of all counts.
fn strict_filters(host: &Host) -> Option<Problem> {
    let all = all(host).rp_filter;
    let is_interface = |name: &str| !matches!(name, ALL | DEFAULT | "lo");
    let strict: Vec<&String> = host
        .settings
        .iter()
        .filter(|(name, settings)| is_interface(name) && settings.rp_filter.max(all) == 1)
        .map(|(name, _)| name)
        .collect();
    (!strict.is_empty()).then(|| {
        let message = format!(
            "rp_filter is 1 (strict) on {}: what comes for an address by another interface than answers leave by is dropped, and \
             connections: Replicate does not work across tunnels",
            first_of(strict.iter(), 3)
        );
        Problem::warning("Host", "rp_filter", "StrictFilter")
            .says(message, "set net.ipv4.conf.all.rp_filter=2 (loose) if addresses are on another interface than the default route")
    })
}

/// Interfaces on which the kernel answers ARP for other hosts. CNI plugins set it on interfaces of pods, where it harms nothing.
fn proxy_arp(host: &Host) -> Option<Problem> {
    let (named, setting) = if all(host).proxy_arp == 0 {
        let named = interfaces(host, |settings| settings.proxy_arp != 0);
        let setting = format!("net/ipv4/conf/{}/proxy_arp", named.first()?);
        (first_of(named.iter(), 3), setting)
    } else {
        ("all interfaces".to_owned(), "net.ipv4.conf.all.proxy_arp".to_owned())
    };
    Some(Problem::warning("Host", "proxy_arp", "ProxyARP").says(
        format!(
            "proxy_arp is 1 on {named}: this host answers ARP for each address that it reaches by another interface, also for virtual \
             IPs of other nodes"
        ),
        format!("sysctl -w {setting}=0, and take it out of /etc/sysctl.d"),
    ))
}

/// The host answers ARP for the addresses that IPVS has.
fn ipvs(host: &Host) -> Option<Problem> {
    let ignore = all(host).arp_ignore;
    (host.settings.contains_key(IPVS) && ignore == 0).then(|| {
        Problem::error("Host", "arp_ignore", "StrictARP").says(
            format!("kube-proxy serves by IPVS ({IPVS}), and net.ipv4.conf.all.arp_ignore is {ignore}: this node answers ARP for all addresses"),
            "set ipvs.strictARP: true in the settings of kube-proxy and restart it, or set mode: nftables",
        )
    })
}
