//! This host: what its kernel has and how it is set, who holds Windlass' ports, and whose adverts arrive.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;

use super::super::problems::Problem;
use super::super::snapshot::Snapshot;
use super::Fact;
use super::adverts::{self, Advert, ip_of};
use crate::listing::first_of;

/// Of `linux/capability.h`, and what is done without: whether nothing works then.
const CAPABILITIES: [(u8, &str, bool); 4] = [
    (12, "CAP_NET_ADMIN", true),
    (13, "CAP_NET_RAW", true),
    (23, "CAP_SYS_NICE", false),
    (14, "CAP_IPC_LOCK", false),
];
/// Of the controller and of the agent.
const PORTS: [u16; 2] = [10258, 9859];
/// A table of connections that is fuller drops connections soon, in percent.
const FULL: u64 = 80;
/// The device on which IPVS has the addresses of Services.
const IPVS: &str = "kube-ipvs0";

/// What the host tells of itself.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Bits of this process.
    pub(super) capabilities: u64,
    /// Why nf_tables does not answer; `None`: it does.
    pub(super) nf_tables: Option<String>,
    /// Tracked connections, and as many as may be; or why that is not told.
    pub(super) tracking: Result<(u32, u32), String>,
    pub(super) has_ipv6: bool,
    /// `rp_filter` and `arp_ignore` of each interface, and of `all`.
    pub(super) settings: BTreeMap<String, Settings>,
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Those of [`PORTS`] on which something listens, and the programs.
    pub(super) ports: Vec<(u16, String)>,
    /// Or why nothing could be heard.
    pub(super) adverts: Result<BTreeSet<Advert>, String>,
    pub(super) listened: Duration,
}

/// Of an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) rp_filter: u8,
    pub(super) arp_ignore: u8,
}

impl Host {
    /// Reads, and listens for so long.
    pub(super) fn read(listened: Duration) -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let status = text("/proc/self/status");
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        let tracking = windlass_engine::connection_tracking();
        let mut settings = BTreeMap::new();
        for entry in fs::read_dir("/proc/sys/net/ipv4/conf").into_iter().flatten().flatten() {
            let of =
                |name: &str| text(&entry.path().join(name).to_string_lossy()).trim().parse().unwrap_or(0);
            let read = Settings { rp_filter: of("rp_filter"), arp_ignore: of("arp_ignore") };
            settings.insert(entry.file_name().to_string_lossy().into_owned(), read);
        }
        let held = getifaddrs().into_iter().flatten().filter_map(|one| ip_of(&one.address?));
        Self {
            capabilities: capabilities.unwrap_or(0),
            nf_tables: windlass_engine::nf_tables().err().map(|error| error.to_string()),
            tracking: tracking.map(|usage| (usage.entries, usage.limit)).map_err(|error| error.to_string()),
            has_ipv6: !text("/proc/net/if_inet6").trim().is_empty(),
            settings,
            addresses: held.collect(),
            ports: listeners(&(text("/proc/net/tcp") + &text("/proc/net/tcp6"))),
            adverts: adverts::listen(listened).map_err(|error| error.to_string()),
            listened,
        }
    }
}

/// Those of [`PORTS`] on which something listens, by the kernel's tables of TCP.
fn listeners(tables: &str) -> Vec<(u16, String)> {
    let found = sockets(tables);
    if found.is_empty() {
        return Vec::new();
    }
    let mut programs: BTreeMap<u64, String> = BTreeMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        for file in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let target = fs::read_link(file.path()).unwrap_or_default();
            let socket =
                target.to_str().and_then(|it| it.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            if let Some(socket) = socket.filter(|socket| found.iter().any(|(_, one)| one == socket)) {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                programs.insert(socket, name.trim().to_owned());
            }
        }
    }
    let named = |(port, socket): (u16, u64)| {
        (
            port,
            programs
                .get(&socket)
                .cloned()
                .unwrap_or_else(|| "a program that is not seen from here".to_owned()),
        )
    };
    let named: BTreeSet<(u16, String)> = found.into_iter().map(named).collect();
    named.into_iter().collect()
}

/// Ports and sockets that listen, of [`PORTS`].
fn sockets(tables: &str) -> Vec<(u16, u64)> {
    const LISTENS: &str = "0A";
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, _, _, socket, ..] = fields[..] else { return None };
        let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        (state == LISTENS && PORTS.contains(&port)).then_some((port, socket.parse().ok()?))
    };
    tables.lines().filter_map(socket).collect()
}

/// What is wrong here. With the cluster's objects, whose adverts should arrive as well. Pure.
pub(super) fn findings(host: &Host, snapshot: Option<&Snapshot>) -> Vec<Problem> {
    let mut findings = Vec::new();
    for (bit, name, is_needed) in CAPABILITIES.iter().filter(|(bit, ..)| host.capabilities >> bit & 1 == 0) {
        let message =
            format!("this process does not have {name} (bit {bit} of CapEff {:x})", host.capabilities);
        findings.push(if *is_needed {
            Problem::error("Host", *name, "NoCapability").says(
                message,
                "run this as root; give the agent's container this capability (manifests/base/agent.yaml)",
            )
        } else {
            Problem::warning("Host", *name, "NoCapability")
                .says(message, "give it the agent: without it timers of VRRP are late on a busy node")
        });
    }
    if let Some(why) = &host.nf_tables {
        let message = format!(
            "nf_tables does not answer ({why}): there is no guard, and connections are not forwarded after a move"
        );
        findings.push(Problem::warning("Host", "nf_tables", "KernelFeature").says(
            message,
            "load the module (modprobe nf_tables), or use a kernel with CONFIG_NF_TABLES_INET",
        ));
    }
    findings.extend(tracking(host));
    if !host.has_ipv6 {
        findings.push(Problem::warning("Host", "IPv6", "KernelFeature").says(
            "no interface has an IPv6 address: this node announces no IPv6 address",
            "nothing, if there are to be none; else set net.ipv6.conf.all.disable_ipv6=0",
        ));
    }
    findings.extend(strict_filters(host));
    findings.extend(ipvs(host));
    for (port, program) in host.ports.iter().filter(|(_, program)| program != "windlass") {
        let message = format!("{program} listens on TCP port {port}, which Windlass listens on");
        findings.push(Problem::error("Host", format!("port {port}"), "PortTaken").says(
            message,
            "stop that program, or give Windlass another port (--secure-port; load balancer only has one of its own)",
        ));
    }
    findings.extend(snapshot.map(|snapshot| silent_nodes(host, snapshot)).unwrap_or_default());
    if let Err(why) = &host.adverts {
        findings.push(Problem::warning("Host", "VRRP", "NotListened").says(
            format!("adverts could not be listened for: {why}"),
            "run this as root, on the host's network",
        ));
    }
    findings
}

