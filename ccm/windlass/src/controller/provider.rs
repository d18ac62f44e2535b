//! The metal provider: an address from a pool is a load balancer, once some node announces it.
//!
//! Order of one address's life: reserved in memory → claimed by creating its `VirtualIP` → carried by a virtual router
//! (planner) → announced (agents) → in the Service's status (service controller). Deleting the `VirtualIP` withdraws it.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use kube::api::{Api, DeleteParams, PostParams, Preconditions};
use kube::{Client, ResourceExt as _};
use windlass_api::{
    CONDITION_ADDRESS_ALLOCATED, ServiceRef, VirtualIP, VirtualIPSpec, address_allocated, virtual_ip_name,
};
use windlass_ccm::{Ensured, LoadBalancer, ProviderError, ServiceKey};
use windlass_ipam::{AllocateError, Planned};

use super::ledger::Proof;
use super::request::{asks_otherwise, owner, status_addresses};
use super::settings::Settings;
use super::state::{Shared, State, is_announced, why_unplaced};
use crate::client::root_cause;

/// How long one call to the API server may take.
const LIMIT: Duration = Duration::from_secs(10);
/// When to ask again while the lists are not complete yet.
const NOT_READY: Duration = Duration::from_millis(200);
/// Addresses tried in one go when others turn out to hold them: more than two controllers that race ever need.
const TRIES: usize = 32;

/// Load balancers and machines without a cloud.
pub(crate) struct Metal {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: Settings,
    vips: Api<VirtualIP>,
}

/// Outcome of claiming an address.
enum Claim {
    Ours,
    /// Another Service's object was there first.
    Taken,
}

impl Metal {
    /// A provider over `shared`, which watches keep current.
    pub(crate) fn new(client: Client, shared: Arc<Shared>) -> Self {
        let settings = shared.state().settings;
        Self { shared, settings, vips: Api::all(client) }
    }

    /// Creates the object that claims the address, or finds that it is there.
    async fn claim(&self, owner: &ServiceRef, planned: &Planned) -> Result<Claim, ProviderError> {
        let Planned { address, pool, .. } = planned;
        let name = virtual_ip_name(*address);
        let spec = VirtualIPSpec {
            address: *address,
            pool: pool.clone().unwrap_or_default(),
            owners: vec![owner.clone()],
            virtual_router: None,
            quarantine: None,
        };
        let mut object = VirtualIP::new(&name, spec);
        object.spec.virtual_router = self.shared.state().carrier_of_new(owner, &object);
        let what = || format!("cannot claim {address}: creating VirtualIP {name:?}");
        match limited(self.vips.create(&PostParams::default(), &object), what).await? {
            Ok(created) => {
                tracing::info!(
                    namespace = owner.namespace, service = owner.name, %address, pool, "address claimed"
                );
                Ok(self.settle(owner, created))
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let what = || format!("cannot claim {address}: reading VirtualIP {name:?}");
                match limited(self.vips.get_opt(&name), what).await? {
                    Ok(Some(existing)) => Ok(self.settle(owner, existing)),
                    Ok(None) => Err(ProviderError::RetryAfter {
                        after: NOT_READY,
                        reason: format!("VirtualIP {name:?} is just being deleted"),
                    }),
                    Err(error) => Err(failed(&what(), &error)),
                }
            }
            Err(error) => Err(failed(&what(), &error)),
        }
    }

    /// The API server has answered who holds the address.
    fn settle(&self, owner: &ServiceRef, object: VirtualIP) -> Claim {
        let ours = object.spec.owners.first().is_some_and(|first| first.uid == owner.uid);
        self.shared.state().ledger.settle(&object);
        self.shared.learn(object);
        if ours { Claim::Ours } else { Claim::Taken }
    }

    /// Deletes the object behind `owner`'s claim to `address`, if it is still `owner`'s, and frees the address.
    async fn withdraw(&self, owner: &ServiceRef, address: IpAddr) -> Result<(), ProviderError> {
        let name = virtual_ip_name(address);
        let proof = self.shared.state().ledger.proof(address).cloned();
        let mut uid = match proof {
            Some(Proof::Object { uid, .. }) => Some(uid),
            Some(Proof::Reserved) | None => self.uid_if_owned(owner, &name).await?,
        };
        // The object may have been replaced since it was last seen; the precondition then fails, and the next look
        // tells whose it is now.
        for _ in 0..TRIES {
            let Some(known) = uid else { break };
            let preconditions = Preconditions { uid: Some(known), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let what = || format!("cannot withdraw {address}: deleting VirtualIP {name:?}");
            match limited(self.vips.delete(&name, &params), what).await? {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 404 => break,
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    uid = self.uid_if_owned(owner, &name).await?;
                }
                Err(error) => return Err(failed(&what(), &error)),
            }
        }
        let mut state = self.shared.state();
        let freed = state.ledger.release(address, owner);
        let gone = state.vip(address).filter(|vip| vip.spec.owners.first() == Some(owner)).cloned();
        let woken = if freed { state.offer([address]) } else { Vec::new() };
        drop(state);
        if freed {
            tracing::info!(namespace = owner.namespace, service = owner.name, %address, "address released");
        }
        if let Some(gone) = gone {
            self.shared.forget(&*gone);
        }
        self.shared.changes.push(woken);
        Ok(())
    }

