//! External IPs: permitted ones are claimed, refused ones are told.

use std::net::IpAddr;
use std::ops::Bound;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::Resource as _;
use windlass_api::{ServiceRef, event};
use windlass_ccm::events::EventType;
use windlass_ipam::{
    Acquisition, Families, Family, PlannedAddress, PoolRefusal, Port, QuarantineCause, Request,
};

use super::decide::{ExternalIpDecision, ExternalIpUser, Holder, decide};
use super::refused::Refused;
use super::{excess, external_ips};
use crate::controller::allocation::ledger::ClaimAction;
use crate::controller::allocation::request::terms;
use crate::controller::provider::load_balancer::Provider;
use crate::controller::state::ClusterState;
use crate::controller::state::wakeup::Urgency;

/// Services that are decided on before the state is left to others.
const AT_ONCE: usize = 64;

/// What is to be done about the external IPs of some Services.
#[derive(Debug, Default)]
struct ExternalIpSteps {
    claims: Vec<(ServiceRef, PlannedAddress, ClaimAction)>,
    events: Vec<(ObjectReference, &'static str, String)>,
    /// What pools show of them is another.
    changed: bool,
    /// The last of these Services, if there are more.
    last: Option<ServiceRef>,
}

impl Provider {
    /// The external IPs to claim. Tells of refused ones, once each. Those that a Service holds and may no longer have are
    /// orphans.
    pub(crate) fn external_claims(&self) -> Vec<(ServiceRef, PlannedAddress, ClaimAction)> {
        let first = self.shared.state().refused_external_ips.begin_pass();
        let (mut claims, mut after, mut changed) = (Vec::new(), None, false);
        loop {
            // Nobody waits for more Services than these, however many tenants make.
            let steps = self.shared.state().external_ip_steps(after.as_ref());
            for (service, reason, message) in steps.events {
                self.events.send_once(service, EventType::Warning, reason, message, first);
            }
            claims.extend(steps.claims);
            changed |= steps.changed;
            after = steps.last;
            if after.is_none() {
                break;
            }
        }
        if changed {
            self.shared.planner_wakeup.request(Urgency::Soon);
        }
        claims
    }
}

impl ClusterState {
    /// Decides on the next Services with external IPs after `after`.
    fn external_ip_steps(&mut self, after: Option<&ServiceRef>) -> ExternalIpSteps {
        let mut steps = ExternalIpSteps::default();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let users: Vec<ServiceRef> =
            self.external_ip_services.range((from, Bound::Unbounded)).take(AT_ONCE).cloned().collect();
        for user in &users {
            let Some(service) = self.stores.live(user) else { continue };
            if service.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let refused = self.steps_of(user, &service, &mut steps);
            self.tell(user, &service, refused, &mut steps);
        }
        steps.last = users.last().filter(|_| users.len() == AT_ONCE).cloned();
        steps
    }

    /// Notes what is refused of a Service, and what is to be told of it.
    fn tell(&mut self, user: &ServiceRef, service: &Service, refused: Refused, steps: &mut ExternalIpSteps) {
        let news = self.refused_external_ips.replace(user, refused);
        if news.changed {
            self.findings = None;
            steps.changed = true;
        }
        let to_user = news.to_user.into_iter();
        steps
            .events
            .extend(to_user.map(|message| (service.object_ref(&()), event::EXTERNAL_IP_REFUSED, message)));
        for (owner, message) in news.to_owners {
            if let Some(owner) = self.stores.live(&owner) {
                steps.events.push((owner.object_ref(&()), event::FOREIGN_EXTERNAL_IP, message));
            }
        }
    }

    /// Adds what is to be claimed for one Service, and returns what is refused.
    fn steps_of(&mut self, owner: &ServiceRef, service: &Service, steps: &mut ExternalIpSteps) -> Refused {
        let mut refused = Refused::default();
        refused.say(excess(service));
        let terms = match terms(service, self.settings) {
            Ok(terms) => terms,
            Err(error) => {
                refused.say(Some(format!("external IPs are not announced: {error}")));
                return refused;
            }
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
            let kept_back = self.kept_back(owner, address).or_else(|| self.exceeded(&user, address));
            match decide(&user, address, &self.reviewed(), &holders, kept_back.as_deref()) {
                ExternalIpDecision::InNoPool => continue,
                ExternalIpDecision::AlreadyHeld => {}
                ExternalIpDecision::Claim => self.ledger.promise_external(address, owner, &user.terms),
                ExternalIpDecision::Refused { pool, why } => {
                    // One that it has as a load balancer harms nobody.
                    if holders.iter().any(|holder| holder.owner == user.owner) {
                        refused.say(Some(format!("external IP {address} is not announced as such: {why}")));
                        continue;
                    }
                    refused.add(address, pool, why);
                    for Holder { owner, terms } in &holders {
                        let port = user.terms.ports.intersection(&terms.ports).next().copied();
                        refused.belongs_to(owner, address, port, told_to_owner(&user, address, port));
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

    /// Why the pool gives no more to the Service: its limits, or another pool is to be its only one.
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

    /// Why `owner` may not have `address` for now: it is in quarantine.
    fn kept_back(&self, owner: &ServiceRef, address: IpAddr) -> Option<String> {
        let quarantined = self.ledger.allocator().quarantined(address)?;
        let stays = self.ledger.allocator().stays_with_namespace(address, owner);
        match (quarantined.reason, quarantined.former.as_slice()) {
            _ if stays || self.ledger.is_kept_back_for(address, owner) => None,
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

/// What a Service is told of one that lists its address, and perhaps has this port of it.
fn told_to_owner(user: &ExternalIpUser, address: IpAddr, port: Option<Port>) -> String {
    let ExternalIpUser { owner, .. } = user;
    let ports = match port {
        Some(port) => {
            format!("and listens on port {port} too: kube-proxy decides which of both gets that traffic")
        }
        None => {
            "and takes what is sent to its own ports there on nodes whose agent does not guard".to_owned()
        }
    };
    format!(
        "Service {owner} lists this Service's address {address} in spec.externalIPs, which is refused, {ports}. Have the \
         entry removed, or forbid the field by the admission plugin DenyServiceExternalIPs"
    )
}
