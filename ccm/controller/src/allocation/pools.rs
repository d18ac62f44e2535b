//! Usable addresses of the pools, and the status of the pools. Pure.
//!
//! A pool that is partly wrong is used as far as it is right: one bad piece stops neither the rest of it nor the others. Services keep
//! the addresses that they hold, whatever is found here: the review decides only about future allocations.

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

pub(crate) use pool_reviewer::PoolReviewer;
pub(crate) use status::{Announceability, PoolFindings, available, status};
pub(crate) use unusable::UnusableAddresses;

/// Maximum number of items that one message names; the rest is counted.
pub(crate) const NAMED: usize = 5;

/// Reason that part of a pool is not used: a reason of its condition `Ready`.
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
    /// Value of a newer version.
    UnknownValue,
    /// Written twice in one pool; no address is lost by it.
    DuplicateAddresses,
}

impl Reason {
    /// Returns the reason as it is written in conditions.
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

    /// Returns the phrase for addresses left out for this reason: their use in the cluster, if they were found there.
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
    /// True if it may serve as the source of external IPs.
    pub(crate) allow_external_ips: bool,
    pub(crate) problems: Vec<Problem>,
    /// Every address that it lists and no older pool does, whether or not it can be given.
    pub(crate) held: AddressSet,
    /// Number of addresses and subnets that only one node reports and that are not withheld, because it reports too many; by that
    /// node.
    pub(crate) ignored_reports: BTreeMap<String, usize>,
    /// Addresses of nodes that it lists, and whether they are VIPs.
    node_addresses: Vec<(IpAddr, bool)>,
}

impl ReviewedPool {
    /// Checks that a Service may have an address of this pool as an external IP.
    ///
    /// # Errors
    /// The reason, in words that end a sentence about the address.
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

/// Returns the policy by which a pool gives addresses, as far as its spec can be read.
pub fn policy(spec: &VirtualIPPoolSpec) -> Policy {
    convert::parse_spec(spec).policy
}

/// Reviews all pools, the oldest first: where two overlap, the older one keeps the addresses. `claimed` returns true for VIPs: one
/// that is bound to a node's interface is not the node's own address.
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

/// Number of entries that each node's report alone withholds from the pools. It is limited: a compromised node must not empty them.
#[derive(Debug, Default)]
struct Withheld {
    counts: BTreeMap<String, usize>,
    /// Entries beyond the limit since the last read, by node.
    ignored: BTreeMap<String, usize>,
}

impl Withheld {
    /// Counts one more entry of this node. Returns true if it is within the limit.
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

    /// Reserves addresses that other load balancers gave to Services. They stay part of the pool: with its Service, an address may
    /// move here.
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

    /// Reserves addresses that the cluster or the LAN uses in another way. They stay part of the pool, and a Service that holds one
    /// keeps it.
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
pub(crate) fn shortened(set: &AddressSet) -> String {
    let ranges: Vec<_> = set
        .ranges()
        .take(NAMED)
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    list(&ranges, set.ranges().count())
}

#[cfg(test)]
mod tests;
