//! The error for a Service that is given no address. Pure.

use std::net::IpAddr;

use jiff::Timestamp;
use windlass_api::{ServiceRef, address_allocated};
use windlass_ccm::ProviderError;
use windlass_ipam::{AllocateError, PoolRefusal, QuarantineCause, Quarantined, RefusalReason};

use crate::allocation::ledger::Ledger;
use crate::allocation::request::RequestError;

/// Reason and message of the condition of a Service that is given no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl From<Rejection> for ProviderError {
    fn from(Rejection { reason, message }: Rejection) -> Self {
        Self::Rejected { reason, message }
    }
}

/// The Service asks for something impossible.
impl From<&RequestError> for Rejection {
    fn from(error: &RequestError) -> Self {
        Self { reason: address_allocated::INVALID_REQUEST, message: error.to_string() }
    }
}

/// Returns the rejection of a request that the pools cannot meet. `node_with` returns the node that has an address itself: such an
/// address belongs to no pool, whatever the pool lists, and adding it to one would not help. `foreign_service_with`: the Service that
/// another load balancer gave an address. `stays_with`: the holder that a released address stays with.
pub(crate) fn allocation_rejected<'a>(
    error: &AllocateError<ServiceRef>,
    node_with: impl Fn(IpAddr) -> Option<&'a str>,
    foreign_service_with: impl Fn(IpAddr) -> Option<&'a str>,
    stays_with: StaysWith,
) -> Rejection {
    let because = |reason, message| Rejection { reason, message };
    let better = match error {
        AllocateError::InNoPool { address, .. }
        | AllocateError::NotInPool { address, belongs_to: None, .. } => node_with(*address).map(|node| {
            let message = format!(
                "address {address} is an address of node {node} and is never given: ask for another address \
                 of the subnet. If the machine has no other, serve its pods by hostPort or NodePort, which \
                 need no virtual IP"
            );
            because(reason(error), message)
        }),
        AllocateError::Quarantined { address, quarantined } => {
            stays_until(*address, quarantined, stays_with).map(|message| because(reason(error), message))
        }
        AllocateError::Reserved { address, .. } => foreign_service_with(*address).map(|service| {
            let message = format!(
                "address {address} is in use by Service {service}, which another load balancer serves: ask \
                 for another address, or have Windlass serve that Service"
            );
            because(address_allocated::ADDRESS_IN_USE, message)
        }),
        AllocateError::NotInPool { .. }
        | AllocateError::NoFreeAddress { .. }
        | AllocateError::NoSuchPool { .. }
        | AllocateError::PoolRefuses { .. }
        | AllocateError::Taken { .. }
        | AllocateError::SharingRefused { .. }
        | AllocateError::WrongFamily { .. }
        | AllocateError::FamilyNotNamed { .. }
        | AllocateError::NamedTwice { .. }
        | AllocateError::NothingWanted => None,
    };
    better.unwrap_or_else(|| because(reason(error), error.to_string()))
}

/// Holder that an address stays with after a Service released it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StaysWith {
    /// The Service that released it.
    Service,
    /// Its namespace, by the setting of the pool.
    Namespace,
}

impl StaysWith {
    /// Returns the holder that the address of `error` stays with.
    pub(crate) fn of(ledger: &Ledger, error: &AllocateError<ServiceRef>) -> Self {
        let AllocateError::Quarantined { address, .. } = error else { return Self::Service };
        let pool = ledger.pool_of(*address);
        if pool.is_some_and(|pool| !pool.policy.namespace_quarantine.is_zero()) {
            Self::Namespace
        } else {
            Self::Service
        }
    }
}

/// Returns the text that an address stays with its holder, and until when.
fn stays_until(
    address: IpAddr,
    quarantined: &Quarantined<ServiceRef>,
    stays_with: StaysWith,
) -> Option<String> {
    let (former, others) = match (quarantined.reason, quarantined.former.as_slice()) {
        (QuarantineCause::Released, [former, others @ ..]) => (former, others.len()),
        (QuarantineCause::Released, []) | (QuarantineCause::AddressTaken, _) => return None,
    };
    let until = Timestamp::from_millisecond(i64::try_from(quarantined.until.0).ok()?).ok()?;
    let others = if others == 0 { String::new() } else { format!(" and {others} more") };
    let whose = match stays_with {
        StaysWith::Service if others.is_empty() => "that Service".to_owned(),
        StaysWith::Service => "these Services".to_owned(),
        StaysWith::Namespace => format!("namespace {:?}", former.namespace),
    };
    Some(format!(
        "address {address} cannot be given before {until:.0}: Service {former}{others} released it, and its \
         pool keeps it for {whose} until then. Wait, or ask for another address"
    ))
}

/// `reason` of the condition, as far as the allocator knows.
fn reason(error: &AllocateError<ServiceRef>) -> &'static str {
    match error {
        AllocateError::NoFreeAddress { considered, .. } if are_for_others(considered) => {
            address_allocated::POOL_NOT_ALLOWED
        }
        AllocateError::NoFreeAddress { considered, .. } if considered.iter().any(is_limit) => {
            address_allocated::LIMIT_REACHED
        }
        AllocateError::NoFreeAddress { .. } => address_allocated::NO_FREE_ADDRESS,
        AllocateError::NoSuchPool { .. } => address_allocated::NO_SUCH_POOL,
        AllocateError::PoolRefuses { refusal, .. } if is_limit(refusal) => address_allocated::LIMIT_REACHED,
        AllocateError::PoolRefuses { .. } | AllocateError::Reserved { .. } => {
            address_allocated::POOL_NOT_ALLOWED
        }
        AllocateError::Taken { .. } | AllocateError::Quarantined { .. } => address_allocated::ADDRESS_IN_USE,
        AllocateError::SharingRefused { .. } => address_allocated::SHARING_REFUSED,
        AllocateError::InNoPool { .. }
        | AllocateError::NotInPool { .. }
        | AllocateError::WrongFamily { .. }
        | AllocateError::FamilyNotNamed { .. }
        | AllocateError::NamedTwice { .. }
        | AllocateError::NothingWanted => address_allocated::INVALID_REQUEST,
    }
}

/// Returns true if a limit keeps the pool from giving an address.
const fn is_limit(refused: &PoolRefusal) -> bool {
    matches!(refused.why, RefusalReason::NamespaceLimit { .. } | RefusalReason::OwnerLimit { .. })
}

/// Returns true if all pools that could give an address are for other namespaces or labels.
fn are_for_others(considered: &[PoolRefusal]) -> bool {
    let mut for_others = false;
    for refused in considered {
        match refused.why {
            RefusalReason::OtherNamespace | RefusalReason::OtherLabels | RefusalReason::Confined => {
                for_others = true;
            }
            RefusalReason::NotNamed | RefusalReason::OtherFamily => {}
            RefusalReason::NotAutoAssign
            | RefusalReason::NamespaceLimit { .. }
            | RefusalReason::OwnerLimit { .. }
            | RefusalReason::Disabled
            | RefusalReason::Full
            | RefusalReason::TooFew { .. } => {
                return false;
            }
        }
    }
    for_others
}

#[cfg(test)]
mod tests;
