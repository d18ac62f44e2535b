//! Forwarding by the kernel: without it a packet to a virtual IP reaches no pod, although kube-proxy reports that all is well. Pure.
//!
//! | family | decided by | why |
//! |---|---|---|
//! | IPv4 | `net.ipv4.conf.<interface>.forwarding` of the interface on which packets arrive | `net.ipv4.ip_forward` only sets it on all interfaces when it is written |
//! | IPv6 | `net.ipv6.conf.all.forwarding`, or since Linux 6.17 the interface's `force_forwarding` | the interface's own `forwarding` decides about router advertisements alone |
//!
//! A value that cannot be read counts as forwarding.
//!
//! `br_netfilter` lets packets pass kube-proxy's rules in the bridge, before the node receives them. A packet that becomes one to a pod behind
//! the same bridge is bridged, not routed, and a bridge sends nothing back through the port by which it came.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use windlass_engine::{DroppingChain, Family, HostRoute};

use super::check::Finding;
use crate::agent::desired::Desired;

#[cfg(test)]
mod tests;

/// Directory of the kernel's settings of this network namespace.
pub(super) const SETTINGS: &str = "/proc/sys/net";

/// Family and interface.
pub(crate) type Segment = (Family, String);

/// Returns the segments of this node's virtual routers.
pub(super) fn segments(desired: &Desired) -> BTreeSet<Segment> {
    let of = |one: &crate::agent::desired::Assignment| (Family::of(one.source), one.interface.clone());
    desired.assignments.iter().map(of).collect()
}

/// Judges each segment by the settings below `root`, by the chains that drop everything, and by the routes to other candidates by bridges.
pub(super) fn findings(
    root: &Path,
    segments: BTreeSet<Segment>,
    dropping: &[DroppingChain],
    bridged: &[HostRoute],
) -> BTreeMap<Segment, Finding> {
    let judge = |segment: Segment| {
        let (family, interface) = &segment;
        let chain = dropping.iter().find(|chain| chain.sees(*family));
        let reason = disabled(root, *family, interface)
            .or_else(|| chain.map(|chain| dropped(*chain)))
            .or_else(|| sent_back(root, *family, interface, bridged));
        (segment, reason.map_or(Finding::Passed, Finding::Failed))
    };
    segments.into_iter().map(judge).collect()
}

/// Returns true if the packets of bridges pass the rules of this family.
pub(super) fn filters_bridged(root: &Path, family: Family) -> bool {
    has_value(root, bridge_setting(family), "1")
}

const fn bridge_setting(family: Family) -> &'static str {
    match family {
        Family::V4 => "bridge/bridge-nf-call-iptables",
        Family::V6 => "bridge/bridge-nf-call-ip6tables",
    }
}

/// Returns the sentence about a bridge that drops packets to pods of another candidate, if the segment's interface is one.
fn sent_back(root: &Path, family: Family, interface: &str, bridged: &[HostRoute]) -> Option<String> {
    let is_here = |route: &&HostRoute| {
        route.interface == interface && Family::of(route.destination.network()) == family
    };
    let pods = bridged.iter().find(is_here).filter(|_| filters_bridged(root, family))?.destination;
    let setting = bridge_setting(family);
    Some(format!(
        "net/{setting} is 1 and {interface} is a bridge, so the kernel drops packets to pods of other nodes, such as {pods}. Run `sysctl -w \
         net/{setting}=0` and set it in /etc/sysctl.d, or keep the node's address on the network card if the CNI plugin needs the setting"
    ))
}

fn has_value(root: &Path, setting: &str, value: &str) -> bool {
    fs::read_to_string(root.join(setting)).is_ok_and(|text| text.trim() == value)
}

/// Returns the sentence about a setting that disables forwarding, if one does.
fn disabled(root: &Path, family: Family, interface: &str) -> Option<String> {
    let is = |setting: &str, value: &str| has_value(root, setting, value);
    let setting = match family {
        Family::V4 => {
            let own = format!("ipv4/conf/{interface}/forwarding");
            if !is(&own, "0") {
                return None;
            }
            if is("ipv4/ip_forward", "0") { "ipv4/ip_forward".to_owned() } else { own }
        }
        Family::V6 => {
            let all = "ipv6/conf/all/forwarding";
            if !is(all, "0") || is(&format!("ipv6/conf/{interface}/force_forwarding"), "1") {
                return None;
            }
            all.to_owned()
        }
    };
    Some(format!(
        "net/{setting} is 0, so the kernel drops packets to pods. Run `sysctl -w net/{setting}=1` and set it in /etc/sysctl.d"
    ))
}

fn dropped(chain: DroppingChain) -> String {
    let name = chain.name();
    format!(
        "the nftables chain {name} has policy drop and no rule that accepts, so it drops packets to pods. Set its policy to accept \
         (`nft chain {name} '{{ policy accept; }}'`), or restart kube-proxy if its rules were flushed"
    )
}
