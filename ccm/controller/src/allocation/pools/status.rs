//! Status of a pool. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;
use windlass_api::{
    AddressCounts, CONDITION_ADDRESS_CONFLICT, CONDITION_ADDRESSES_KEPT, CONDITION_ANNOUNCEABLE,
    CONDITION_FOREIGN_EXTERNAL_IPS, CONDITION_READY, NodeNetwork, QuarantineReason, REASON_OUTSIDE_POOLS,
    VirtualIP, VirtualIPPoolStatus, announced, event, pool_ready,
};
use windlass_ccm::conditions::DesiredCondition;
use windlass_common::listing::{first_of, list};
use windlass_ipam::{AddressSet, Counts, Family};

use super::{NAMED, ReviewedPool};
use crate::allocation::external::RefusedExternalIps;
use crate::stores::Stores;

/// Result of the check whether the addresses of a pool can be announced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Announceability {
    /// No agent has reported the network of its node yet, or there is no address.
    #[default]
    Unknown,
    /// Status (`holds` if each address can be announced), reason and message of the condition `Announceable`.
    Known { holds: bool, reason: &'static str, message: String },
}

/// Findings about one pool's addresses, from VIPs and nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PoolFindings {
    /// Addresses given from this pool that no pool holds any more, with their Services.
    kept: BTreeMap<IpAddr, String>,
    /// Addresses that another host of the LAN has.
    conflicts: BTreeSet<String>,
    /// Number of its addresses that Services list in `spec.externalIPs` but may not have.
    foreign_external_ips: usize,
    /// Number of these addresses that are on a port of an owner.
    contested_external_ips: usize,
    some_foreign_external_ips: Vec<String>,
}

impl PoolFindings {
    /// Collects the findings by name of the pool. `pool_of` returns the pool that holds an address.
    pub(super) fn new<'a>(
        vips: impl IntoIterator<Item = &'a Arc<VirtualIP>>,
        networks: impl IntoIterator<Item = &'a Arc<NodeNetwork>>,
        pool_of: impl Fn(IpAddr) -> Option<&'a str>,
    ) -> BTreeMap<String, Self> {
        let mut findings: BTreeMap<String, Self> = BTreeMap::new();
        for vip in vips {
            let address = vip.spec.address;
            let pool = pool_of(address);
            match vip.spec.quarantine.as_ref().map(|quarantine| quarantine.reason) {
                None if pool.is_none() => {
                    let kept = format!("{address} of {}", first_of(vip.spec.owners.iter(), NAMED));
                    findings.entry(vip.spec.pool.clone()).or_default().kept.insert(address, kept);
                }
                Some(QuarantineReason::AddressTaken) => {
                    let pool = pool.unwrap_or(&vip.spec.pool).to_owned();
                    findings.entry(pool).or_default().conflicts.insert(address.to_string());
                }
                None | Some(QuarantineReason::Released | QuarantineReason::Unknown) => {}
            }
        }
        for network in networks {
            for seen in &network.spec.duplicates {
                if let Some(pool) = pool_of(seen.address) {
                    let findings = findings.entry(pool.to_owned()).or_default();
                    let address = seen.address.to_string();
                    findings.conflicts.remove(&address);
                    findings.conflicts.insert(format!("{address} (on {})", seen.mac));
                }
            }
        }
        findings
    }

    /// Collects the current findings in the cluster, by pool name. `pool_of` returns the pool that holds an address.
    pub(crate) fn of<'a>(
        stores: &'a Stores,
        pool_of: impl Fn(IpAddr) -> Option<&'a str>,
        refused: &RefusedExternalIps,
    ) -> BTreeMap<String, Self> {
        let mut findings = Self::new(stores.vips.iter(), stores.reports().of_nodes(), pool_of);
        for pool in refused.pools() {
            let one = findings.entry(pool.to_owned()).or_default();
            one.foreign_external_ips = refused.count(pool);
            one.contested_external_ips = refused.contested(pool);
            one.some_foreign_external_ips = refused.some(pool);
        }
        findings
    }

    /// Returns the number of addresses of the pool that another host has.
    pub(crate) fn conflicts(&self) -> usize {
        self.conflicts.len()
    }
}