    async fn uid_if_owned(&self, owner: &ServiceRef, name: &str) -> Result<Option<String>, ProviderError> {
        let what = || format!("cannot read VirtualIP {name:?}");
        match limited(self.vips.get_opt(name), what).await? {
            Ok(found) => Ok(found
                .filter(|vip| vip.spec.owners.first().is_some_and(|first| first.uid == owner.uid))
                .and_then(|vip| vip.uid())),
            Err(error) => Err(failed(&what(), &error)),
        }
    }

    /// Withdraws everything that `owner` holds.
    pub(crate) async fn withdraw_all(&self, owner: &ServiceRef) -> Result<(), ProviderError> {
        let held = self.shared.state().ledger.held_by(owner);
        for address in held {
            self.withdraw(owner, address).await?;
        }
        self.shared.state().served(owner);
        Ok(())
    }
}

/// What is to be done for a Service, as the state shows it.
enum Step {
    /// The object has to be created.
    Claim(Planned),
    /// The address is claimed. These others, of an earlier request, are to be withdrawn once it works.
    Claimed { address: IpAddr, others: Vec<IpAddr> },
}

/// What is next, and the Services concerned by it.
fn next_step(
    state: &mut State,
    owner: &ServiceRef,
    service: &Service,
) -> (Result<Step, ProviderError>, Vec<ServiceKey>) {
    if !state.ready {
        return (Err(not_ready()), Vec::new());
    }
    let request = match state.asks(service) {
        Ok(request) => request,
        Err(error) => {
            state.served(owner);
            return (Err(invalid(&error)), Vec::new());
        }
    };
    let (placed, concerned) = state.place(owner, service, request);
    let step = match placed {
        Ok(plan) => {
            let reserved = plan
                .addresses
                .iter()
                .find(|planned| !matches!(state.ledger.proof(planned.address), Some(Proof::Object { .. })));
            match (reserved, plan.addresses.first()) {
                (Some(planned), _) => Ok(Step::Claim(planned.clone())),
                (None, Some(first)) => Ok(Step::Claimed { address: first.address, others: plan.leaves }),
                (None, None) => Err(not_ready()),
            }
        }
        Err(error) => Err(ProviderError::Rejected { reason: reason(&error), message: error.to_string() }),
    };
    (step, concerned)
}

/// What the condition on the Service gives as the reason.
fn reason(error: &AllocateError<ServiceRef>) -> &'static str {
    match error {
        AllocateError::NoFreeAddress { .. } => address_allocated::NO_FREE_ADDRESS,
        AllocateError::NoSuchPool { .. } => address_allocated::NO_SUCH_POOL,
        AllocateError::PoolRefuses { .. } => address_allocated::POOL_NOT_ALLOWED,
        AllocateError::Taken { .. } | AllocateError::Quarantined { .. } => address_allocated::ADDRESS_IN_USE,
        AllocateError::SharingRefused { .. } => address_allocated::SHARING_REFUSED,
        AllocateError::InNoPool { .. }
        | AllocateError::NotInPool { .. }
        | AllocateError::Reserved { .. }
        | AllocateError::WrongFamily { .. }
        | AllocateError::FamilyNotNamed { .. }
        | AllocateError::NamedTwice { .. }
        | AllocateError::NothingWanted => address_allocated::INVALID_REQUEST,
    }
}

fn invalid(error: &impl ToString) -> ProviderError {
    ProviderError::Rejected { reason: address_allocated::INVALID_REQUEST, message: error.to_string() }
}

/// Whether a claimed address works. One that the Service's status shows already stays there, whoever announces it now.
fn outcome(state: &State, service: &Service, address: IpAddr) -> Result<Ensured, ProviderError> {
    let vip = state.vip(address);
    let shown = status_addresses(service).any(|one| one == address);
    if shown || vip.is_some_and(|vip| is_announced(vip)) {
        let pool = state.ledger.pool_of(address);
        let from = pool.map_or_else(String::new, |pool| format!(" from pool {pool:?}"));
        return Ok(Ensured::Ready {
            status: status([address]),
            reason: address_allocated::ALLOCATED,
            message: format!("the Service has {address}{from}"),
        });
    }
    if let Some(why) = vip.and_then(|vip| why_unplaced(vip)) {
        return Err(ProviderError::Blocked {
            reason: address_allocated::NOT_ANNOUNCED,
            message: why.to_owned(),
        });
    }
    let router = vip.and_then(|vip| vip.spec.virtual_router.as_deref());
    let message = match router {
        Some(router) => format!("waiting for a node of virtual router {router} to announce {address}"),
        None => format!("waiting for a virtual router for {address}"),
    };
    Ok(Ensured::Pending { reason: address_allocated::NOT_ANNOUNCED, message })
}

