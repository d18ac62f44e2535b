//! What kube-proxy writes, in small: ports 80/TCP and 53/UDP of the VIPs go to the pod; port 81 has no endpoint on this node, which
//! kube-proxy says by dropping new connections in its filter chains.

use std::net::IpAddr;
use std::process::Command;

use crate::lab::{Host, VIP};

use super::scene::{POD, POD_PORT, POD6, VIP6, run};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Nftables,
    /// iptables that writes nf_tables.
    Iptables,
    IptablesLegacy,
}

impl Mode {
    /// The modes that can be tried here.
    pub(crate) fn all() -> Vec<Self> {
        let mut modes = vec![Self::Nftables];
        for (mode, program) in [(Self::Iptables, "iptables-nft"), (Self::IptablesLegacy, "iptables-legacy")] {
            if Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success()) {
                modes.push(mode);
            } else {
                eprintln!("not tried: kube-proxy's iptables mode by {program}, which is not installed");
            }
        }
        modes
    }

    pub(crate) fn serve(self, node: &Host) {
        match self {
            Self::Nftables => {
                let script = nftables("ip", VIP.into(), &format!("{POD}:{POD_PORT}"))
                    + &nftables("ip6", VIP6.into(), &format!("[{POD6}]:{POD_PORT}"));
                run(node, "nft -f -", &script);
            }
            Self::Iptables => iptables(node, ["iptables-nft", "ip6tables-nft"]),
            Self::IptablesLegacy => iptables(node, ["iptables-legacy", "ip6tables-legacy"]),
        }
    }

    /// The node has no endpoints any more: new connections to its ports are dropped.
    pub(crate) fn serve_nothing(self, node: &Host) {
        const PORTS: [(&str, u16); 2] = [("tcp", 80), ("udp", 53)];
        match self {
            Self::Nftables => {
                for (family, vip) in [("ip", IpAddr::from(VIP)), ("ip6", VIP6.into())] {
                    let dropped = PORTS.map(|(protocol, port)| format!("{vip} . {protocol} . {port} : drop"));
                    let script = format!(
                        "flush chain {family} kube-proxy services
                         add element {family} kube-proxy no-endpoint-services {{ {} }}\n",
                        dropped.join(", ")
                    );
                    run(node, "nft -f -", &script);
                }
            }
            Self::Iptables => serve_nothing(node, ["iptables-nft", "ip6tables-nft"], &PORTS),
            Self::IptablesLegacy => serve_nothing(node, ["iptables-legacy", "ip6tables-legacy"], &PORTS),
        }
    }

    /// The rules as they are.
    pub(super) fn rules(self, node: &Host) -> String {
        match self {
            Self::Nftables => {
                ["ip", "ip6"].map(|f| run(node, &format!("nft list table {f} kube-proxy"), "")).concat()
            }
            Self::Iptables => {
                ["iptables-nft-save", "ip6tables-nft-save"].map(|program| saved(node, program)).concat()
            }
            Self::IptablesLegacy => {
                ["iptables-legacy-save", "ip6tables-legacy-save"].map(|program| saved(node, program)).concat()
            }
        }
    }
}

fn nftables(family: &str, vip: IpAddr, pod: &str) -> String {
    format!(
        "table {family} kube-proxy {{
           map no-endpoint-services {{
             type {family_type} . inet_proto . inet_service : verdict
             elements = {{ {vip} . tcp . 81 : drop }}
           }}
           chain services {{
             {family} daddr {vip} tcp dport 80 dnat to {pod}
             {family} daddr {vip} udp dport 53 dnat to {pod}
           }}
           chain nat-prerouting {{ type nat hook prerouting priority dstnat; jump services; }}
           chain nat-output {{ type nat hook output priority -100; jump services; }}
           chain endpoints {{ {family} daddr . meta l4proto . th dport vmap @no-endpoint-services; }}
           chain filter-input {{ type filter hook input priority filter; ct state new jump endpoints; }}
           chain filter-forward {{ type filter hook forward priority filter; ct state new jump endpoints; }}
           chain filter-output {{ type filter hook output priority filter; ct state new jump endpoints; }}
         }}\n",
        family_type = if family == "ip" { "ipv4_addr" } else { "ipv6_addr" },
    )
}

fn iptables(node: &Host, programs: [&str; 2]) {
    let pods = [format!("{POD}:{POD_PORT}"), format!("[{POD6}]:{POD_PORT}")];
    for ((program, vip), pod) in programs.into_iter().zip([IpAddr::from(VIP), VIP6.into()]).zip(pods) {
        for chain in ["PREROUTING", "OUTPUT"] {
            for port in ["tcp --dport 80", "udp --dport 53"] {
                let to_pod = format!("-d {vip} -p {port} -j DNAT --to-destination {pod}");
                run(node, &format!("{program} -t nat -A {chain} {to_pod}"), "");
            }
        }
    }
    drop_new(node, programs, &[("tcp", 81)]);
}

fn serve_nothing(node: &Host, programs: [&str; 2], ports: &[(&str, u16)]) {
    for program in programs {
        run(node, &format!("{program} -t nat -F"), "");
    }
    drop_new(node, programs, ports);
}

/// Drops new connections to these ports of the VIPs that nothing translates.
fn drop_new(node: &Host, programs: [&str; 2], ports: &[(&str, u16)]) {
    for (program, vip) in programs.into_iter().zip([IpAddr::from(VIP), VIP6.into()]) {
        for (protocol, port) in ports {
            for chain in ["INPUT", "FORWARD", "OUTPUT"] {
                let dropped =
                    format!("-d {vip} -p {protocol} --dport {port} -m conntrack --ctstate NEW -j DROP");
                run(node, &format!("{program} -A {chain} {dropped}"), "");
            }
        }
    }
}

/// Without comments, which tell the time, and counters.
fn saved(node: &Host, program: &str) -> String {
    let all = run(node, program, "");
    all.lines().filter(|line| !line.starts_with(['#', ':'])).collect::<Vec<_>>().join("\n")
}
