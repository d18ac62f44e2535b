//! Our condition on a Service as a memory: what it says of the addresses that the Service has, and how that is read again.
//! It outlives the object and the pool, and a hand that forges the status leaves it alone. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::CONDITION_ADDRESS_ALLOCATED;
use windlass_ccm::conditions::find;
use windlass_ipam::PlannedAddress;

/// What a condition says of an address that a Service has, as far as it does not depend on its pool.
fn from(address: IpAddr) -> String {
    format!("{address} from ")
}

/// Our condition on the Service.
fn ours(service: &Service) -> Option<&Condition> {
    find(service.status.as_ref()?.conditions.as_ref()?, CONDITION_ADDRESS_ALLOCATED)
}

/// Whether our condition on the Service says that it has `address` as it asks, which is that it names `pool`.
pub(crate) fn says_of_pool(service: &Service, address: IpAddr, pool: &str) -> bool {
    let of_pool = format!("pool {pool:?}");
    items(service).any(|item| item.starts_with(&from(address)) && item.contains(&of_pool))
}

/// Whether our condition on the Service says that it has `address`: a memory of the kind that outlives the object and the
/// pool.
pub(crate) fn says_ours(service: &Service, address: IpAddr) -> bool {
    items(service).any(|item| item.starts_with(&from(address)))
}

/// What our condition on the Service says, piece by piece.
fn items(service: &Service) -> impl Iterator<Item = &str> {
    let message = ours(service).map_or("", |condition| &condition.message);
    message.split("; ").flat_map(|part| part.split(", "))
}

/// Which of these addresses is from where, for a Service that names `pool`.
pub(crate) fn has(pool: Option<&str>, kept: &[&PlannedAddress]) -> String {
    let named = |planned: &&PlannedAddress| {
        let its = planned.pool.as_deref();
        let its_pool = its.map_or_else(|| "no pool".to_owned(), |its| format!("pool {its:?}"));
        let instead = pool.filter(|pool| its != Some(*pool)).map(|pool| format!(" instead of pool {pool:?}"));
        format!("{}{its_pool}{}", from(planned.address), instead.unwrap_or_default())
    };
    kept.iter().map(named).collect::<Vec<_>>().join(", ")
}
