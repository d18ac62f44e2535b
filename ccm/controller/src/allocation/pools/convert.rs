//! From the spec of a `VirtualIPPool` to the pool it means. Pure.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use windlass_api::{
    AllocationOrder, AvoidReserved, OnAddressInUse, OnRemoval, VirtualIPPoolSpec, WhenFull as SpecWhenFull,
};
use windlass_ipam::{AddressRange, AddressSet, Limits, Order, Policy, WhenFull};

use super::unusable::reserved_in;
use super::{Problem, Reason, shortened};
use windlass_common::label_selector::selector;

/// Spec of a pool, as far as it can be read.
#[derive(Debug)]
pub(super) struct ParsedSpec {
    /// Its addresses without what it excludes.
    pub(super) addresses: AddressSet,
    /// Subset of `addresses` that `avoidReserved` reserves.
    pub(super) reserved: AddressSet,
    pub(super) policy: Policy,
    pub(super) problems: Vec<Problem>,
}

/// Reads a spec. Addresses that cannot be read are missing; an exclusion or a selector that cannot be read might have kept
/// addresses back, so that the pool gives nothing until it is put right.
pub(super) fn parse_spec(spec: &VirtualIPPoolSpec) -> ParsedSpec {
    let mut problems = Vec::new();
    let mut addresses = AddressSet::default();
    let mut reserved = AddressSet::default();
    let mut twice = AddressSet::default();
    for text in &spec.addresses {
        match text.parse::<AddressRange>() {
            Ok(range) => {
                twice.extend(&addresses.intersection(&AddressSet::from_iter([range])));
                addresses.insert(range);
                if text.contains('/') {
                    reserved.extend(&edges(text.trim(), spec.avoid_reserved));
                }
            }
            Err(error) => problems.push(Problem::new(Reason::InvalidAddresses, error.to_string())),
        }
    }
    if !twice.is_empty() {
        let message = format!("{} written more than once: write each address once", shortened(&twice));
        problems.push(Problem::new(Reason::DuplicateAddresses, message));
    }
    let mut policy = policy(spec);
    problems.extend(unknown_values(spec));
    policy.disabled |= spec.avoid_reserved == AvoidReserved::Unknown;
    for text in &spec.exclude {
        match text.parse::<AddressRange>() {
            Ok(range) => addresses.remove(range),
            Err(error) => {
                policy.disabled = true;
                let message = format!("spec.exclude: {error}; until then the pool gives nothing");
                problems.push(Problem::new(Reason::InvalidExclusion, message));
            }
        }
    }
    let lists = [
        ("spec.namespaceSelectors", &spec.namespace_selectors, &mut policy.namespace_selectors),
        ("spec.serviceSelectors", &spec.service_selectors, &mut policy.service_selectors),
    ];
    for (field, selectors, read) in lists {
        for (index, one) in selectors.iter().enumerate() {
            match selector(one) {
                Ok(one) => read.push(one),
                Err(error) => {
                    policy.disabled = true;
                    let message = format!("{field}[{index}]: {error}; until then the pool gives nothing");
                    problems.push(Problem::new(Reason::InvalidSelector, message));
                }
            }
        }
    }
    ParsedSpec { reserved: reserved.intersection(&addresses), addresses, policy, problems }
}

/// Values that only a newer version of Windlass knows, which has made or upgraded the custom resource definitions: this one
/// does what is safe instead.
fn unknown_values(spec: &VirtualIPPoolSpec) -> Vec<Problem> {
    [
        ("avoidReserved", spec.avoid_reserved == AvoidReserved::Unknown, "until then the pool gives nothing"),
        ("allocationOrder", spec.allocation_order == AllocationOrder::Unknown, "until then it is Lowest"),
        ("whenFull", spec.when_full == SpecWhenFull::Unknown, "until then it is Wait"),
        ("onRemoval", spec.on_removal == OnRemoval::Unknown, "until then it is Keep"),
        ("onAddressInUse", spec.on_address_in_use == OnAddressInUse::Unknown, "until then it is Refuse"),
    ]
    .into_iter()
    .filter(|(_, is_unknown, _)| *is_unknown)
    .map(|(field, _, instead)| {
        let message = format!(
            "spec.{field} has a value that this version does not know: upgrade the controller; {instead}"
        );
        Problem::new(Reason::UnknownValue, message)
    })
    .collect()
}

/// The policy without its selectors.
fn policy(spec: &VirtualIPPoolSpec) -> Policy {
    Policy {
        auto_assign: spec.auto_assign,
        disabled: spec.disabled,
        priority: spec.priority,
        order: match spec.allocation_order {
            AllocationOrder::Lowest | AllocationOrder::Unknown => Order::Lowest,
            AllocationOrder::Highest => Order::Highest,
            AllocationOrder::LeastRecentlyUsed => Order::LeastRecentlyUsed,
        },
        avoid_class_c: match spec.avoid_reserved {
            AvoidReserved::SubnetAndClassC => true,
            AvoidReserved::None | AvoidReserved::Subnet | AvoidReserved::Unknown => false,
        },
        quarantine: Duration::from_secs(spec.quarantine_seconds.into()),
        namespace_quarantine: Duration::from_secs(spec.namespace_quarantine_seconds.into()),
        limits: Limits { per_namespace: spec.max_per_namespace, per_owner: spec.max_per_service },
        when_full: match spec.when_full {
            SpecWhenFull::UseOthers => WhenFull::UseOthers,
            SpecWhenFull::Wait | SpecWhenFull::Unknown => WhenFull::Wait,
        },
        namespaces: spec.namespaces.iter().cloned().collect(),
        namespace_selectors: Vec::new(),
        service_selectors: Vec::new(),
    }
}

/// The addresses of a CIDR that would be no host's if it were a subnet. An IPv6 one that is longer than subnets are is part
/// of one: only its first address may be such (RFC 4291 §2.6.1: the subnet-router anycast address).
fn edges(text: &str, avoid: AvoidReserved) -> AddressSet {
    match (avoid, text.parse::<IpNet>()) {
        (AvoidReserved::None | AvoidReserved::Unknown, _) | (_, Err(_)) => AddressSet::default(),
        (AvoidReserved::Subnet | AvoidReserved::SubnetAndClassC, Ok(IpNet::V6(net)))
            if (SUBNET_BITS + 1..=126).contains(&net.prefix_len()) =>
        {
            AddressSet::from_iter([IpAddr::V6(net.network())])
        }
        (AvoidReserved::Subnet | AvoidReserved::SubnetAndClassC, Ok(net)) => reserved_in(net),
    }
}

/// Length of the prefix of an ordinary IPv6 subnet.
const SUBNET_BITS: u8 = 64;

#[cfg(test)]
mod tests;
