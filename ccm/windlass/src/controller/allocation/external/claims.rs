//! External IPs: permitted ones are claimed, rejected ones are reported.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::Resource as _;
use windlass_api::{ServiceRef, event};
use windlass_ccm::events::EventType;
use windlass_ipam::{Acquisition, PlannedAddress, QuarantineCause};

use super::decide::{ExternalIpDecision, ExternalIpUser, Holder, decide};
use super::external_ips;
use crate::controller::allocation::ledger::ClaimAction;

use crate::controller::allocation::request::terms;
use crate::controller::provider::load_balancer::Provider;
use crate::controller::state::ClusterState;

/// What is to be done about the external IPs of all Services.
#[derive(Debug, Default)]
struct ExternalIpSteps {
    claims: Vec<(ServiceRef, PlannedAddress, ClaimAction)>,
    /// Service, message, and whether a process before this one may have reported it.
    rejected: Vec<(ObjectReference, String, bool)>,
}

impl Provider {
    /// The external IPs to claim. Reports rejected ones, once each. Those that a Service holds and may no longer have are
    /// orphans.
    pub(crate) fn external_claims(&self) -> Vec<(ServiceRef, PlannedAddress, ClaimAction)> {
        let steps = {
            let mut state = self.shared.state();
            if state.external_ip_services.is_empty() && state.reported_rejections.is_empty() {
                return Vec::new();
            }
            state.external_ip_steps()
        };
        for (service, message, may_be_reported) in steps.rejected {
            self.events.send_once(
                service,
                EventType::Warning,
                event::EXTERNAL_IP_REFUSED,
                message,
                may_be_reported,
            );
        }
        steps.claims
    }
}

impl ClusterState {
    fn external_ip_steps(&mut self) -> ExternalIpSteps {
        let mut steps = ExternalIpSteps::default();
        let owners = self.external_ip_services.clone();
        self.reported_rejections.keep_only(&owners);
        let first = self.reported_rejections.begin_pass();
        for owner in owners {
            let Some(service) = self.stores.live(&owner) else { continue };
            if service.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let refused = self.steps_of(&owner, &service, &mut steps);
            let object = service.object_ref(&());
            let unreported = self.reported_rejections.unreported(&owner, refused);
            steps.rejected.extend(unreported.into_iter().map(|message| (object.clone(), message, first)));
        }
        steps
    }

    /// Adds what is to be claimed for one Service, and returns why others are rejected.
    fn steps_of(
        &mut self,
        owner: &ServiceRef,
        service: &Service,
        steps: &mut ExternalIpSteps,
    ) -> BTreeSet<String> {
        let mut refused = BTreeSet::new();
        let terms = match terms(service, self.settings) {
            Ok(terms) => terms,
            Err(error) => return BTreeSet::from([format!("external IPs are not announced: {error}")]),
        };
        let user = ExternalIpUser { owner: owner.clone(), requester: self.requester(service), terms };
        for address in external_ips(service) {
            let allocator = self.ledger.allocator();
            let holders: Vec<Holder> = self
                .ledger
                .holders(address)
                .iter()
                .filter_map(|holder| {
                    Some(Holder { owner: holder.clone(), terms: allocator.terms(holder)?.clone() })
                })
                .collect();
            let kept_back = self.kept_back(owner, address);
            match decide(&user, address, &self.reviewed(), &holders, kept_back.as_deref()) {
                ExternalIpDecision::InNoPool => continue,
                ExternalIpDecision::AlreadyHeld => {}
                ExternalIpDecision::Claim => self.ledger.promise_external(address, owner, &user.terms),
                ExternalIpDecision::Rejected(why) => {
                    refused.insert(why);
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

    /// Why `owner` may not have `address` for now: it is in quarantine.
    fn kept_back(&self, owner: &ServiceRef, address: IpAddr) -> Option<String> {
        let quarantined = self.ledger.allocator().quarantined(address)?;
        match (quarantined.reason, quarantined.former.as_slice()) {
            _ if self.ledger.is_kept_back_for(address, owner) => None,
            (QuarantineCause::Released, [former, ..]) => {
                Some(format!("Service {former} let go of it a moment ago: it can be had in a while"))
            }
            (QuarantineCause::Released, []) => {
                Some("it was released a moment ago: it can be had in a while".to_owned())
            }
            (QuarantineCause::AddressTaken, _) => {
                Some("another station of the LAN has it: use another address".to_owned())
            }
        }
    }
}
