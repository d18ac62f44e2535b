//! Which addresses of the pools can be used, and what their status reports. Pure.
//!
//! A pool that is partly wrong is used as far as it is right: one bad piece stops neither the rest of it nor the others. What
//! a Service holds it keeps, whatever is found here: this is about what is given from now on.

mod announceability;
mod convert;
mod pool_reviewer;
mod status;
mod unusable;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use kube::ResourceExt as _;
use windlass_api::{VirtualIPPool, VirtualIPPoolSpec, pool_ready};
use windlass_common::listing::list;
use windlass_ipam::{AddressSet, Policy, Pool, PoolRefusal, Requester};

use crate::nodes::reports::MAX_WITHHELD;

pub(crate) use announceability::{Announceability, announceability};
pub(crate) use pool_reviewer::PoolReviewer;
pub(crate) use status::{PoolFindings, available, status};
pub(crate) use unusable::UnusableAddresses;

/// Items that one message names before it says how many more there are.
const NAMED: usize = 5;

/// Why some of a pool is not used: reasons of its condition `Ready`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    InvalidAddresses,
    InvalidExclusion,
    InvalidSelector,
    /// In an older pool, too.
    Overlap,
    /// A node has it.
    NodeAddress,
    /// Network, broadcast or anycast address of a subnet of the nodes.
    SubnetAddress,
    PodCidr,
    ServiceCidr,
    /// A Service has it from another load balancer.
    ForeignService,
    /// Of a newer version.
    UnknownValue,
    /// Written twice in one pool; no address is lost by it.
    DuplicateAddresses,
}

impl Reason {
    /// As conditions have it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidAddresses => pool_ready::INVALID_ADDRESSES,
            Self::InvalidExclusion => pool_ready::INVALID_EXCLUSION,
            Self::InvalidSelector => pool_ready::INVALID_SELECTOR,
            Self::Overlap => pool_ready::OVERLAP,
            Self::NodeAddress => pool_ready::NODE_ADDRESS,
            Self::SubnetAddress => pool_ready::SUBNET_ADDRESS,
            Self::PodCidr => pool_ready::POD_CIDR,
            Self::ServiceCidr => pool_ready::SERVICE_CIDR,
            Self::ForeignService => pool_ready::FOREIGN_SERVICE,
            Self::UnknownValue => pool_ready::UNKNOWN_VALUE,
            Self::DuplicateAddresses => pool_ready::DUPLICATE_ADDRESSES,
        }
    }

    /// What addresses that are not given for this reason have in common, where they are found in the cluster.
    const fn addresses(self) -> &'static str {
        match self {
            Self::SubnetAddress => "network, broadcast and anycast addresses left out",
            Self::PodCidr => "addresses of pods left out",
            Self::ServiceCidr => "addresses of ClusterIPs left out",
            Self::ForeignService => "addresses that other load balancers serve left out",
            Self::NodeAddress => "addresses of nodes left out",
            Self::InvalidAddresses
            | Self::InvalidExclusion
            | Self::InvalidSelector
            | Self::Overlap
            | Self::UnknownValue
            | Self::DuplicateAddresses => "addresses left out",
        }
    }
}

/// Something of a pool that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl Problem {
    fn new(reason: Reason, message: String) -> Self {
        Self { reason, message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.as_str(), self.message)
    }
}

/// A pool, as far as it can be used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReviewedPool {
    pub(crate) pool: Pool,
    /// Whether it may serve as the source of external IPs.
    pub(crate) allow_external_ips: bool,
    pub(crate) problems: Vec<Problem>,
    /// Every address that it lists and no older pool does, whether or not it can be given.
    pub(crate) held: AddressSet,
    /// How many addresses and subnets that only one node reports keep nothing back, because it reports too many, by that node.
    pub(crate) ignored_reports: BTreeMap<String, usize>,
    /// Addresses of nodes that it lists, and whether they are VIPs.
    node_addresses: Vec<(IpAddr, bool)>,
}

impl ReviewedPool {
    /// Why a Service may not have `address` of this pool as an external IP.
    ///
    /// # Errors
    /// In words that end a sentence about the address.
    pub(crate) fn admits_external(&self, subject: &Requester) -> Result<(), String> {
        let Self { pool, allow_external_ips, .. } = self;
        let Pool { name, policy, .. } = pool;
        if !allow_external_ips {
            return Err(format!(
                "pool {name:?} does not allow external IPs: set spec.allowExternalIPs there"
            ));
        }
        policy.refuses(subject).map_or(Ok(()), |why| Err(PoolRefusal::new(pool, why).to_string()))
    }
}

/// Whom a pool gives addresses, as far as its spec can be read.
pub fn policy(spec: &VirtualIPPoolSpec) -> Policy {
    convert::parse_spec(spec).policy
}

