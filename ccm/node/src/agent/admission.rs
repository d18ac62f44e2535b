//! Virtual IPs that this node may announce. One whose Service admits some clients only is not announced before the agent blocks the others.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;

use ipnet::IpNet;
use windlass_api::{PortProtocol, PortSources, RestrictedPort};
use windlass_engine::{GuardStatus, Protocol, ProtocolPort, Restrictions};

use super::desired::{Assignment, Desired};
use super::restricted::Restricted;

#[cfg(test)]
mod tests;

/// Divisor of the priority of a node that cannot guard: it leaves its virtual routers to nodes that can. Ranks among such nodes stay as
/// they are, as priorities of a ranking are 16 apart.
const UNGUARDED_DIVISOR: u8 = 16;

/// Converts to the engine's format. A range that does not parse admits no client.
pub(crate) fn restrictions(restricted: &[Restricted]) -> Restrictions {
    let mut restrictions = Restrictions::default();
    for Restricted { address, sources, ports, owners } in restricted {
        if let Some(owners) = owners {
            restrictions.owned_by(*address, owners.iter().map(|owner| number_of(owner)));
        }
        restrictions.only_ports(*address, ports.iter().copied().map(port_of));
        for PortSources { ports, allowed, by_kube_proxy: _ } in sources {
            let allowed: Vec<IpNet> = allowed.iter().filter_map(|range| range.parse().ok()).collect();
            restrictions.restrict(*address, ports.iter().copied().map(port_of), allowed);
        }
    }
    restrictions
}

/// Returns the number of an owner, constant while this process runs.
fn number_of(owner: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    owner.hash(&mut hasher);
    hasher.finish()
}

fn port_of(RestrictedPort { protocol, port }: RestrictedPort) -> ProtocolPort {
    let protocol = match protocol {
        PortProtocol::Tcp => Protocol::Tcp,
        PortProtocol::Udp => Protocol::Udp,
        PortProtocol::Sctp => Protocol::Sctp,
    };
    ProtocolPort { protocol, port }
}

/// Returns the assignments that may be passed to the engine. `wanted`: desired restrictions; `status`: those that are in force;
/// `announced`: the virtual IPs that the engine already has.
///
/// A virtual IP that was announced without restrictions, or with others, stays while the new ones are being installed. It is withdrawn if
/// they cannot be enforced.
pub(crate) fn admitted(
    desired: &Desired,
    wanted: &Restrictions,
    status: &GuardStatus,
    announced: &BTreeSet<IpAddr>,
) -> Vec<Assignment> {
    let admit = |one: &Assignment| {
        admit(one, &desired.restricted, wanted, status, |address| announced.contains(address))
    };
    desired.assignments.iter().map(admit).collect()
}

/// Does the same for one virtual router.
pub(crate) fn admit(
    assignment: &Assignment,
    restricted: &[Restricted],
    wanted: &Restrictions,
    status: &GuardStatus,
    is_announced: impl Fn(&IpAddr) -> bool,
) -> Assignment {
    let mut assignment = assignment.clone();
    let unguarded = |address: &IpAddr| {
        let first = restricted.partition_point(|one| one.address < *address);
        let mut own = restricted[first..].iter().take_while(|one| one.address == *address);
        own.any(|one| PortSources::need_guard(&one.sources))
            && status.enforced.of(*address) != wanted.of(*address)
    };
    if restricted.is_empty() || !assignment.addresses.iter().any(unguarded) {
        return assignment;
    }
    // A single address that the kernel refuses is no reason to leave others to another node.
    if status.error.is_some() {
        assignment.priority = (assignment.priority / UNGUARDED_DIVISOR).max(1);
    }
    let is_on_its_way = |address: &IpAddr| status.obstacle(*address).is_none() && is_announced(address);
    assignment.addresses.retain(|address| !unguarded(address) || is_on_its_way(address));
    assignment
}

/// Reasons why this node cannot block the clients that may not use an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unguarded {
    /// Reason that applies to every address.
    pub(crate) all: Option<String>,
    /// Reasons that apply to single addresses.
    pub(crate) some: BTreeMap<IpAddr, String>,
}

impl Unguarded {
    /// Extracts the reasons from the guard's status.
    pub(crate) fn of(status: &GuardStatus) -> Self {
        Self { all: status.error.clone(), some: status.refused.clone() }
    }

    /// Returns the reason for this address; `None` if it can be guarded.
    pub(crate) fn why(&self, address: IpAddr) -> Option<&str> {
        self.all.as_deref().or_else(|| self.some.get(&address).map(String::as_str))
    }
}
