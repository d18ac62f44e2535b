//! External IPs: decides which are claimed, and what is reported of refused ones.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::Resource as _;
use windlass_api::{ServiceRef, event};
use windlass_ipam::{Acquisition, Families, Family, PlannedAddress, PoolRefusal, QuarantineCause, Request};

use super::decide::{ExternalIpDecision, ExternalIpUser, Holder, decide};
use super::refused::Refused;
use super::{excess, external_ips};
use crate::allocation::allocation_state::AllocationState;
use crate::allocation::ledger::ClaimAction;
use crate::allocation::request::terms;
use crate::stores::Stores;

/// Number of entries that are decided on before the state is released, or the next Service's turn comes: this bounds the wait of
/// others, whatever the entries.
const PORTION: usize = 256;

/// Pending steps for the external IPs of some Services.
#[derive(Debug, Default)]
pub(crate) struct ExternalIpSteps {
    pub(crate) claims: Vec<ExternalIpClaim>,
    pub(crate) events: Vec<(ObjectReference, &'static str, String)>,
    /// True if the findings that pools show changed.
    pub(crate) changed: bool,
    /// The last of these Services; there may be more.
    pub(crate) last: Option<ServiceRef>,
}

/// A Service, the external IP that it is to own, and the call for that.
pub(crate) type ExternalIpClaim = (ServiceRef, PlannedAddress, ClaimAction);

impl AllocationState {
    /// Begins a pass over all external IPs. Returns true if it is the first.
    pub(crate) fn begin_external_ip_pass(&mut self) -> bool {
        self.external_ips.begin_pass()
    }

    /// Decides on the next Services with external IPs after `after`.
    pub(crate) fn external_ip_steps(
        &mut self,
        stores: &Stores,
        after: Option<&ServiceRef>,
    ) -> ExternalIpSteps {
        let mut steps = ExternalIpSteps::default();
        let users = self.external_ips.users_after(after, PORTION);
        let mut left = PORTION;
        for user in users {
            let service = stores.live(&user).filter(|one| one.metadata.deletion_timestamp.is_none());
            if let Some(service) = service {
                let addresses = external_ips(&service);
                left = left.saturating_sub(addresses.len());
                let refused = self.steps_of(stores, &user, &service, &addresses, &mut steps);
                self.tell(stores, &user, &service, &refused, &mut steps);
            }
            steps.last = Some(user);
            if left == 0 {
                break;
            }
        }
        steps
    }

    /// Records the refusals of a Service, and what is to be reported of them.
    fn tell(
        &mut self,
        stores: &Stores,
        user: &ServiceRef,
        service: &Service,
        refused: &Refused,
        steps: &mut ExternalIpSteps,
    ) {
        let news = self.external_ips.replace(user, refused);
        if news.changed {
            self.pools.findings_changed();
            steps.changed = true;
        }
        let to_user = news.to_user.into_iter();
        steps
            .events
            .extend(to_user.map(|message| (service.object_ref(&()), event::EXTERNAL_IP_REFUSED, message)));
        for (owner, message) in news.to_owners {
            if let Some(owner) = stores.live(&owner) {
                steps.events.push((owner.object_ref(&()), event::FOREIGN_EXTERNAL_IP, message));
            }
        }
    }

    /// Adds what is to be claimed of `addresses` for one Service, and returns what is refused.
    fn steps_of(
        &mut self,
        stores: &Stores,
        owner: &ServiceRef,
        service: &Service,
        addresses: &[IpAddr],
        steps: &mut ExternalIpSteps,
    ) -> Refused {
        let mut refused = Refused::default();
        refused.say(excess(service));
        let terms = match terms(service, self.settings) {
            Ok(terms) => terms,
            Err(error) => {
                refused.say(Some(format!("external IPs are not announced: {error}")));
                return refused;
            }
        };
        let user = ExternalIpUser { owner: owner.clone(), requester: stores.requester(service), terms };
        let reviewed = self.reviewed();
        for &address in addresses {
            let allocator = self.ledger.allocator();
            let holders: Vec<Holder<'_>> = self
                .ledger
                .holders(address)
                .iter()
                .filter_map(|owner| Some(Holder { owner, terms: allocator.terms(owner)? }))
                .collect();
            let kept_back = || self.kept_back(owner, address).or_else(|| self.exceeded(&user, address));
            match decide(&user, address, &reviewed, &holders, kept_back) {
                ExternalIpDecision::InNoPool => continue,
                ExternalIpDecision::AlreadyHeld => {}
                ExternalIpDecision::Claim => self.ledger.promise_external(address, owner, &user.terms),
                ExternalIpDecision::Refused { pool, why } => {
                    // One that it has as a load balancer harms nobody.
                    if holders.iter().any(|holder| *holder.owner == user.owner) {
                        refused.say(Some(format!("external IP {address} is not announced as such: {why}")));
                        continue;
                    }
                    refused.add(address, pool, why);
                    for Holder { owner, terms } in &holders {
                        let port = user.terms.ports.intersection(&terms.ports).next().copied();
                        refused.belongs_to(owner, address, port);
                    }
                    continue;
                }
            }
            // Promised now, or in an earlier pass that could not carry it out.
            let claim = self.ledger.claim_action(owner, address);
            if claim != ClaimAction::Owned {
                let pool = self.ledger.pool_of(address).map(|pool| pool.name.clone());
                steps.claims.push((
                    owner.clone(),
                    PlannedAddress { address, pool, how: Acquisition::New },
                    claim,
                ));
            }
        }
        refused
    }

    /// Returns the reason that the pool gives the Service no more: a limit, or another pool that is to be its only one.
    fn exceeded(&self, user: &ExternalIpUser, address: IpAddr) -> Option<String> {
        let (allocator, family) = (self.ledger.allocator(), Family::of(address));
        let pool = allocator.pool_of(address)?;
        let request = Request {
            pool: Some(pool.name.clone()),
            requester: user.requester.clone(),
            inherited: self.ledger.inherited(&user.owner),
            ..Request::any(Families::Single(family), &user.owner.namespace)
        };
        let refused = allocator.refuses(pool, &request, family);
        let why = refused.or_else(|| allocator.exceeds_limits(&user.owner, &request, address))?;
        Some(PoolRefusal::new(pool, why).to_string())
    }

    /// Returns the reason that `owner` may not have `address` for now: a quarantine.
    fn kept_back(&self, owner: &ServiceRef, address: IpAddr) -> Option<String> {
        let quarantined = self.ledger.allocator().quarantined(address)?;
        let stays = self.ledger.allocator().stays_with_namespace(address, owner);
        match (quarantined.reason, quarantined.former.as_slice()) {
            _ if stays || self.ledger.is_kept_back_for(address, owner) => None,
            (QuarantineCause::Released, [former, ..]) => {
                Some(format!("Service {former} released it a moment ago: wait, or use another address"))
            }
            (QuarantineCause::Released, []) => {
                Some("it was released a moment ago: wait, or use another address".to_owned())
            }
            (QuarantineCause::AddressTaken, _) => {
                Some("another host on the LAN uses it: use another address".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests;
