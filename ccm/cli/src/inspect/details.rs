//! Objects that only an explanation of some Services needs. Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use serde_json::Value;
use windlass_api::ServiceRef;

/// Objects that only an explanation needs.
#[derive(Debug, Clone, Default)]
pub(super) struct Details {
    /// Namespaces of the Services.
    pub(super) namespaces: Vec<Namespace>,
    /// Events about them.
    pub(super) events: Vec<Event>,
    pub(super) endpoint_slices: Vec<EndpointSlice>,
    pub(super) kube_proxy: Option<KubeProxy>,
}

impl Details {
    /// Nodes with ready endpoints of these Services, of the address's family, and how many.
    pub(in crate::inspect) fn ready_endpoints(
        &self,
        owners: &[ServiceRef],
        address: IpAddr,
        node: &str,
    ) -> usize {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let of_owner = |slice: &&EndpointSlice| {
            let service = slice.labels().get("kubernetes.io/service-name");
            let namespace = slice.metadata.namespace.as_ref();
            owners.iter().any(|owner| Some(&owner.name) == service && Some(&owner.namespace) == namespace)
        };
        let slices =
            self.endpoint_slices.iter().filter(|slice| slice.address_type == family).filter(of_owner);
        let endpoints = slices.flat_map(|slice| slice.endpoints.iter().flatten());
        endpoints
            .filter(|one| one.node_name.as_deref() == Some(node))
            .filter(|one| one.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false))
            .count()
    }
}

/// Settings of kube-proxy, where kubeadm keeps them.
#[derive(Debug, Clone)]
pub(super) struct KubeProxy {
    pub(super) mode: String,
    /// `ipvs.strictARP`.
    pub(super) strict_arp: bool,
}

impl KubeProxy {
    /// Reads the ConfigMap. An empty mode is the default one.
    pub(super) fn of(map: &ConfigMap) -> Option<Self> {
        let settings: Value = serde_saphyr::from_str(map.data.as_ref()?.get("config.conf")?).ok()?;
        let mode = settings["mode"].as_str().filter(|mode| !mode.is_empty()).unwrap_or("iptables");
        Some(Self { mode: mode.to_owned(), strict_arp: settings["ipvs"]["strictARP"] == true })
    }
}
