//! Our condition on a Service as a record of its addresses: its format and its parser. It outlives the object and the pool, and an
//! edit of the addresses in the status seldom edits it. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::CONDITION_ADDRESS_ALLOCATED;
use windlass_ccm::conditions::find;
use windlass_ipam::PlannedAddress;

/// Beginning of the item of an address in the message of the condition, whatever its pool.
fn item_prefix(address: IpAddr) -> String {
    format!("{address} from ")
}

/// Our condition on the Service.
fn allocated_condition(service: &Service) -> Option<&Condition> {
    find(service.status.as_ref()?.conditions.as_ref()?, CONDITION_ADDRESS_ALLOCATED)
}

/// Returns true if our condition on the Service lists `address` as allocated from `pool`, which the Service names.
pub(crate) fn says_has_from_pool(service: &Service, address: IpAddr, pool: &str) -> bool {
    let of_pool = format!("pool {pool:?}");
    items(service).any(|item| item.starts_with(&item_prefix(address)) && item.contains(&of_pool))
}

/// Returns true if our condition on the Service lists `address`.
pub(crate) fn says_has_address(service: &Service, address: IpAddr) -> bool {
    items(service).any(|item| item.starts_with(&item_prefix(address)))
}

/// The items of the message of our condition on the Service.
fn items(service: &Service) -> impl Iterator<Item = &str> {
    let message = allocated_condition(service).map_or("", |condition| &condition.message);
    message.split("; ").flat_map(|part| part.split(", "))
}

/// The part of the message that lists these addresses and their pools, for a Service that names `pool`.
pub(crate) fn held_addresses(pool: Option<&str>, kept: &[&PlannedAddress]) -> String {
    let named = |planned: &&PlannedAddress| {
        let its = planned.pool.as_deref();
        let its_pool = its.map_or_else(|| "no pool".to_owned(), |its| format!("pool {its:?}"));
        let instead = pool.filter(|pool| its != Some(*pool)).map(|pool| format!(" instead of pool {pool:?}"));
        format!("{}{its_pool}{}", item_prefix(planned.address), instead.unwrap_or_default())
    };
    kept.iter().map(named).collect::<Vec<_>>().join(", ")
}
