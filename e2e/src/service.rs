//! Backends and the LoadBalancer Services before them, the same way in both variants.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    backend::{BACKEND_HTTP, BACKEND_UDP, LightServer},
    invariants::shown,
    lab::Lab,
    wait::await_that,
};

/// Port, of TCP and of UDP, on which [`Lab::load_balancer`] offers a backend.
pub const SERVICE_PORT: u16 = 80;

/// Returns an unused LoadBalancer Service, without backends or node ports, as a JSON object: many of them cost the API server least.
pub fn unused_service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "type": "LoadBalancer",
            "allocateLoadBalancerNodePorts": false,
            "selector": {"app": name},
            "ports": [{"name": "http", "protocol": "TCP", "port": SERVICE_PORT, "targetPort": BACKEND_HTTP}],
        },
    })
}

/// Concurrent requests while many Services are made.
const IN_FLIGHT: usize = 32;
/// Limit of the wait of many Services for their addresses.
const ALL_SHOWN: Duration = Duration::from_mins(5);

/// Network in which a backend's servers are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// At addresses of their own.
    Pod,
    /// At their nodes'.
    Host,
}

impl Lab {
    /// Makes so many of [`unused_service`], `<name>-0000` and on, and waits until each shows its address.
    pub async fn unused_services(&self, name: &str, count: usize) -> anyhow::Result<()> {
        let api: Api<Service> = Api::default_namespaced(self.client());
        let made = stream::iter(0..count).map(async |index| {
            let name = format!("{name}-{index:04}");
            let service = serde_json::from_value(unused_service(&name))?;
            let made = api.create(&PostParams::default(), &service).await;
            made.map(drop).with_context(|| format!("making Service {name}"))
        });
        made.buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
        await_that("every Service shows its address", ALL_SHOWN, async || {
            let list = api.list(&ListParams::default()).await?;
            let shown = list.iter().filter(|service| !shown(service).is_empty()).count();
            ensure!(shown >= count, "{shown} of {count} do");
            Ok(Some(()))
        })
        .await
    }

    /// Starts a server on each of the nodes and waits until they run. The one on `n1` calls itself `<name>-n1`. With
    /// kubelets they are pods with the label `app: <name>`.
    pub async fn backend(&self, name: &str, nodes: &[&str]) -> anyhow::Result<()> {
        self.backend_in(Network::Pod, name, nodes).await
    }

    /// The same in the network of the nodes themselves: pods with `hostNetwork`. One backend of a node can be there.
    pub async fn host_backend(&self, name: &str, nodes: &[&str]) -> anyhow::Result<()> {
        self.backend_in(Network::Host, name, nodes).await
    }

    async fn backend_in(&self, network: Network, name: &str, nodes: &[&str]) -> anyhow::Result<()> {
        for node in nodes {
            self.node(node)?;
        }
        if !self.options.light {
            return self.start_backend_pods(network, name, nodes).await;
        }
        let mut servers = Vec::new();
        for &node in nodes {
            let pod = format!("{name}-{node}");
            let server = match network {
                Network::Pod => {
                    let on_node =
                        self.servers().values().flatten().filter(|server| server.node == node).count();
                    let nth = u8::try_from(2 + on_node).ok().filter(|nth| *nth <= 30);
                    let nth = nth.with_context(|| format!("{node} has no more addresses for pods"))?;
                    self.start_light_server(node, &pod, nth)?
                }
                Network::Host => self.start_light_host_server(node, &pod)?,
            };
            servers.push((pod, server.v4));
            self.servers().entry(name.to_owned()).or_default().push(server);
        }
        for (pod, address) in servers {
            self.await_server(&pod, address).await?;
        }
        Ok(())
    }

    /// Waits until the server at this address answers.
    pub(crate) async fn await_server(&self, name: &str, address: Ipv4Addr) -> anyhow::Result<()> {
        await_that(&format!("server {name} answers"), Duration::from_mins(1), async || {
            let answer = self.curl("cp", address, BACKEND_HTTP).await?;
            ensure!(answer == name, "it calls itself {answer:?}");
            Ok(Some(()))
        })
        .await
    }

    /// Light only: lets [`Self::load_balancer`] of `name` lead to the servers of backend `of`.
    pub fn same_backend(&self, name: &str, of: &str) -> anyhow::Result<()> {
        let mut backends = self.servers();
        let servers = backends.get(of).cloned().with_context(|| format!("there is no backend {of:?}"))?;
        backends.insert(name.to_owned(), servers);
        Ok(())
    }

    /// Makes a Service of type LoadBalancer before the backend of the same name: TCP port 80 to its HTTP server, UDP port
    /// 80 to its UDP server. `tweak` may change it (class, policy, annotations) before it is sent.
    pub async fn load_balancer(
        &self,
        name: &str,
        tweak: impl FnOnce(&mut Service),
    ) -> anyhow::Result<Service> {
        let mut service: Service = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "type": "LoadBalancer",
                "ports": [
                    {"name": "http", "protocol": "TCP", "port": SERVICE_PORT, "targetPort": BACKEND_HTTP},
                    {"name": "udp", "protocol": "UDP", "port": SERVICE_PORT, "targetPort": BACKEND_UDP},
                ],
            },
        }))?;
        if !self.options.light
            && let Some(spec) = &mut service.spec
        {
            spec.selector = Some([("app".to_owned(), name.to_owned())].into());
        }
        tweak(&mut service);
        if self.options.light {
            self.write_endpoint_slices(&service).await?;
        }
        let api: Api<Service> = Api::default_namespaced(self.client());
        let made = api.create(&PostParams::default(), &service).await;
        made.with_context(|| format!("making Service {name}"))
    }

    /// Waits until the Service (in namespace `default`) has an ingress address and returns the first.
    pub async fn ingress(&self, service: &str, limit: Duration) -> anyhow::Result<IpAddr> {
        let api: Api<Service> = Api::default_namespaced(self.client());
        await_that(&format!("Service {service} has an ingress address"), limit, async || {
            let status = api.get(service).await?.status.and_then(|status| status.load_balancer);
            let first = status.and_then(|load_balancer| load_balancer.ingress?.into_iter().next()?.ip);
            Ok(first.map(|ip| ip.parse()).transpose()?)
        })
        .await
    }

    pub(crate) fn servers(&self) -> MutexGuard<'_, std::collections::BTreeMap<String, Vec<LightServer>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