fn tracking(host: &Host) -> Option<Problem> {
    let (message, remedy) = match &host.tracking {
        Err(why) => (
            format!(
                "connection tracking does not answer by netlink ({why}): connections are neither forwarded nor replicated"
            ),
            "load the module (modprobe nf_conntrack_netlink)",
        ),
        Ok((entries, limit)) if *limit > 0 && u64::from(*entries) * 100 >= u64::from(*limit) * FULL => (
            format!(
                "{entries} connections are tracked, and nf_conntrack_max is {limit}: new ones are dropped when it is full"
            ),
            "raise net.netfilter.nf_conntrack_max",
        ),
        Ok(_) => return None,
    };
    Some(Problem::warning("Host", "nf_conntrack", "KernelFeature").says(message, remedy))
}

/// Interfaces whose reverse-path filter is strict: the higher of the interface's and of that of all counts.
fn strict_filters(host: &Host) -> Option<Problem> {
    let all = host.settings.get("all").map_or(0, |settings| settings.rp_filter);
    let is_interface = |name: &str| !matches!(name, "all" | "default" | "lo");
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

/// The host answers ARP for the addresses that IPVS has.
fn ipvs(host: &Host) -> Option<Problem> {
    let all = host.settings.get("all").map_or(0, |settings| settings.arp_ignore);
    (host.settings.contains_key(IPVS) && all == 0).then(|| {
        Problem::error("Host", "arp_ignore", "StrictARP").says(
            format!("kube-proxy serves by IPVS ({IPVS}), and net.ipv4.conf.all.arp_ignore is {all}: this node answers ARP for all addresses"),
            "set ipvs.strictARP: true in the settings of kube-proxy and restart it, or set mode: nftables",
        )
    })
}

/// Nodes that are Active in a virtual router in which this one takes part, and of which nothing arrived.
fn silent_nodes(host: &Host, snapshot: &Snapshot) -> Vec<Problem> {
    let Ok(heard) = &host.adverts else { return Vec::new() };
    let mut silent: BTreeMap<&str, (IpAddr, Vec<u8>)> = BTreeMap::new();
    for router in &snapshot.routers.objects {
        let nodes = &router.spec.nodes;
        let active = router.active_node();
        let Some(active) = nodes.iter().find(|node| Some(node.name.as_str()) == active) else { continue };
        let takes_part = nodes.iter().any(|node| host.addresses.contains(&node.address));
        let is_here = host.addresses.contains(&active.address);
        let is_heard = heard.iter().any(|it| it.source == active.address && it.vrid == router.spec.vrid);
        if takes_part && !is_here && !is_heard {
            silent
                .entry(&active.name)
                .or_insert_with(|| (active.address, Vec::new()))
                .1
                .push(router.spec.vrid);
        }
    }
    let told = |(node, (address, vrids)): (&str, (IpAddr, Vec<u8>))| {
        let message = format!(
            "node {node} ({address}) is Active with VRID {}, and none of its adverts arrived here in {} s",
            first_of(vrids.iter(), 3),
            host.listened.as_secs()
        );
        let remedy = "let IP protocol 112 pass between the nodes, to 224.0.0.18 and ff02::12: firewalls of both hosts, IGMP and MLD snooping of \
                      the switch without a querier, security groups";
        Problem::error("Node", node, "NotHeard").says(message, remedy)
    };
    silent.into_iter().map(told).collect()
}

/// What was looked at.
pub(super) fn facts(host: &Host) -> Vec<Fact> {
    let line = |name, value| Fact { name, value };
    let heard = match &host.adverts {
        Err(_) => "not listened for".to_owned(),
        Ok(heard) => {
            let others: Vec<String> = heard
                .iter()
                .filter(|it| !host.addresses.contains(&it.source))
                .map(|it| format!("VRID {} of {} (VRRP {})", it.vrid, it.source, it.version))
                .collect();
            let told = if others.is_empty() { "none".to_owned() } else { first_of(others.iter(), 5) };
            format!("{told}, in {} s", host.listened.as_secs())
        }
    };
    let tracked = host.tracking.as_ref().map_or_else(
        |_| "not told".to_owned(),
        |(entries, limit)| format!("{entries} of {limit} (nf_conntrack_max)"),
    );
    vec![line("Adverts here", heard), line("Connections", tracked)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_on_windlass_ports_are_read_from_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:2812 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n\
            \x20  1: 0100007F:2812 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 4712 1\n\
            \x20  2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1\n\
            \x20  3: 00000000000000000000000000000000:2683 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 4714 1\nx\n";
        assert_eq!(sockets(table), [(10258, 4711), (9859, 4714)]);
    }
}
