//! The error for a Service that is given no address. Pure.

use std::net::IpAddr;

use windlass_api::{ServiceRef, address_allocated};
use windlass_ccm::ProviderError;
use windlass_ipam::{AllocateError, PoolRefusal, RefusalReason};

use crate::controller::allocation::request::RequestError;

/// The Service asks for something impossible.
pub(crate) fn request_rejected(error: &RequestError) -> ProviderError {
    ProviderError::Rejected { reason: address_allocated::INVALID_REQUEST, message: error.to_string() }
}

/// The pools do not give what the Service asks for. `node_with` says which node has an address itself: such an address belongs to
/// no pool, whatever the pool lists, and adding it to one would not help.
pub(crate) fn allocation_rejected<'a>(
    error: &AllocateError<ServiceRef>,
    node_with: impl Fn(IpAddr) -> Option<&'a str>,
) -> ProviderError {
    let message = match error {
        AllocateError::InNoPool { address, .. }
        | AllocateError::NotInPool { address, belongs_to: None, .. } => node_with(*address).map(|node| {
            format!(
                "address {address} is an address of node {node} and is never given: ask for another address"
            )
        }),
        AllocateError::NotInPool { .. }
        | AllocateError::NoFreeAddress { .. }
        | AllocateError::NoSuchPool { .. }
        | AllocateError::PoolRefuses { .. }
        | AllocateError::Reserved { .. }
        | AllocateError::Taken { .. }
        | AllocateError::SharingRefused { .. }
        | AllocateError::Quarantined { .. }
        | AllocateError::WrongFamily { .. }
        | AllocateError::FamilyNotNamed { .. }
        | AllocateError::NamedTwice { .. }
        | AllocateError::NothingWanted => None,
    };
    ProviderError::Rejected { reason: reason(error), message: message.unwrap_or_else(|| error.to_string()) }
}

/// `reason` of the condition.
pub(crate) fn reason(error: &AllocateError<ServiceRef>) -> &'static str {
    match error {
        AllocateError::NoFreeAddress { considered, .. } if are_for_others(considered) => {
            address_allocated::POOL_NOT_ALLOWED
        }
        AllocateError::NoFreeAddress { .. } => address_allocated::NO_FREE_ADDRESS,
        AllocateError::NoSuchPool { .. } => address_allocated::NO_SUCH_POOL,
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

/// Whether all pools that could give an address are for other namespaces or labels.
fn are_for_others(considered: &[PoolRefusal]) -> bool {
    let mut for_others = false;
    for refused in considered {
        match refused.why {
            RefusalReason::OtherNamespace | RefusalReason::OtherLabels => for_others = true,
            RefusalReason::NotNamed | RefusalReason::OtherFamily => {}
            RefusalReason::NotAutoAssign
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
