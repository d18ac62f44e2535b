//! The result for a Service whose addresses are claimed: whether they work, and its condition. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::{CONDITION_ADDRESS_ALLOCATED, VirtualIP, address_allocated, announced, event};
use windlass_ccm::{Ensured, ProviderError};
use windlass_ipam::{Families, Family, Plan, PlannedAddress};

use crate::allocation::condition;
use crate::placement::plan::{Flaw, why_unplaced};

/// Announcement state of one address of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// Some node announces it.
    Announced,
    /// Some node announces it, and another host of the LAN uses it, too.
    Contested {
        /// The other host.
        message: String,
    },
    /// Some node announces it, and clients do not reach it all the same.
    Flawed(Flaw),
    /// It is about to be announced.
    Pending {
        /// For what.
        message: String,
    },
    /// No node can announce it until a configuration or object changes.
    Blocked {
        /// The required change, and the actor that has to make it.
        message: String,
    },
    /// Another host of the LAN has it.
    Taken {
        /// The other host.
        message: String,
    },
    /// The Service's status shows it already, or did, and it stays there, but nobody announces it at the moment.
    ShownPending {
        /// The event that it waits for.
        message: String,
    },
    /// The Service's status shows it already, and it stays there, but no node announces it until a configuration or object changes, or
    /// another host releases it.
    ShownBlocked {
        /// The required change, and the actor that has to make it.
        message: String,
    },
}

impl Announcement {
    /// Returns true if a node announces it.
    const fn is_announced(&self) -> bool {
        match self {
            Self::Announced | Self::Contested { .. } | Self::Flawed(_) => true,
            Self::Pending { .. }
            | Self::Blocked { .. }
            | Self::Taken { .. }
            | Self::ShownPending { .. }
            | Self::ShownBlocked { .. } => false,
        }
    }
}

/// Returns the announcement state of an address. `used`: the Service's status has it, or had it. `flaw`: the reason that clients do
/// not reach it although a node announces it.
pub(crate) fn announcement(
    address: IpAddr,
    vip: Option<&VirtualIP>,
    used: bool,
    flaw: Option<&Flaw>,
) -> Announcement {
    let pending = |message| {
        if used { Announcement::ShownPending { message } } else { Announcement::Pending { message } }
    };
    let blocked = |message| {
        if used { Announcement::ShownBlocked { message } } else { Announcement::Blocked { message } }
    };
    let Some(vip) = vip else { return pending(format!("waiting for the VirtualIP of {address}")) };
    if let Some(conflict) = vip.conflict() {
        return Announcement::Contested { message: conflict.message.clone() };
    }
    if vip.is_announced() {
        return flaw.cloned().map_or(Announcement::Announced, Announcement::Flawed);
    }
    if let Some(why) = why_unplaced(vip) {
        return blocked(why.to_owned());
    }
    let condition = vip.announced().filter(|_| vip.spec.quarantine.is_none());
    match condition.map(|known| (known.reason.as_str(), known.message.clone())) {
        Some((announced::ADDRESS_TAKEN, message)) if !used => Announcement::Taken { message },
        Some((announced::ADDRESS_TAKEN | announced::ADDRESS_REFUSED | announced::UNGUARDED, message)) => {
            blocked(message)
        }
        // An update of the agent, most of the time.
        Some((announced::AGENT_STOPPED, message)) => pending(message),
        Some(_) | None => pending(match &vip.spec.virtual_router {
            Some(router) => format!("waiting for a node of virtual router {router} to announce {address}"),
            None => format!("waiting for a virtual router for {address}"),
        }),
    }
}

/// Returns the event and its message about an address in use of the Service that another host has or uses, too; `None`: there is no
/// such host, or the Service's condition reports it already.
pub(crate) fn newly_taken(service: &Service, vip: &VirtualIP) -> Option<(&'static str, String)> {
    let is_taken = |one: &&Condition| {
        !vip.is_announced() && vip.spec.quarantine.is_none() && one.reason == announced::ADDRESS_TAKEN
    };
    let taken = vip.announced().filter(is_taken).map(|one| (event::ADDRESS_TAKEN, &one.message));
    let (event, message) = taken.or_else(|| Some((event::ADDRESS_CONFLICT, &vip.conflict()?.message)))?;
    let mut conditions = service.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let tells =
        |known: &Condition| known.type_ == CONDITION_ADDRESS_ALLOCATED && known.message.contains(message);
    (!conditions.any(tells)).then(|| (event, message.clone()))
}