/// The status of a pool: as `current` where nothing changed, so that nothing is written. Conditions that are not ours stay.
pub(crate) fn status(
    current: Option<&VirtualIPPoolStatus>,
    generation: Option<i64>,
    reviewed: &ReviewedPool,
    announceability: &Announceability,
    counts: impl Fn(Family) -> Counts,
    findings: &PoolFindings,
    now: Timestamp,
) -> VirtualIPPoolStatus {
    let family = |family| {
        let declared = reviewed.pool.addresses.count(family) > 0;
        let counts = counts(family);
        let shown = |count: u128| i64::try_from(count).unwrap_or(i64::MAX);
        declared.then(|| AddressCounts {
            total: shown(counts.total - counts.reserved),
            assigned: shown(counts.assigned),
            available: shown(available(reviewed, counts)),
            quarantined: shown(counts.quarantined),
        })
    };
    let mut conditions = current.map_or_else(Vec::new, |status| status.conditions.clone());
    let mut set = |type_: &str, value: Option<(bool, &str, String)>| match value {
        Some((holds, reason, message)) => {
            DesiredCondition { type_, holds, reason, message, generation }.set_in(&mut conditions, now);
        }
        None => conditions.retain(|condition| condition.type_ != type_),
    };
    set(CONDITION_READY, Some(ready(reviewed)));
    let announceable = match announceability {
        Announceability::Unknown => None,
        Announceability::Known { holds, reason, message } => Some((*holds, *reason, message.clone())),
    };
    set(CONDITION_ANNOUNCEABLE, announceable);
    let kept = (!findings.kept.is_empty()).then(|| {
        let message = format!(
            "in no pool any more, and kept by their Services: {}. To give them others, set spec.onRemoval: Move here, or \
             annotate their VirtualIPs with windlass.dev/allow-move=true",
            first_of(findings.kept.values(), NAMED)
        );
        (true, REASON_OUTSIDE_POOLS, message)
    });
    set(CONDITION_ADDRESSES_KEPT, kept);
    let conflict = (!findings.conflicts.is_empty()).then(|| {
        let message = format!(
            "another host of the LAN has {}: take it off the address, or exclude the address from the pool",
            first_of(findings.conflicts.iter(), NAMED)
        );
        (true, announced::ADDRESS_TAKEN, message)
    });
    set(CONDITION_ADDRESS_CONFLICT, conflict);
    let foreign = (findings.foreign_external_ips > 0).then(|| {
        let contested = match findings.contested_external_ips {
            0 => String::new(),
            count => format!(
                "{count} of them on a port of an address' owner, where kube-proxy decides which of both gets that traffic: "
            ),
        };
        let message = format!(
            "refused, though kube-proxy takes traffic to them within the cluster: {contested}{}. Have the entries of \
             spec.externalIPs removed, or forbid the field by the admission plugin DenyServiceExternalIPs",
            list(&findings.some_foreign_external_ips, findings.foreign_external_ips)
        );
        (true, event::EXTERNAL_IP_REFUSED, message)
    });
    set(CONDITION_FOREIGN_EXTERNAL_IPS, foreign);
    VirtualIPPoolStatus {
        ipv4: family(Family::V4),
        ipv6: family(Family::V6),
        cidrs: cidrs(&reviewed.held, &findings.kept),
        conditions,
    }
}

/// Most of them that a status has room for.
const MAX_CIDRS: usize = 1024;

/// The CIDRs of what a pool holds and of what was given from it before it held less: nobody else may take that, either. Of too many the
/// largest, which have the most of its addresses.
fn cidrs(held: &AddressSet, kept: &BTreeMap<IpAddr, String>) -> Vec<String> {
    let mut set = held.clone();
    for address in kept.keys() {
        set.insert_address(*address);
    }
    let mut cidrs: Vec<IpNet> = set.cidrs().collect();
    if cidrs.len() > MAX_CIDRS {
        cidrs.sort_by_key(|cidr| std::cmp::Reverse(cidr.max_prefix_len() - cidr.prefix_len()));
        cidrs.truncate(MAX_CIDRS);
        cidrs.sort();
    }
    cidrs.iter().map(ToString::to_string).collect()
}

/// Returns the number of addresses that can be given now: 0 for a disabled pool.
pub(crate) const fn available(reviewed: &ReviewedPool, counts: Counts) -> u128 {
    if reviewed.pool.policy.disabled { 0 } else { counts.available() }
}

/// Returns the state, reason and message of the condition `Ready`.
fn ready(reviewed: &ReviewedPool) -> (bool, &'static str, String) {
    let messages: Vec<_> = reviewed.problems.iter().map(|problem| problem.message.as_str()).collect();
    match reviewed.problems.first() {
        Some(first) => (false, first.reason.as_str(), messages.join("; ")),
        None if reviewed.pool.policy.disabled => (
            true,
            pool_ready::DISABLED,
            "spec.disabled: it gives nothing new, and its Services keep their addresses".to_owned(),
        ),
        None if reviewed.pool.addresses.is_empty() => (
            false,
            pool_ready::NO_ADDRESSES,
            "spec.exclude leaves out every address of spec.addresses: add addresses, or exclude fewer"
                .to_owned(),
        ),
        None => (true, pool_ready::USABLE, "every address can be given".to_owned()),
    }
}
