//! External IPs: what may be had is to be claimed, what may not is told.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::Resource as _;
use windlass_api::ServiceRef;
use windlass_ccm::events::EventKind;
use windlass_ipam::{Acquisition, PlannedAddress, QuarantineCause};

use super::external_ips;
use super::judge::{Asker, Holder, REFUSED, Verdict, judge};
use crate::controller::allocation::ledger::Claim;

use crate::controller::allocation::request::terms;
use crate::controller::provider::load_balancer::Provider;
use crate::controller::state::State;

/// What is to be done about the external IPs of all Services.
#[derive(Debug, Default)]
struct Steps {
    claims: Vec<(ServiceRef, PlannedAddress, Claim)>,
    /// Service, words, and whether a process before this one may have told it.
    refused: Vec<(ObjectReference, String, bool)>,
}

impl Provider {
    /// Which external IPs may be had and are to be claimed. Tells of the others, once each. What Services have and may not
    /// have any more is left to those who remove orphans.
    pub(crate) fn external_claims(&self) -> Vec<(ServiceRef, PlannedAddress, Claim)> {
        let steps = {
            let mut state = self.shared.state();
            if state.external.is_empty() && state.told.is_empty() {
                return Vec::new();
            }
            state.external_steps()
        };
        for (service, message, known) in steps.refused {
            self.events.send_once(service, EventKind::Warning, REFUSED, message, known);
        }
        steps.claims
    }
}

impl State {
    fn external_steps(&mut self) -> Steps {
        let mut steps = Steps::default();
        let owners = self.external.clone();
        self.told.keep_only(&owners);
        let first = self.told.begin();
        for owner in owners {
            let Some(service) = self.stores.live(&owner) else { continue };
            if service.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let refused = self.steps_of(&owner, &service, &mut steps);
            let object = service.object_ref(&());
            let news = self.told.news(&owner, refused);
            steps.refused.extend(news.into_iter().map(|message| (object.clone(), message, first)));
        }
        steps
    }

    /// Adds what is to be claimed for one Service, and returns what is refused to it.
    fn steps_of(&mut self, owner: &ServiceRef, service: &Service, steps: &mut Steps) -> BTreeSet<String> {
        let mut refused = BTreeSet::new();
        let terms = match terms(service, self.settings) {
            Ok(terms) => terms,
            Err(error) => return BTreeSet::from([format!("external IPs are not announced: {error}")]),
        };
        let asker = Asker { owner: owner.clone(), subject: self.subject(service), terms };
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
            match judge(&asker, address, &self.reviewed(), &holders, kept_back.as_deref()) {
                Verdict::Ignored => continue,
                Verdict::Held => {}
                Verdict::Claim => self.ledger.promise_external(address, owner, &asker.terms),
                Verdict::Refused(why) => {
                    refused.insert(why);
                    continue;
                }
            }
            // Promised now, or in an earlier pass that could not carry it out.
            let claim = self.ledger.claim(owner, address);
            if claim != Claim::Owned {
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

    /// Why nobody, or nobody but who had it last, may have `address` for now.
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
