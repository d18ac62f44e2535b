//! Addresses that Services of other load balancers show in their status: no pool gives them to another Service. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use windlass_ccm::store::Change;

use super::request::{owner, status_addresses, wants_address};
use super::settings::Settings;

#[cfg(test)]
mod tests;

/// Services of type `LoadBalancer` that are not ours to serve, and the addresses in their status.
#[derive(Debug, Default)]
pub(crate) struct ForeignServices {
    /// By `namespace/name`.
    shown: BTreeMap<String, BTreeSet<IpAddr>>,
    revision: u64,
}

impl ForeignServices {
    /// Takes in a change of a Service. Whether other addresses are in use by Services of other load balancers than before.
    pub(crate) fn follow(&mut self, change: &Change<Service>, settings: Settings) -> bool {
        let Some(name) = change.new.iter().chain(&change.old).find_map(|service| owner(service)) else {
            return false;
        };
        let name = format!("{}/{}", name.namespace, name.name);
        let now: BTreeSet<IpAddr> =
            change.new.iter().flat_map(|service| shown_by_another(service, settings)).collect();
        let before = self.shown.remove(&name).unwrap_or_default();
        let changed = before != now;
        if !now.is_empty() {
            self.shown.insert(name, now);
        }
        self.revision += u64::from(changed);
        changed
    }

    /// Another number after each change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The addresses, each with the first Service that shows it.
    pub(crate) fn by_address(&self) -> BTreeMap<IpAddr, String> {
        let mut by_address = BTreeMap::new();
        for (name, addresses) in &self.shown {
            for address in addresses {
                by_address.entry(*address).or_insert_with(|| name.clone());
            }
        }
        by_address
    }
}

/// The addresses that another load balancer gave the Service. (What is left in the status of one that is no load balancer is nobody's.)
fn shown_by_another(service: &Service, settings: Settings) -> impl Iterator<Item = IpAddr> {
    let is_load_balancer =
        service.spec.as_ref().is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
    let is_foreign = is_load_balancer && !wants_address(service, settings);
    is_foreign.then(|| status_addresses(service)).into_iter().flatten()
}
