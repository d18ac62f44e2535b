//! Why a Service is given no address, as the service controller is to say it. Pure.

use windlass_api::{ServiceRef, address_allocated};
use windlass_ccm::ProviderError;
use windlass_ipam::{AllocateError, Refusal, Refused};

use super::request::RequestError;

/// The Service asks for something that nobody could give.
pub(crate) fn unserveable(error: &RequestError) -> ProviderError {
    ProviderError::Rejected { reason: address_allocated::INVALID_REQUEST, message: error.to_string() }
}

/// The pools do not give what it asks for.
pub(crate) fn refused(error: &AllocateError<ServiceRef>) -> ProviderError {
    ProviderError::Rejected { reason: reason(error), message: error.to_string() }
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

/// Whether the pools that it could have an address from are for other namespaces or labels, all of them.
fn are_for_others(considered: &[Refused]) -> bool {
    let mut for_others = false;
    for refused in considered {
        match refused.why {
            Refusal::OtherNamespace | Refusal::OtherLabels => for_others = true,
            Refusal::NotNamed | Refusal::OtherFamily => {}
            Refusal::NotAutoAssign | Refusal::Disabled | Refusal::Full { .. } | Refusal::TooFew { .. } => {
                return false;
            }
        }
    }
    for_others
}

#[cfg(test)]
mod tests;
