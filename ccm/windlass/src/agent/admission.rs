//! Which virtual IPs this node may announce: one whose Service lets in some clients only, not before its agent keeps the
//! others out. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use windlass_api::{PortProtocol, PortSources, VirtualIP};
use windlass_engine::{Door, GuardStatus, Protocol, Restrictions};

use super::desired::{Assignment, Desired};

#[cfg(test)]
mod tests;

/// A node that cannot guard leaves its virtual routers to those that can: its priority is so many times lower. Ranks among
/// such nodes stay as they are, as priorities of a ranking are 16 apart.
const MODESTY: u8 = 16;

/// A virtual IP that not everybody may use. Kept on disk, so its fields are part of the state file's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Restricted {
    /// The virtual IP, of any node's virtual router: this node's own packets to it never leave the node.
    pub(crate) address: IpAddr,
    /// As its object has it.
    pub(crate) sources: Vec<PortSources>,
}

/// The virtual IPs that not everybody may use, by address. One in quarantine as well, until its object goes.
pub(crate) fn restricted<V: AsRef<VirtualIP>>(vips: &[V]) -> Vec<Restricted> {
    let specs = vips.iter().map(|vip| &vip.as_ref().spec).filter(|spec| !spec.sources.is_empty());
    let mut all: Vec<Restricted> =
        specs.map(|spec| Restricted { address: spec.address, sources: spec.sources.clone() }).collect();
    all.sort_by_key(|one| one.address);
    all
}

/// As the engine wants them. What is no range lets nobody in.
pub(crate) fn restrictions(restricted: &[Restricted]) -> Restrictions {
    let mut restrictions = Restrictions::default();
    for Restricted { address, sources } in restricted {
        for PortSources { ports, allowed, by_kube_proxy: _ } in sources {
            let allowed: Vec<IpNet> = allowed.iter().filter_map(|range| range.parse().ok()).collect();
            for port in ports {
                let protocol = match port.protocol {
                    PortProtocol::Tcp => Protocol::Tcp,
                    PortProtocol::Udp => Protocol::Udp,
                    PortProtocol::Sctp => Protocol::Sctp,
                };
                let door = Door { protocol, port: port.port };
                restrictions.restrict(*address, door, allowed.iter().copied());
            }
        }
    }
    restrictions
}

/// Whether nobody but our guard keeps out who is not allowed.
pub(crate) fn needs_guard(sources: &[PortSources]) -> bool {
    sources.iter().any(|one| !one.by_kube_proxy)
}

/// What of the desired state the engine may be told. `wanted`: its restrictions; `status`: those that are in force;
/// `announced`: the virtual IPs that it was told before.
///
/// A virtual IP that was announced without restrictions, or with others, stays while they are on their way, and goes if
/// they cannot be enforced.
pub(crate) fn admitted(
    desired: &Desired,
    wanted: &Restrictions,
    status: &GuardStatus,
    announced: &BTreeSet<IpAddr>,
) -> Vec<Assignment> {
    let guarded = desired.restricted.iter().filter(|one| needs_guard(&one.sources));
    let guarded: BTreeMap<IpAddr, bool> =
        guarded.map(|one| (one.address, status.enforced.of(one.address) == wanted.of(one.address))).collect();
    let unguarded = |address: &IpAddr| guarded.get(address) == Some(&false);
    let mut assignments = desired.assignments.clone();
    for assignment in &mut assignments {
        if !assignment.addresses.iter().any(unguarded) {
            continue;
        }
        if status.error.is_some() {
            assignment.priority = (assignment.priority / MODESTY).max(1);
            assignment.addresses.retain(|address| !unguarded(address));
        } else {
            assignment.addresses.retain(|address| !unguarded(address) || announced.contains(address));
        }
    }
    assignments
}
