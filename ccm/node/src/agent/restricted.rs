//! Virtual IPs that are limited to some clients or some Services. Pure.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use windlass_api::{PortSources, RestrictedPort, VirtualIP};

/// A virtual IP that is limited to some clients or some Services, or whose owners are known. Kept on disk, so its fields are part of the
/// state file's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Restricted {
    /// The virtual IP, of any node's virtual router: this node's own packets to it never leave the node.
    pub(crate) address: IpAddr,
    /// Allowed client ranges, copied from the object.
    pub(crate) sources: Vec<PortSources>,
    /// Ports of the owners, copied from the object; left out where they are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<RestrictedPort>,
    /// Services that own it, as `namespace/name`: a Service that is recreated under its name keeps its connections. Empty while in
    /// quarantine. Left out in files of agents that did not have the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owners: Option<Vec<String>>,
}

impl Restricted {
    /// Copies the restriction from the object. A VIP in quarantine has no owner: its `spec.owners` are the last ones.
    pub(crate) fn of(vip: &VirtualIP) -> Self {
        let spec = &vip.spec;
        let owners = spec.owners.iter().filter(|_| spec.quarantine.is_none()).map(ToString::to_string);
        Self {
            address: spec.address,
            sources: spec.sources.clone(),
            ports: spec.ports.clone(),
            owners: Some(owners.collect()),
        }
    }
}

/// Returns the restrictions of the virtual IPs, sorted by address.
pub(crate) fn restricted<V: AsRef<VirtualIP>>(vips: &[V]) -> Vec<Restricted> {
    let mut all: Vec<Restricted> = vips.iter().map(|vip| Restricted::of(vip.as_ref())).collect();
    all.sort_by_key(|one| one.address);
    all
}
