//! Traffic settings of a `VirtualIP`: its ports, the clients that may send to it, and the nodes that serve it.
//!
//! They follow from the Services that own the address; the reaction to another host that has the address follows from its pool.
//! Settings of an owner that is not known here stay as they are.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Map, Value, json};
use windlass_api::{
    ExternalTrafficPolicy, OnAddressInUse, PortSources, RestrictedPort, ServiceRef, VirtualIPSpec,
};
use windlass_ccm::store::Change;

use super::allocation_state::AllocationState;
use super::request::{MOST_PORTS, wants_address};
use super::settings::Settings;
use super::sources;
use crate::stores::Stores;

#[cfg(test)]
mod tests;

/// The fields of a `VirtualIP` about its traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct VipTraffic {
    sources: Vec<PortSources>,
    ports: Vec<RestrictedPort>,
    external_traffic_policy: ExternalTrafficPolicy,
    health_check_node_ports: Vec<u16>,
    on_address_in_use: OnAddressInUse,
}

impl VipTraffic {
    /// Puts it into an object that is about to be created.
    pub(crate) fn set(self, spec: &mut VirtualIPSpec) {
        let Self { sources, ports, external_traffic_policy, health_check_node_ports, on_address_in_use } =
            self;
        spec.sources = sources;
        spec.ports = ports;
        spec.external_traffic_policy = external_traffic_policy;
        spec.health_check_node_ports = health_check_node_ports;
        spec.on_address_in_use = on_address_in_use;
    }

    /// Adds to a merge patch of the spec the settings that differ in `known`; `None`: an object without any of them.
    pub(crate) fn patch(&self, known: Option<&VirtualIPSpec>, patch: &mut Map<String, Value>) {
        let Self {
            sources,
            ports,
            external_traffic_policy: policy,
            health_check_node_ports,
            on_address_in_use: in_use,
        } = self;
        let mut put = |field: &str, is_absent: bool, value: Value| {
            patch.insert(field.to_owned(), if is_absent { Value::Null } else { value });
        };
        if known.map_or(&[][..], |known| &known.sources) != sources {
            put("sources", sources.is_empty(), json!(sources));
        }
        if known.map_or(&[][..], |known| &known.ports) != ports {
            put("ports", ports.is_empty(), json!(ports));
        }
        if known.map_or(ExternalTrafficPolicy::Cluster, |known| known.external_traffic_policy) != *policy {
            put("externalTrafficPolicy", policy.is_cluster(), json!(policy));
        }
        if known.map_or(&[][..], |known| &known.health_check_node_ports) != health_check_node_ports {
            put("healthCheckNodePorts", health_check_node_ports.is_empty(), json!(health_check_node_ports));
        }
        if known.map_or(OnAddressInUse::Refuse, |known| known.on_address_in_use) != *in_use {
            put("onAddressInUse", in_use.refuses(), json!(in_use));
        }
    }
}