/// The result for a Service with this plan, which names `pool` if it names one, and whose status shows these addresses of
/// its own. Of a Service that needs both families, both work or none is shown; of others what works is shown, once it is
/// known that the rest will not. What was shown stays.
pub(crate) fn ensure_result(
    plan: &Plan,
    families: Families,
    pool: Option<&str>,
    shown: &BTreeSet<IpAddr>,
    announcement: impl Fn(IpAddr) -> Announcement,
    foreign: Vec<LoadBalancerIngress>,
) -> Result<Ensured, ProviderError> {
    let reason = address_allocated::NOT_ANNOUNCED;
    let mut kept: Vec<&PlannedAddress> = Vec::new();
    let (mut pending, mut shown_pending, mut shown_blocked, mut blocked, mut flaws) =
        (None, Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut flaw_reason = None;
    for planned in &plan.addresses {
        match announcement(planned.address) {
            Announcement::Announced => kept.push(planned),
            Announcement::Contested { message } => {
                kept.push(planned);
                flaws.push(message);
                flaw_reason = Some(address_allocated::ADDRESS_CONFLICT);
            }
            Announcement::Flawed(Flaw { reason, message }) => {
                kept.push(planned);
                flaws.push(message);
                flaw_reason = flaw_reason.or(Some(reason));
            }
            Announcement::Pending { message } => pending = pending.or(Some(message)),
            Announcement::Blocked { message } | Announcement::Taken { message } => blocked.push(message),
            Announcement::ShownPending { message } => {
                kept.push(planned);
                shown_pending.push(message);
            }
            Announcement::ShownBlocked { message } => {
                kept.push(planned);
                shown_blocked.push(message);
            }
        }
    }
    // That nobody announces a shown address at the moment is not reported by itself, only together with something else.
    let is_old = |kept: &&PlannedAddress| shown.contains(&kept.address);
    if !shown_pending.is_empty() && shown_blocked.is_empty() && kept.iter().all(is_old) {
        pending = pending.or_else(|| Some([&shown_pending[..], &blocked].concat().join("; ")));
    }
    let works_meanwhile = !shown.is_empty() && shown.iter().all(|one| announcement(*one).is_announced());
    // The condition records the addresses also while others are pending.
    let has = condition::held_addresses(pool, &kept);
    let and_has = |message: String| {
        let known = if kept.is_empty() { Vec::new() } else { [vec![has.clone()], flaws.clone()].concat() };
        [known, vec![message]].concat().join("; ")
    };
    if let Some(message) = pending {
        return Ok(Ensured::Pending { works: works_meanwhile, reason, message: and_has(message) });
    }
    let works = shown_blocked.is_empty() && shown_pending.is_empty();
    let problems = [shown_blocked, shown_pending, blocked].concat().join("; ");
    let strict = matches!(families, Families::Require(_));
    let missing = kept.len() < plan.addresses.len();
    if missing && (strict || kept.is_empty()) {
        let message = and_has(problems);
        return Err(if works_meanwhile {
            ProviderError::Blocked { reason, message }
        } else {
            ProviderError::Rejected { reason, message }
        });
    }
    let (reason, message) = if problems.is_empty() {
        let (reason, message) = reason_and_message(plan, pool, &kept, has);
        (flaw_reason.unwrap_or(reason), [vec![message], flaws].concat().join("; "))
    } else {
        (reason, and_has(problems))
    };
    let addresses = kept.iter().map(|planned| planned.address);
    Ok(Ensured::Ready { status: status(addresses, foreign), works, reason, message })
}

/// Reason and message of the condition if all addresses are announced. The message begins with `has`.
fn reason_and_message(
    plan: &Plan,
    pool: Option<&str>,
    working: &[&PlannedAddress],
    has: String,
) -> (&'static str, String) {
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
                "{has}: kept although pool {pool:?}, which the Service names, does not hold it any more; name pool {its:?}, \
                 or add the address to pool {pool:?}"
            ),
        );
    }
    if !plan.missing.is_empty() {
        let missing: BTreeSet<String> = plan.missing.iter().map(Family::to_string).collect();
        let missing = missing.into_iter().collect::<Vec<_>>().join(" and ");
        return (
            address_allocated::FAMILY_MISSING,
            format!(
                "{has}; no pool can give the Service an {missing} address: add some to a pool that it may use"
            ),
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

/// Returns true if an entry of a status is ours.
pub(crate) fn is_own(entry: &LoadBalancerIngress, is_ours: impl Fn(IpAddr) -> bool) -> bool {
    entry.ip.as_deref().and_then(|ip| ip.parse().ok()).is_some_and(is_ours)
}

#[cfg(test)]
mod tests;
