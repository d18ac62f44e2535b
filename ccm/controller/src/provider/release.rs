//! Releasing an address of a Service: the Service leaves those it shared with, or the address goes into quarantine, or is free
//! immediately. Also the quarantine of addresses that another host of the LAN has.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use windlass_api::{Quarantine, QuarantineReason, ServiceRef, VirtualIP};
use windlass_ccm::ProviderError;

use super::load_balancer::{MAX_STEPS, Provider};
use crate::allocation::ledger::{ObservedVip, ReleaseAction};
use crate::nodes::taken_addresses::TAKEN_FOR;
use crate::state::ClusterState;
use windlass_ccm::store::version;

impl Provider {
    /// Releases `address` of `holder`, if it holds it.
    pub(crate) async fn withdraw(&self, holder: &ServiceRef, address: IpAddr) -> Result<(), ProviderError> {
        for _ in 0..MAX_STEPS {
            let part = self.shared.state().ledger().release_action(holder, address);
            match part {
                ReleaseAction::None => return Ok(()),
                ReleaseAction::Read => self.read(holder, address).await?,
                ReleaseAction::Leave { object, remaining } => {
                    self.patch(holder, address, &object, json!({ "owners": remaining })).await?;
                    tracing::info!(service = %holder, %address, "address left to those it was shared with");
                }
                ReleaseAction::HandOver { object, owners } => {
                    self.patch(holder, address, &object, json!({ "owners": owners })).await?;
                }
                ReleaseAction::LastOwner(object) => {
                    let end = quarantine_end(&self.shared.state(), address, &object);
                    match end {
                        None => self.end_service(holder, address, &object).await?,
                        Some(until) => {
                            let quarantine = Quarantine {
                                reason: QuarantineReason::Released,
                                until: Time(until),
                                message: format!(
                                    "Service {holder} released it: no other Service is given it yet"
                                ),
                            };
                            self.put_in_quarantine(holder, address, &object, &quarantine).await?;
                        }
                    }
                    tracing::info!(service = %holder, %address, "address released");
                }
            }
            self.shared.holder_left(address, holder);
        }
        Err(ProviderError::Transient(format!(
            "cannot release {address}: its VirtualIP changed {MAX_STEPS} times meanwhile"
        )))
    }

    /// Releases all load balancer addresses of `holder`.
    pub(crate) async fn withdraw_all(&self, holder: &ServiceRef) -> Result<(), ProviderError> {
        let held = {
            let state = self.shared.state();
            state.allocation.held_as_load_balancer(&state.stores, holder)
        };
        for address in held {
            self.withdraw(holder, address).await?;
        }
        self.shared.state().allocation.stop_waiting(holder);
        Ok(())
    }

    /// Puts `address`, which another host has, into quarantine.
    pub(crate) async fn quarantine_taken(
        &self,
        holder: &ServiceRef,
        address: IpAddr,
        object: &ObservedVip,
        why: &str,
    ) -> Result<(), ProviderError> {
        let until = self.shared.now() + TAKEN_FOR;
        let quarantine = Quarantine {
            reason: QuarantineReason::AddressTaken,
            until: Time(until),
            message: why.chars().take(1000).collect(),
        };
        tracing::warn!(
            service = %holder, %address, %until, why,
            "another host uses the address: no Service is given it before that time"
        );
        self.put_in_quarantine(holder, address, object, &quarantine).await
    }

    async fn put_in_quarantine(
        &self,
        holder: &ServiceRef,
        address: IpAddr,
        object: &ObservedVip,
        quarantine: &Quarantine,
    ) -> Result<(), ProviderError> {
        let spec = json!({ "quarantine": quarantine, "virtualRouter": null });
        self.patch(holder, address, object, spec).await
    }

    /// Deletes an object whose address is not kept back. What agents may announce is taken out of service before: an object that vanishes
    /// while it is in service is a mishap to them, and they go on.
    async fn end_service(
        &self,
        holder: &ServiceRef,
        address: IpAddr,
        object: &ObservedVip,
    ) -> Result<(), ProviderError> {
        let is_in_service = self.shared.state().stores.vip(address).is_some_and(|vip| vip.is_placed());
        if !is_in_service {
            return self.delete(holder, address, object).await;
        }
        let quarantine = Quarantine {
            reason: QuarantineReason::Released,
            until: Time(self.shared.now()),
            message: format!("Service {holder} released it: it is about to be deleted"),
        };
        self.put_in_quarantine(holder, address, object, &quarantine).await?;
        let ended = self.shared.state().ledger().object(address).cloned();
        match ended.filter(|one| one.quarantine.is_some()) {
            Some(ended) => self.end_quarantine(address, &ended).await,
            // It has changed meanwhile.
            None => Ok(()),
        }
    }

    /// Deletes an object whose quarantine has ended. One that has changed since is left to the next pass.
    pub(crate) async fn end_quarantine(
        &self,
        address: IpAddr,
        object: &ObservedVip,
    ) -> Result<(), ProviderError> {
        if self.delete_as_seen(address, object, ", whose quarantine has ended").await? {
            tracing::info!(%address, "quarantine ended");
        }
        Ok(())
    }
}

/// Returns the end of the quarantine of `address` if its last owner leaves it now. `None`: there is none, because its pool sets that,
/// no pool holds it, or no node ever announced it.
fn quarantine_end(state: &ClusterState, address: IpAddr, object: &ObservedVip) -> Option<Timestamp> {
    let pool = state.ledger().pool_of(address)?;
    let vip = state.stores.vip(address).filter(|vip| version(&***vip) == object.version);
    let untouched = vip.is_some_and(|vip| never_announced(vip));
    let time = pool.policy.kept_back_for();
    (!untouched && !time.is_zero()).then(|| state.clock.now() + time)
}

/// Returns true if it is not placed and never was, by the object.
fn never_announced(vip: &VirtualIP) -> bool {
    let has_conditions = vip.status.as_ref().is_some_and(|status| !status.conditions.is_empty());
    !vip.is_placed() && !has_conditions
}
