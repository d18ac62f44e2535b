//! A complete cloud-controller-manager: Services get addresses from a list on the command line, nodes keep their own.
//!
//! ```sh
//! static_provider --kubeconfig=admin.conf --addresses=192.0.2.10,192.0.2.11,2001:db8::10
//! ```
//!
//! Routing the addresses to the nodes is left to the network around them. All else is the library's: the flags, the
//! election, HTTPS with health and metrics, what is written to Services and Nodes, retries and events.

use std::collections::HashMap;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Parser;
use k8s_openapi::api::core::v1::{
    LoadBalancerIngress, LoadBalancerStatus, Node, PortStatus, Service, ServiceSpec,
};
use kube::api::{Api, ListParams};
use windlass_ccm::app::{self, BoxError, Capabilities, CloudProvider, Context, Flags};
use windlass_ccm::{Ensured, InstanceMetadata, Instances, LoadBalancer, ProviderError};

#[cfg(test)]
#[path = "static_provider/tests.rs"]
mod tests;

#[derive(Parser)]
#[command(name = "static_provider", version)]
struct Args {
    /// Addresses that Services get
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    addresses: Vec<IpAddr>,
    /// How traffic arrives at the nodes: VIP, still for the address, or Proxy, for the node; unset leaves it to Kubernetes
    #[arg(long, value_name = "MODE", value_parser = ["VIP", "Proxy"])]
    ip_mode: Option<String>,
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    let args = Args::parse();
    app::main(Static::new(args.addresses, args.ip_mode), &args.flags)
}

/// The provider.
struct Static {
    addresses: Vec<IpAddr>,
    ip_mode: Option<String>,
    /// UID of the Service that has an address.
    owners: Mutex<HashMap<IpAddr, String>>,
}

impl Static {
    fn new(addresses: Vec<IpAddr>, ip_mode: Option<String>) -> Self {
        Self { addresses, ip_mode, owners: Mutex::default() }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<IpAddr, String>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a process before this one gave: Services keep their addresses.
    fn adopt(&self, service: &Service) {
        for address in shown(service).into_iter().filter(|address| self.addresses.contains(address)) {
            self.owners().entry(address).or_insert_with(|| uid(service));
        }
    }

    /// One address for each family of the Service: its own, else a free one. All, or none and the reason.
    fn give(&self, service: &Service) -> Result<Vec<IpAddr>, ProviderError> {
        let (uid, spec) = (uid(service), service.spec.clone().unwrap_or_default());
        let mut owners = self.owners();
        let mut given = Vec::new();
        for family in spec.ip_families.unwrap_or_else(|| vec!["IPv4".to_owned()]) {
            let fitting = || self.addresses.iter().filter(|address| address.is_ipv6() == (family == "IPv6"));
            let own = fitting().find(|address| owners.get(address) == Some(&uid));
            let Some(address) = own.or_else(|| fitting().find(|address| !owners.contains_key(address)))
            else {
                let message =
                    format!("no {family} address is free; delete a Service or start with more --addresses");
                return Err(ProviderError::Rejected { reason: "NoFreeAddress", message });
            };
            given.push(*address);
        }
        owners.retain(|_, owner| *owner != uid);
        owners.extend(given.iter().map(|address| (*address, uid.clone())));
        Ok(given)
    }

    fn status(&self, spec: &ServiceSpec, addresses: &[IpAddr]) -> LoadBalancerStatus {
        let ports = spec.ports.iter().flatten().map(|port| PortStatus {
            port: port.port,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            error: None,
        });
        let ports: Vec<_> = ports.collect();
        let ingress = addresses.iter().map(|address| LoadBalancerIngress {
            ip: Some(address.to_string()),
            ip_mode: self.ip_mode.clone(),
            ports: Some(ports.clone()),
            hostname: None,
        });
        LoadBalancerStatus { ingress: Some(ingress.collect()) }
    }
}

fn uid(service: &Service) -> String {
    service.metadata.uid.clone().unwrap_or_default()
}

/// The addresses in the Service's status.
fn shown(service: &Service) -> Vec<IpAddr> {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let entries = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    entries.filter_map(|entry| entry.ip.as_ref()?.parse().ok()).collect()
}

impl CloudProvider for Static {
    const NAME: &'static str = "static";
    type LoadBalancer = Self;
    type Instances = Self;

    async fn start(self, context: Context) -> Result<Capabilities<Self, Self>, BoxError> {
        let services: Api<Service> = Api::all(context.client);
        for service in services.list(&ListParams::default()).await? {
            self.adopt(&service);
        }
        let provider = Arc::new(self);
        Ok(Capabilities::new().with_load_balancer(Arc::clone(&provider)).with_instances(provider))
    }
}

impl LoadBalancer for Static {
    async fn get(&self, _: &str, service: &Service) -> Result<Option<LoadBalancerStatus>, ProviderError> {
        let (uid, owners) = (uid(service), self.owners());
        let own: Vec<_> =
            self.addresses.iter().copied().filter(|one| owners.get(one) == Some(&uid)).collect();
        let spec = service.spec.clone().unwrap_or_default();
        Ok((!own.is_empty()).then(|| self.status(&spec, &own)))
    }

    async fn ensure(&self, _: &str, service: &Service, _: &[Arc<Node>]) -> Result<Ensured, ProviderError> {
        let addresses = self.give(service)?;
        let status = self.status(&service.spec.clone().unwrap_or_default(), &addresses);
        Ok(Ensured::ready(status))
    }

    async fn update_nodes(&self, _: &str, _: &Service, _: &[Arc<Node>]) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn ensure_deleted(&self, _: &str, service: &Service) -> Result<(), ProviderError> {
        self.owners().retain(|_, owner| *owner != uid(service));
        Ok(())
    }
}

impl Instances for Static {
    async fn exists(&self, _: &Node) -> Result<bool, ProviderError> {
        Ok(true) // Nobody told us that it is gone.
    }

    async fn shutdown(&self, _: &Node) -> Result<bool, ProviderError> {
        Ok(false)
    }

    async fn metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>, ProviderError> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let addresses = node.status.clone().and_then(|status| status.addresses).unwrap_or_default();
        Ok(Some(InstanceMetadata {
            provider_id: format!("static://{name}"),
            addresses,
            ..InstanceMetadata::default()
        }))
    }
}