/// Reviews all pools, the oldest first: where two overlap, the older one keeps the addresses. `claimed` says which addresses
/// are VIPs: one that is bound to a node's interface is not the node's own.
pub(crate) fn review(
    pools: &[Arc<VirtualIPPool>],
    unusable: &UnusableAddresses,
    claimed: impl Fn(IpAddr) -> bool,
) -> Vec<ReviewedPool> {
    let mut by_age: Vec<&Arc<VirtualIPPool>> = pools.iter().collect();
    by_age
        .sort_by_key(|pool| (pool.metadata.creation_timestamp.as_ref().map(|time| time.0), pool.name_any()));
    let mut older: Vec<(String, AddressSet)> = Vec::new();
    let mut withheld = Withheld::default();
    let mut reviewed = Vec::new();
    for pool in by_age {
        let name = pool.name_any();
        let convert::ParsedSpec { mut addresses, reserved, policy, mut problems } =
            convert::parse_spec(&pool.spec);
        let declared = addresses.clone();
        for (name, theirs) in &older {
            let both = addresses.intersection(theirs);
            if !both.is_empty() {
                let message =
                    format!("{} also in the older pool {name:?}, which keeps them", shortened(&both));
                problems.push(Problem::new(Reason::Overlap, message));
                addresses.subtract(&both);
            }
        }
        older.push((name.clone(), declared));
        let reserved = reserved.intersection(&addresses);
        let held = addresses.clone();
        let usable = Pool { name, addresses, reserved, policy };
        let mut one = ReviewedPool {
            pool: usable,
            allow_external_ips: pool.spec.allow_external_ips,
            problems,
            held,
            ignored_reports: BTreeMap::new(),
            node_addresses: Vec::new(),
        };
        one.leave_out_nodes(unusable, &claimed, &mut withheld);
        one.leave_out_services(unusable);
        one.leave_out_blocks(unusable, &mut withheld);
        one.ignored_reports = std::mem::take(&mut withheld.ignored);
        reviewed.push(one);
    }
    reviewed
}

/// How much the word of each node keeps back from the pools: a node that is not the admin's any more must not empty them.
#[derive(Debug, Default)]
struct Withheld {
    counts: BTreeMap<String, usize>,
    /// What was beyond the limit, since it was last taken.
    ignored: BTreeMap<String, usize>,
}

impl Withheld {
    /// Whether one more is believed of this node.
    fn believes(&mut self, node: &str) -> bool {
        let count = self.counts.entry(node.to_owned()).or_default();
        *count += 1;
        let believes = *count <= MAX_WITHHELD;
        if !believes {
            *self.ignored.entry(node.to_owned()).or_default() += 1;
        }
        believes
    }
}

impl ReviewedPool {
    /// Addresses of nodes are no part of the pool: a Service that is shown with one has it from elsewhere. One that is both a
    /// VIP and on an interface only waits for that interface.
    fn leave_out_nodes(
        &mut self,
        unusable: &UnusableAddresses,
        claimed: impl Fn(IpAddr) -> bool,
        withheld: &mut Withheld,
    ) {
        let mut named = Vec::new();
        for (address, node) in &unusable.nodes {
            if !self.pool.addresses.contains(*address) {
                continue;
            }
            if unusable.only_reported.contains(address) && !withheld.believes(node) {
                continue;
            }
            let is_vip = claimed(*address);
            self.node_addresses.push((*address, is_vip));
            if is_vip {
                self.pool.reserved.insert_address(*address);
            } else {
                self.pool.addresses.remove_address(*address);
                self.pool.reserved.remove_address(*address);
                named.push(format!("{address} of node {node}"));
            }
        }
        self.add_problem(Reason::NodeAddress, &named);
    }

    /// What other load balancers gave Services stays part of the pool, and is not given: with the Service it may come here.
    fn leave_out_services(&mut self, unusable: &UnusableAddresses) {
        let mut named = Vec::new();
        for (address, service) in &unusable.services {
            if self.pool.addresses.contains(*address) {
                self.pool.reserved.insert_address(*address);
                named.push(format!("{address} of Service {service}"));
            }
        }
        self.add_problem(Reason::ForeignService, &named);
    }

    /// What the cluster or the LAN uses in another way stays part of the pool, and is not given: who holds one keeps it.
    fn leave_out_blocks(&mut self, unusable: &UnusableAddresses, withheld: &mut Withheld) {
        let mut named: BTreeMap<Reason, Vec<String>> = BTreeMap::new();
        for block in &unusable.blocks {
            let mut both = self.pool.addresses.intersection(&block.addresses);
            both.subtract(&self.pool.reserved);
            let is_believed = |node: &String| withheld.believes(node);
            if !both.is_empty() && block.said_by.as_ref().is_none_or(is_believed) {
                named.entry(block.reason).or_default().push(format!("{} {}", shortened(&both), block.what));
                self.pool.reserved.extend(&both);
            }
        }
        for (reason, named) in named {
            self.add_problem(reason, &named);
        }
    }

    fn add_problem(&mut self, reason: Reason, named: &[String]) {
        if !named.is_empty() {
            let some = named.get(..NAMED).unwrap_or(named);
            let message = format!("{}: {}", reason.addresses(), list(some, named.len()));
            self.problems.push(Problem::new(reason, message));
        }
    }
}

/// The first ranges of a set, and how many more there are.
fn shortened(set: &AddressSet) -> String {
    let ranges: Vec<_> = set
        .ranges()
        .take(NAMED)
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    list(&ranges, set.ranges().count())
}

#[cfg(test)]
mod tests;