impl AllocationState {
    /// Returns the settings for the object of `address` if these Services own it. With several owners the policy is `Local` if all
    /// have it: a node without an endpoint serves the others.
    pub(crate) fn traffic_of(&self, stores: &Stores, address: IpAddr, owners: &[ServiceRef]) -> VipTraffic {
        let mut traffic = VipTraffic::default();
        let (mut policies, mut unknown_sources, mut unknown_policy) = (Vec::new(), false, false);
        let mut ports = BTreeSet::new();
        for owner in owners {
            let Some(service) = stores.live(owner) else {
                (unknown_sources, unknown_policy) = (true, true);
                continue;
            };
            ports.extend(sources::ports(&service));
            traffic.sources.extend(self.sources_at(stores, address, &service));
            match policy(&service, self.settings) {
                Some((policy, port)) => {
                    policies.push(policy);
                    traffic.health_check_node_ports.extend(port);
                }
                None => unknown_policy = true,
            }
        }
        let known = stores.vip(address).map(|vip| &vip.spec);
        traffic.ports = self.ports_of(stores, address, ports, unknown_sources, !traffic.sources.is_empty());
        if unknown_sources {
            let known = known.into_iter().flat_map(|known| &known.sources);
            let kept: Vec<PortSources> =
                known.filter(|one| !traffic.sources.contains(one)).cloned().collect();
            traffic.sources.extend(kept);
        }
        traffic.external_traffic_policy = match policies.iter().all(|one| !one.is_cluster()) {
            true if policies.is_empty() => {
                known.map(|known| known.external_traffic_policy).unwrap_or_default()
            }
            true => ExternalTrafficPolicy::Local,
            false => ExternalTrafficPolicy::Cluster,
        };
        if unknown_policy {
            traffic
                .health_check_node_ports
                .extend(known.into_iter().flat_map(|one| &one.health_check_node_ports));
        }
        if traffic.external_traffic_policy.is_cluster() {
            traffic.health_check_node_ports.clear();
        }
        traffic.on_address_in_use = self.on_address_in_use(stores, address);
        traffic.health_check_node_ports.sort_unstable();
        traffic.health_check_node_ports.dedup();
        traffic
    }

    /// Returns the setting of its pool, or the last known one if there is no pool.
    fn on_address_in_use(&self, stores: &Stores, address: IpAddr) -> OnAddressInUse {
        let pool = self.ledger.pool_of(address).and_then(|pool| stores.pools.get(&pool.name));
        let known = stores.vip(address).map(|vip| vip.spec.on_address_in_use);
        let said = pool.map(|pool| pool.spec.on_address_in_use).or(known).unwrap_or_default();
        if said.refuses() { OnAddressInUse::Refuse } else { said }
    }

    /// The ports of an address of which the known owners have these. What an owner that is not known here has is in the
    /// object, if anything is: without that, they are not known. Nor are more than an object names, or than nodes have room for, so that
    /// nothing is refused for that; but where not everybody may use each port, nobody may use those that the object does not name.
    fn ports_of(
        &self,
        stores: &Stores,
        address: IpAddr,
        mut ports: BTreeSet<RestrictedPort>,
        unknown_owner: bool,
        is_restricted: bool,
    ) -> Vec<RestrictedPort> {
        if unknown_owner {
            match stores.vip(address).map(|vip| &vip.spec.ports) {
                Some(known) if !known.is_empty() => ports.extend(known),
                Some(_) | None => return Vec::new(),
            }
        }
        let has_room = ports.len() <= MOST_PORTS && self.has_room_for_ports(stores, address, ports.len());
        if !has_room && !is_restricted {
            return Vec::new();
        }
        ports.into_iter().take(MOST_PORTS).collect()
    }
}

/// A Service's policy and, with `Local`, its health check port. `None` for one that gets no traffic at an address any more: the
/// API server cleared its policy, and until it gives the address up that stays what it was.
fn policy(service: &Service, settings: Settings) -> Option<(ExternalTrafficPolicy, Option<u16>)> {
    let spec = service.spec.as_ref()?;
    let has_external_ips = spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty());
    if !wants_address(service, settings) && !has_external_ips {
        return None;
    }
    if spec.external_traffic_policy.as_deref() != Some("Local") {
        return Some((ExternalTrafficPolicy::Cluster, None));
    }
    let port = spec.health_check_node_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    Some((ExternalTrafficPolicy::Local, port))
}

/// Returns true if the change of a Service may change the traffic settings of objects: agents and the planner need such a change soon.
pub(crate) fn may_differ(change: &Change<Service>) -> bool {
    let policy = |service: &Service| {
        let spec = service.spec.as_ref();
        spec.map(|spec| {
            let affinity = spec.session_affinity.clone();
            (spec.external_traffic_policy.clone(), spec.health_check_node_port, affinity)
        })
    };
    let policies_differ = match (&change.old, &change.new) {
        (Some(old), Some(new)) => policy(old) != policy(new),
        (None, _) | (_, None) => false,
    };
    policies_differ || sources::may_differ(change)
}
