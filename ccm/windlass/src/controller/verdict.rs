//! What to say of a Service whose addresses are claimed: whether they work, and the words of its condition. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};
use windlass_api::{
    CONDITION_ADDRESS_ALLOCATED, REASON_ADDRESS_TAKEN, REASON_UNGUARDED, VirtualIP, address_allocated,
};
use windlass_ccm::{Ensured, ProviderError};
use windlass_ipam::{Families, Family, Plan, Planned};

use super::state::{announced_condition, is_announced, why_unplaced};

/// How far one address of a Service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Some node announces it, or the Service's status shows it already: then it stays there, whoever announces it now.
    Works,
    /// It is on its way.
    Waits {
        /// For what.
        message: String,
    },
    /// It cannot be announced until somebody changes something.
    Blocked {
        /// What, and by whom.
        message: String,
    },
    /// The Service's status shows it already, and it stays there; but nobody announces it, because nobody can keep out who
    /// may not use it.
    Mute {
        /// Who cannot, and what helps.
        message: String,
    },
    /// Another station of the LAN has it.
    Taken {
        /// Which.
        message: String,
    },
}

/// How far an address is. `shown`: the Service's status has it.
pub(crate) fn progress(address: IpAddr, vip: Option<&VirtualIP>, shown: bool) -> Progress {
    let condition = vip.filter(|vip| vip.spec.quarantine.is_none()).and_then(announced_condition);
    if let Some(condition) = condition.filter(|one| one.reason == REASON_UNGUARDED) {
        let message = condition.message.clone();
        return if shown { Progress::Mute { message } } else { Progress::Blocked { message } };
    }
    if shown || vip.is_some_and(is_announced) {
        return Progress::Works;
    }
    let Some(vip) = vip else {
        return Progress::Waits { message: format!("waiting for the VirtualIP of {address}") };
    };
    if let Some(condition) = announced_condition(vip).filter(|one| one.reason == REASON_ADDRESS_TAKEN) {
        return Progress::Taken { message: condition.message.clone() };
    }
    if let Some(why) = why_unplaced(vip) {
        return Progress::Blocked { message: why.to_owned() };
    }
    let message = match &vip.spec.virtual_router {
        Some(router) => format!("waiting for a node of virtual router {router} to announce {address}"),
        None => format!("waiting for a virtual router for {address}"),
    };
    Progress::Waits { message }
}

/// What to answer for a Service with this plan, which names `pool` if it names one. Of a Service that needs both families, both work or none is shown; of
/// others what works is shown, once it is known that the rest will not.
pub(crate) fn verdict(
    plan: &Plan,
    families: Families,
    pool: Option<&str>,
    progress: impl Fn(IpAddr) -> Progress,
    foreign: Vec<LoadBalancerIngress>,
) -> Result<Ensured, ProviderError> {
    let mut working: Vec<&Planned> = Vec::new();
    let mut waits = None;
    let mut blocked = Vec::new();
    for planned in &plan.addresses {
        match progress(planned.address) {
            Progress::Works => working.push(planned),
            Progress::Mute { message } => {
                working.push(planned);
                blocked.push(message);
            }
            Progress::Waits { message } => waits = waits.or(Some(message)),
            Progress::Blocked { message } | Progress::Taken { message } => blocked.push(message),
        }
    }
    if let Some(message) = waits {
        return Ok(Ensured::Pending { reason: address_allocated::NOT_ANNOUNCED, message });
    }
    let strict = matches!(families, Families::Require(_));
    let missing = working.len() < plan.addresses.len();
    if !blocked.is_empty() && missing && (strict || working.is_empty()) {
        return Err(ProviderError::Blocked {
            reason: address_allocated::NOT_ANNOUNCED,
            message: blocked.join("; "),
        });
    }
    let (reason, message) = words(plan, pool, &working, &blocked);
    let addresses = working.iter().map(|planned| planned.address);
    Ok(Ensured::Ready { status: status(addresses, foreign), reason, message })
}

