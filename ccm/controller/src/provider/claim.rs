//! Claiming an address for a Service: the calls that create its `VirtualIP`, add the Service to its owners, or end its quarantine.
//! Each is guarded by the version that was seen; the API server's answer shows if another controller was faster.

use std::net::IpAddr;

use kube::api::{DeleteParams, Patch, Preconditions};
use serde_json::{Value, json};
use windlass_api::{ExternalTrafficPolicy, ServiceRef, VirtualIP, VirtualIPSpec, virtual_ip_name};
use windlass_ccm::ProviderError;
use windlass_ccm::lenient::{read, read_opt};
use windlass_common::strict;
use windlass_ipam::PlannedAddress;

use super::load_balancer::Provider;
use crate::allocation::ledger::{ClaimAction, ObservedVip};
use crate::state::ClusterState;
use crate::stores::call::call;

impl Provider {
    /// Takes one step towards `holder` owning the address. Afterwards the ledger has the API server's state, in which another
    /// controller may have been faster.
    pub(crate) async fn claim(
        &self,
        holder: &ServiceRef,
        planned: &PlannedAddress,
        claim: ClaimAction,
    ) -> Result<(), ProviderError> {
        let address = planned.address;
        // Together with the claim it is written who may use it: no agent announces it to others before.
        match claim {
            ClaimAction::Owned => Ok(()),
            ClaimAction::Create => self.create(holder, planned).await,
            ClaimAction::Join { object, owners } => {
                let spec = self.with_traffic(json!({ "owners": owners }), address, &owners);
                self.patch(holder, address, &object, spec).await
            }
            ClaimAction::LiftQuarantine(object) if object.owners.contains(holder) => {
                let owners = std::slice::from_ref(holder);
                let spec = json!({ "owners": owners, "quarantine": null });
                let spec = self.with_traffic(spec, address, owners);
                self.patch(holder, address, &object, spec).await
            }
            // One owner of an object must stay (its CRD says so): for a Service that was made anew the object is deleted and
            // created again.
            ClaimAction::LiftQuarantine(object) => self.delete(holder, address, &object).await,
        }
    }

    /// Returns a patch of the spec with the traffic settings of the address that are to be set or removed.
    fn with_traffic(&self, mut spec: Value, address: IpAddr, owners: &[ServiceRef]) -> Value {
        let state = self.shared.state();
        if let Some(patch) = spec.as_object_mut() {
            let traffic = state.allocation.traffic_of(&state.stores, address, owners);
            traffic.patch(state.stores.vip(address).map(|vip| &vip.spec), patch);
        }
        spec
    }

    async fn create(&self, holder: &ServiceRef, planned: &PlannedAddress) -> Result<(), ProviderError> {
        let PlannedAddress { address, pool, .. } = planned;
        let name = virtual_ip_name(*address);
        let mut object = VirtualIP::new(&name, new_claim(holder, planned));
        {
            let ClusterState { stores, allocation, placement, .. } = &mut *self.shared.state();
            let owners = std::slice::from_ref(holder);
            allocation.traffic_of(stores, *address, owners).set(&mut object.spec);
            object.spec.former_pools = allocation.former_pools(stores, &object.spec, &object.spec.pool);
            object.spec.announcement = placement.selected_by(stores, allocation, &object.spec).applied;
            object.spec.virtual_router = placement.router_for_new_vip(stores, allocation, holder, &object);
        }
        let what = || format!("claim {address}: creating VirtualIP {name:?}");
        match call(read(strict::create(&self.vips, &object)), what).await {
            Ok(created) => {
                tracing::info!(service = %holder, %address, pool, "address claimed");
                self.shared.learn_vip(created, holder);
                Ok(())
            }
            Err(failed) if failed.error.is_conflict() => self.read(holder, *address).await,
            Err(failed) => Err(failed.into()),
        }
    }

    /// Changes the object as it was seen. If it has changed since, what it is now is read instead.
    pub(crate) async fn patch(
        &self,
        holder: &ServiceRef,
        address: IpAddr,
        object: &ObservedVip,
        spec: Value,
    ) -> Result<(), ProviderError> {
        let name = virtual_ip_name(address);
        let metadata = json!({ "uid": object.uid, "resourceVersion": object.version.to_string() });
        let patch = Patch::Merge(json!({ "metadata": metadata, "spec": spec }));
        let what = || format!("change VirtualIP {name:?} for Service {holder}");
        match call(read(self.vips.patch(&name, &strict::params(), &patch)), what).await {
            Ok(changed) => {
                self.shared.learn_vip(changed, holder);
                Ok(())
            }
            Err(failed) if failed.error.is_not_found() || failed.error.is_conflict() => {
                self.read(holder, address).await
            }
            Err(failed) => Err(failed.into()),
        }
    }

    /// Deletes the object as it was seen. If it has changed since, what it is now is read instead.
    pub(crate) async fn delete(
        &self,
        holder: &ServiceRef,
        address: IpAddr,
        object: &ObservedVip,
    ) -> Result<(), ProviderError> {
        if self.delete_as_seen(address, object, "").await? {
            Ok(())
        } else {
            self.read(holder, address).await
        }
    }

    /// Deletes the object as it was seen, or finds it gone. Returns false if it has changed since. `which` names it in the error.
    pub(crate) async fn delete_as_seen(
        &self,
        address: IpAddr,
        object: &ObservedVip,
        which: &str,
    ) -> Result<bool, ProviderError> {
        let name = virtual_ip_name(address);
        let what = || format!("delete VirtualIP {name:?}{which}");
        match call(self.vips.delete(&name, &exactly(object)), what).await {
            Ok(_) => {}
            Err(failed) if failed.error.is_not_found() => {}
            Err(failed) if failed.error.is_conflict() => return Ok(false),
            Err(failed) => return Err(failed.into()),
        }
        self.shared.vip_deleted(address, &object.uid);
        Ok(true)
    }

    /// Learns from the API server whose `address` is. What `holder` was promised of it is over, unless it owns it.
    pub(crate) async fn read(&self, holder: &ServiceRef, address: IpAddr) -> Result<(), ProviderError> {
        let name = virtual_ip_name(address);
        let known = self.shared.state().stores.vip(address).cloned();
        match call(read_opt(self.vips.get_opt(&name)), || format!("read VirtualIP {name:?}")).await? {
            Some(object) => self.shared.learn_vip(object, holder),
            None => self.shared.vip_absent(address, holder, known.as_deref()),
        }
        Ok(())
    }
}

/// The object that claims an address.
fn new_claim(holder: &ServiceRef, planned: &PlannedAddress) -> VirtualIPSpec {
    VirtualIPSpec {
        address: planned.address,
        pool: planned.pool.clone().unwrap_or_default(),
        former_pools: Vec::new(),
        owners: vec![holder.clone()],
        virtual_router: None,
        announcement: None,
        sources: Vec::new(),
        ports: Vec::new(),
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        health_check_node_ports: Vec::new(),
        on_address_in_use: windlass_api::OnAddressInUse::default(),
        load_sharing: None,
        quarantine: None,
    }
}

/// The object in the very version that was seen.
fn exactly(object: &ObservedVip) -> DeleteParams {
    let preconditions =
        Preconditions { uid: Some(object.uid.clone()), resource_version: Some(object.version.to_string()) };
    DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }
}