fn status(addresses: impl IntoIterator<Item = IpAddr>) -> LoadBalancerStatus {
    let ingress = |address: IpAddr| LoadBalancerIngress {
        ip: Some(address.to_string()),
        // The API server would default it, and every later comparison would find a difference (service-contract §0.7).
        ip_mode: Some("VIP".to_owned()),
        ..LoadBalancerIngress::default()
    };
    LoadBalancerStatus { ingress: Some(addresses.into_iter().map(ingress).collect()) }
}

fn not_ready() -> ProviderError {
    ProviderError::RetryAfter {
        after: NOT_READY,
        reason: "the addresses in use are not all known yet".to_owned(),
    }
}

fn owner_of(service: &Service) -> Result<ServiceRef, ProviderError> {
    owner(service).ok_or_else(|| invalid(&"the Service has no namespace, name or UID"))
}

async fn limited<T>(
    call: impl Future<Output = T>,
    what: impl FnOnce() -> String,
) -> Result<T, ProviderError> {
    tokio::time::timeout(LIMIT, call).await.map_err(|_| {
        ProviderError::Transient(format!(
            "{}: the API server did not answer within {} s",
            what(),
            LIMIT.as_secs()
        ))
    })
}

fn failed(what: &str, error: &kube::Error) -> ProviderError {
    ProviderError::Transient(format!("{what}: {}", root_cause(error)))
}

impl LoadBalancer for Metal {
    fn serves_class(&self, class: Option<&str>) -> bool {
        self.settings.serves_class(class)
    }

    fn condition_type(&self) -> Option<&'static str> {
        Some(CONDITION_ADDRESS_ALLOCATED)
    }

    /// Labels, selector and order of families are part of a request, too.
    fn is_concerned(&self, old: &Service, new: &Service) -> bool {
        asks_otherwise(old, new, self.settings)
    }

    /// An address that the Service holds or that is in a pool; what shows a host name only is another controller's.
    fn is_own_ingress(&self, service: &Service, entry: &LoadBalancerIngress) -> bool {
        let Some(address) = entry.ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok()) else {
            return false;
        };
        let state = self.shared.state();
        let holds = owner(service).is_some_and(|owner| state.ledger.held_by(&owner).contains(&address));
        holds || state.ledger.pool_of(address).is_some()
    }

    async fn get(
        &self,
        _cluster: &str,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, ProviderError> {
        let owner = owner_of(service)?;
        let state = self.shared.state();
        if !state.ready {
            return Err(not_ready());
        }
        let held = state.ledger.held_by(&owner);
        Ok((!held.is_empty()).then(|| status(held)))
    }

    async fn ensure(
        &self,
        _cluster: &str,
        service: &Service,
        _nodes: &[Arc<Node>],
    ) -> Result<Ensured, ProviderError> {
        let owner = owner_of(service)?;
        for _ in 0..TRIES {
            let (step, concerned) = next_step(&mut self.shared.state(), &owner, service);
            self.shared.changes.push(concerned);
            let step = step?;
            match step {
                Step::Claim(planned) => match self.claim(&owner, &planned).await? {
                    Claim::Ours => {}
                    Claim::Taken => {
                        tracing::info!(
                            namespace = owner.namespace, service = owner.name, address = %planned.address,
                            "address is held by another Service"
                        );
                    }
                },
                Step::Claimed { address, others } => {
                    let outcome = outcome(&self.shared.state(), service, address)?;
                    if matches!(outcome, Ensured::Ready { .. }) {
                        for other in others {
                            self.withdraw(&owner, other).await?;
                        }
                    }
                    return Ok(outcome);
                }
            }
        }
        Err(ProviderError::Transient(format!(
            "{TRIES} addresses in a row turned out to be held by others: is another controller giving addresses?"
        )))
    }

    /// Nothing: the planner watches the Nodes itself.
    async fn update_nodes(
        &self,
        _cluster: &str,
        _service: &Service,
        _nodes: &[Arc<Node>],
    ) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn ensure_deleted(&self, _cluster: &str, service: &Service) -> Result<(), ProviderError> {
        let owner = owner_of(service)?;
        if !self.shared.state().ready {
            return Err(not_ready());
        }
        self.withdraw_all(&owner).await
    }

    fn changes(&self) -> BoxStream<'static, ServiceKey> {
        Arc::clone(&self.shared.changes).stream()
    }
}

#[cfg(test)]
mod tests;