/// What a condition says of an address that a Service has, as far as it does not depend on its pool.
fn from(address: IpAddr) -> String {
    format!("{address} from ")
}

/// Whether our condition on the Service says that it has `address`: a memory of the kind that outlives the object and the
/// pool.
pub(crate) fn says_ours(service: &Service, address: IpAddr) -> bool {
    let conditions = service.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ours = conditions.into_iter().find(|one| one.type_ == CONDITION_ADDRESS_ALLOCATED);
    ours.is_some_and(|condition| {
        let items = condition.message.split("; ").flat_map(|part| part.split(", "));
        items.into_iter().any(|item| item.starts_with(&from(address)))
    })
}

fn words(
    plan: &Plan,
    pool: Option<&str>,
    working: &[&Planned],
    blocked: &[String],
) -> (&'static str, String) {
    let named = |planned: &&Planned| match &planned.pool {
        Some(pool) => format!("{}pool {pool:?}", from(planned.address)),
        None => format!("{}no pool", from(planned.address)),
    };
    let has = working.iter().map(named).collect::<Vec<_>>().join(", ");
    if !blocked.is_empty() {
        return (address_allocated::NOT_ANNOUNCED, format!("{has}; {}", blocked.join("; ")));
    }
    if working.iter().any(|planned| planned.pool.is_none()) {
        return (
            address_allocated::ADDRESS_OUTSIDE_POOLS,
            format!(
                "{has}: kept although no pool holds it any more; add it to a pool, or allow the move by spec.onRemoval: \
                 Move of its pool or annotation {}=\"true\" on its VirtualIP",
                windlass_api::ANNOTATION_ALLOW_MOVE
            ),
        );
    }
    let elsewhere =
        working.iter().find_map(|planned| planned.pool.as_deref().filter(|its| Some(*its) != pool));
    if let (Some(pool), Some(its)) = (pool, elsewhere) {
        return (
            address_allocated::ADDRESS_IN_OTHER_POOL,
            format!(
                "{has}: kept although the Service names pool {pool:?}, which does not hold it any more; name pool {its:?}, \
                 or add the address to pool {pool:?}"
            ),
        );
    }
    if !plan.missing.is_empty() {
        let missing: BTreeSet<String> = plan.missing.iter().map(Family::to_string).collect();
        let missing = missing.into_iter().collect::<Vec<_>>().join(" and ");
        return (
            address_allocated::FAMILY_MISSING,
            format!("{has}; no {missing} address can be had from any pool: add some to a pool it may use"),
        );
    }
    (address_allocated::ALLOCATED, has)
}

/// These addresses, then the entries of others.
pub(crate) fn status(
    addresses: impl IntoIterator<Item = IpAddr>,
    foreign: Vec<LoadBalancerIngress>,
) -> LoadBalancerStatus {
    let ingress = |address: IpAddr| LoadBalancerIngress {
        ip: Some(address.to_string()),
        // The API server would default it, and every later comparison would find a difference (service-contract §0.7).
        ip_mode: Some("VIP".to_owned()),
        ..LoadBalancerIngress::default()
    };
    LoadBalancerStatus { ingress: Some(addresses.into_iter().map(ingress).chain(foreign).collect()) }
}

/// The entries of a Service's status that are not ours: host names, and addresses that `is_ours` disowns.
pub(crate) fn foreign(service: &Service, is_ours: impl Fn(IpAddr) -> bool) -> Vec<LoadBalancerIngress> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = balancer.into_iter().flat_map(|balancer| balancer.ingress.iter().flatten());
    entries.filter(|entry| !is_own(entry, &is_ours)).cloned().collect()
}

/// Whether an entry of a status is ours.
pub(crate) fn is_own(entry: &LoadBalancerIngress, is_ours: impl Fn(IpAddr) -> bool) -> bool {
    entry.ip.as_deref().and_then(|ip| ip.parse().ok()).is_some_and(is_ours)
}

#[cfg(test)]
mod tests;
