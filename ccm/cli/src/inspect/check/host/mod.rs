//! This host: its kernel and settings, the programs on Windlass' ports, and the nodes whose adverts arrive.
//!
//! | file | concept |
//! |---|---|
//! | `kernel` | capabilities, nf_tables, connection tracking, IPv6, real-time scheduling, SELinux |
//! | `settings` | forwarding, reverse-path filter and ARP by interface |
//! | `bridges` | bridged packets that pass the packet filter |
//! | `marks` | users of bits of packet marks, chains that drop what is forwarded, kube-proxy's bit (pure) |
//! | `ports` | programs that listen on Windlass' ports |
//! | `heard` | nodes whose adverts should arrive here (pure) |
//! | `command` | programs whose output is read |

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use windlass_common::listing::first_of;

use super::super::problems::Problem;
use super::super::snapshot::Snapshot;
use super::Fact;
use super::adverts::{self, Advert, ip_of};

mod bridges;
mod command;
mod heard;
mod kernel;
mod marks;
mod ports;
mod settings;

pub(super) use self::marks::{MarkUser, Ruleset};
pub(super) use self::settings::Settings;

/// Shares of real-time scheduling that a kernel with `CONFIG_RT_GROUP_SCHED` gives to the cgroups of pods.
const CGROUP_REALTIME: [&str; 3] = [
    "/sys/fs/cgroup/cpu/kubepods/cpu.rt_runtime_us",
    "/sys/fs/cgroup/cpu,cpuacct/kubepods/cpu.rt_runtime_us",
    "/sys/fs/cgroup/cpu/kubepods.slice/cpu.rt_runtime_us",
];

/// State of this host.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Bits of this process.
    pub(super) capabilities: u64,
    /// Reason why nf_tables does not answer; `None`: it does.
    pub(super) nf_tables: Option<String>,
    /// Reason why the kernel cannot direct packets for shared addresses; `None`: it can.
    pub(super) sharing: Option<String>,
    /// Tracked connections and their limit; or the reason why they cannot be read.
    pub(super) tracking: Result<(u32, u32), String>,
    pub(super) has_ipv6: bool,
    /// Settings of IPv4 of each interface, of `all` and of `default`.
    pub(super) settings: BTreeMap<String, Settings>,
    /// `net.ipv6.conf.all.forwarding`; `None`: there is no IPv6.
    pub(super) ipv6_forwarding: Option<i64>,
    /// `kernel.sched_rt_runtime_us`.
    pub(super) realtime: Option<i64>,
    /// Files of [`CGROUP_REALTIME`] that exist, with their values.
    pub(super) cgroup_realtime: Vec<(String, i64)>,
    pub(super) is_selinux_enforcing: bool,
    /// Bridges of the admin's.
    pub(super) bridges: Vec<String>,
    /// `net.bridge.bridge-nf-call-iptables` or `-ip6tables` is 1.
    pub(super) filters_bridged: bool,
    /// Routing rules of other programs that test a mark, or the reason why they could not be read.
    pub(super) rules: Result<BTreeSet<MarkUser>, String>,
    /// The ruleset of nftables, or why it could not be read.
    pub(super) ruleset: Result<Ruleset, String>,
    /// Forward chains that are certain to drop everything.
    pub(super) dropping_all: Vec<String>,
    /// Mode of kube-proxy, as it answers itself.
    pub(super) proxy_mode: Option<String>,
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Windlass' ports on which a program listens, and the programs.
    pub(super) ports: Vec<(u16, String)>,
    /// Adverts that were received; or the reason why this host could not listen.
    pub(super) adverts: Result<BTreeSet<Advert>, String>,
    pub(super) listened: Duration,
}

impl Host {
    /// Reads, and listens for so long. `proxy_mode`: what kube-proxy answered.
    pub(super) fn read(listened: Duration, proxy_mode: Option<String>) -> Self {
        let status = text("/proc/self/status");
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        let tracking = windlass_engine::connection_tracking();
        let held = getifaddrs().into_iter().flatten().filter_map(|one| ip_of(&one.address?));
        let cgroups = CGROUP_REALTIME.into_iter();
        let bridged = ["iptables", "ip6tables"].map(|it| format!("/proc/sys/net/bridge/bridge-nf-call-{it}"));
        let rules = [command::run("ip", &["rule", "show"]), command::run("ip", &["-6", "rule", "show"])];
        let dropping = windlass_engine::chains_that_drop_all().unwrap_or_default();
        Self {
            capabilities: capabilities.unwrap_or(0),
            nf_tables: windlass_engine::nf_tables().err().map(|error| error.to_string()),
            sharing: windlass_engine::try_sharing("windlass-check").err().map(|error| error.to_string()),
            tracking: tracking.map(|usage| (usage.entries, usage.limit)).map_err(|error| error.to_string()),
            has_ipv6: !text("/proc/net/if_inet6").trim().is_empty(),
            settings: settings::read(Path::new("/proc/sys/net/ipv4/conf")),
            ipv6_forwarding: number("/proc/sys/net/ipv6/conf/all/forwarding"),
            realtime: number("/proc/sys/kernel/sched_rt_runtime_us"),
            cgroup_realtime: cgroups.filter_map(|path| Some((path.to_owned(), number(path)?))).collect(),
            is_selinux_enforcing: number("/sys/fs/selinux/enforce") == Some(1),
            bridges: bridges::read(Path::new("/sys/class/net")),
            filters_bridged: bridged.iter().any(|path| number(path) == Some(1)),
            rules: marks::all_rules(rules),
            ruleset: command::run("nft", &["list", "ruleset"]).map(|text| marks::ruleset(&text)),
            dropping_all: dropping.into_iter().map(windlass_engine::DroppingChain::name).collect(),
            proxy_mode,
            addresses: held.collect(),
            ports: ports::listeners(&(text("/proc/net/tcp") + &text("/proc/net/tcp6"))),
            adverts: adverts::listen(listened).map_err(|error| error.to_string()),
            listened,
        }
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn number(path: &str) -> Option<i64> {
    text(path).trim().parse().ok()
}

/// Returns the problems of this host; with the cluster's objects also the nodes whose adverts should arrive and do not. Pure.
pub(super) fn findings(host: &Host, snapshot: Option<&Snapshot>) -> Vec<Problem> {
    let mut findings = kernel::findings(host);
    findings.extend(settings::findings(host));
    findings.extend(marks::findings(host));
    findings.extend(bridges::findings(host));
    findings.extend(ports::findings(&host.ports));
    findings.extend(snapshot.map(|snapshot| heard::silent_nodes(host, snapshot)).unwrap_or_default());
    if let Err(why) = &host.adverts {
        findings.push(Problem::warning("Host", "VRRP", "NotListened").says(
            format!("adverts could not be listened for: {why}"),
            "run this as root, on the host's network",
        ));
    }
    findings
}

/// Returns the facts about this host that were looked at.
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
        |_| "unknown".to_owned(),
        |(entries, limit)| format!("{entries} of {limit} (nf_conntrack_max)"),
    );
    let mode = host.proxy_mode.as_deref().unwrap_or("no answer at 127.0.0.1:10249");
    let marks = match &host.rules {
        Ok(rules) => format!("{} routing rules of others test a mark", rules.len()),
        Err(why) => format!("routing rules not read: {why}"),
    };
    vec![
        line("Adverts here", heard),
        line("Connections", tracked),
        line("kube-proxy", format!("{mode}; {}", marks::masquerade(&host.ruleset))),
        line("Marks", marks),
    ]
}
