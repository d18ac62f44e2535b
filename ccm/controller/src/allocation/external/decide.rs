//! Decision which external IPs are announced, and which are rejected. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_api::ServiceRef;
use windlass_ipam::{Requester, Terms};

use super::external_ips;
use crate::allocation::pools::ReviewedPool;

/// Returns true if the Service wants `address` as an external IP and may have it. While this is so, it keeps an address that it holds
/// for this reason.
pub(crate) fn wants_external(
    service: &Service,
    requester: &Requester,
    address: IpAddr,
    pools: &[ReviewedPool],
) -> bool {
    service.metadata.deletion_timestamp.is_none()
        && external_ips(service).contains(&address)
        && pool_of(pools, address).is_some_and(|pool| pool.admits_external(requester).is_ok())
}

/// A Service with external IPs.
#[derive(Debug, Clone)]
pub(crate) struct ExternalIpUser {
    pub(crate) owner: ServiceRef,
    pub(crate) requester: Requester,
    /// Its ports count.
    pub(crate) terms: Terms,
}

/// A holder of an address, and its sharing terms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder<'a> {
    pub(crate) owner: &'a ServiceRef,
    pub(crate) terms: &'a Terms,
}

/// Decision about one address in `spec.externalIPs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExternalIpDecision {
    /// No pool has it: it is not managed here.
    InNoPool,
    /// The Service has it already.
    AlreadyHeld,
    /// It is to be claimed for the Service, alone or together with its present holders.
    Claim,
    /// It is not announced: why, in words that end a sentence about the address.
    Refused {
        /// The pool that has it.
        pool: String,
        why: String,
    },
}

/// Decides on one address. `holders` have it; `kept_back`, called where nothing else is in the way, returns the reason that no Service
/// may have it for now.
pub(crate) fn decide(
    user: &ExternalIpUser,
    address: IpAddr,
    pools: &[ReviewedPool],
    holders: &[Holder<'_>],
    kept_back: impl FnOnce() -> Option<String>,
) -> ExternalIpDecision {
    let Some(pool) = pool_of(pools, address) else { return ExternalIpDecision::InNoPool };
    let refused = |why: String| ExternalIpDecision::Refused { pool: pool.pool.name.clone(), why };
    if let Err(why) = pool.admits_external(&user.requester) {
        return refused(why);
    }
    if holders.iter().any(|holder| *holder.owner == user.owner) {
        return ExternalIpDecision::AlreadyHeld;
    }
    for Holder { owner, terms } in holders {
        let who = format!("Service {owner}");
        if owner.namespace != user.owner.namespace {
            return refused(format!("{who} of another namespace has it: use another address"));
        }
        if let Some(port) = terms.ports.intersection(&user.terms.ports).next() {
            return refused(format!(
                "{who} has it and listens on port {} too: use another port or address",
                port.number
            ));
        }
    }
    if let Some(why) = kept_back() {
        return refused(why);
    }
    if holders.is_empty() && pool.pool.reserved.contains(address) {
        return refused(format!(
            "pool {:?} reserves it (see spec.avoidReserved and the pool's condition Ready): use another \
             address",
            pool.pool.name
        ));
    }
    ExternalIpDecision::Claim
}

fn pool_of(pools: &[ReviewedPool], address: IpAddr) -> Option<&ReviewedPool> {
    pools.iter().find(|reviewed| reviewed.pool.addresses.contains(address))
}

#[cfg(test)]
mod tests;
