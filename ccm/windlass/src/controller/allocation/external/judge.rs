//! Which external IPs are announced, and which are refused. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_api::ServiceRef;
use windlass_ipam::{Requester, Terms};

use super::external_ips;
use crate::controller::allocation::pools::Reviewed;

/// Reason of the event that tells of an address that is not announced.
pub(super) const REFUSED: &str = "ExternalIPRefused";

/// Whether the Service wants `address` as an external IP and may have it: what it holds for this reason it keeps as long as
/// this is so.
pub(crate) fn wants_external(
    service: &Service,
    subject: &Requester,
    address: IpAddr,
    pools: &[Reviewed],
) -> bool {
    service.metadata.deletion_timestamp.is_none()
        && external_ips(service).contains(&address)
        && pool_of(pools, address).is_some_and(|pool| pool.admits_external(subject).is_ok())
}

/// A Service with external IPs.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    pub(crate) owner: ServiceRef,
    pub(crate) subject: Requester,
    /// Its ports count.
    pub(crate) terms: Terms,
}

/// Who has an address, and on which terms.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    pub(crate) owner: ServiceRef,
    pub(crate) terms: Terms,
}

/// What is to be done about one address in `spec.externalIPs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No pool has it: none of our business.
    Ignored,
    /// The Service has it already.
    Held,
    /// It is to be claimed for the Service, alone or together with who has it.
    Claim,
    /// It is not announced: a sentence for an event.
    Refused(String),
}

/// Decides on one address. `holders` have it; `kept_back` says why nobody may have it for now.
pub(crate) fn judge(
    asker: &Asker,
    address: IpAddr,
    pools: &[Reviewed],
    holders: &[Holder],
    kept_back: Option<&str>,
) -> Verdict {
    let Some(pool) = pool_of(pools, address) else { return Verdict::Ignored };
    let refused = |why: String| Verdict::Refused(format!("external IP {address} is not announced: {why}"));
    if let Err(why) = pool.admits_external(&asker.subject) {
        return refused(why);
    }
    if holders.iter().any(|holder| holder.owner == asker.owner) {
        return Verdict::Held;
    }
    if let Some(why) = kept_back {
        return refused(why.to_owned());
    }
    for Holder { owner, terms } in holders {
        let who = format!("Service {owner}");
        if owner.namespace != asker.owner.namespace {
            return refused(format!("{who} of another namespace has it: use another address"));
        }
        if let Some(port) = terms.ports.intersection(&asker.terms.ports).next() {
            return refused(format!(
                "{who} has it and listens on port {} too: use another port or address",
                port.number
            ));
        }
    }
    if holders.is_empty() && pool.pool.reserved.contains(address) {
        return refused(format!(
            "pool {:?} keeps it back (spec.avoidReserved, or its condition Ready says why): use another address",
            pool.pool.name
        ));
    }
    Verdict::Claim
}

fn pool_of(pools: &[Reviewed], address: IpAddr) -> Option<&Reviewed> {
    pools.iter().find(|reviewed| reviewed.pool.addresses.contains(address))
}

/// Refusals that were told already: each is told once, and again only after it was over.
#[derive(Debug, Default)]
pub(crate) struct Told {
    refused: BTreeMap<ServiceRef, BTreeSet<String>>,
    begun: bool,
}

impl Told {
    /// A look at all Services begins. Whether it is the first: what is refused then, a process before this one may have
    /// told.
    pub(crate) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// Of what is refused to `owner` now, what was not told yet.
    pub(crate) fn news(&mut self, owner: &ServiceRef, refused: BTreeSet<String>) -> Vec<String> {
        let known = self.refused.remove(owner).unwrap_or_default();
        let news = refused.difference(&known).cloned().collect();
        if !refused.is_empty() {
            self.refused.insert(owner.clone(), refused);
        }
        news
    }

    /// Whether nothing is refused.
    pub(crate) fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    /// Forgets Services that have no external IPs any more.
    pub(crate) fn keep_only(&mut self, owners: &BTreeSet<ServiceRef>) {
        self.refused.retain(|owner, _| owners.contains(owner));
    }
}

#[cfg(test)]
mod tests;
