//! The light variant: Nodes, pods' namespaces and EndpointSlices made by the lab, kube-proxy for real.

use std::net::IpAddr;

use anyhow::Context as _;
use futures::try_join;
use k8s_openapi::{
    api::{
        core::v1::{Node as NodeObject, Service},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::util::intstr::IntOrString,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    backend::{BACKEND_HTTP, BACKEND_UDP, LightServer},
    control_plane::READY,
    lab::Lab,
    node::Node,
    topology::{Host, POD_RANGES},
    wait::await_that,
};

impl Lab {
    /// Makes the nodes that are there from the beginning.
    pub(crate) async fn start_light_nodes(&self) -> anyhow::Result<()> {
        for node in self.first_nodes() {
            self.start_light_node(node.host).await?;
        }
        self.await_light_proxies(self.first_nodes()).await
    }

    /// Writes the Node of a host and starts a kube-proxy on it, if there is to be one.
    pub(crate) async fn start_light_node(&self, host: &Host) -> anyhow::Result<()> {
        self.write_node(&host.name).await?;
        let (v4, v6) = host.pod_addresses(1).context("a node without pod addresses")?;
        let name = &host.name;
        self.sandbox.script(&format!(
            "ip -n {name} link add cni0 type bridge\n\
             ip -n {name} addr add {v4}/27 dev cni0\n\
             if [ -e /proc/sys/net/ipv6 ]; then ip -n {name} addr add {v6}/64 dev cni0 nodad; fi\n\
             ip -n {name} link set cni0 up"
        ))?;
        self.start_kube_proxy(host)
    }

    /// Light only: writes the Node of a host, as a kubelet does that registers it.
    pub async fn write_node(&self, node: &str) -> anyhow::Result<()> {
        let nodes: Api<NodeObject> = Api::all(self.client());
        let object = node_object(self.host(node)?, self.options.uninitialized)?;
        nodes
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("writing Node {node}"))
            .map(drop)
    }

    /// Waits for the kube-proxies of these nodes, if they are to be waited for.
    pub(crate) async fn await_light_proxies(
        &self,
        nodes: impl Iterator<Item = Node<'_>>,
    ) -> anyhow::Result<()> {
        // Without addresses of their Nodes they wait, for 30 s or until a cloud provider writes them.
        if self.options.uninitialized || self.options.proxy_mode.is_none() {
            return Ok(());
        }
        self.await_kube_proxies(nodes).await
    }

    /// Starts kube-proxy on a node, if there is to be one.
    pub(crate) fn start_kube_proxy(&self, host: &Host) -> anyhow::Result<()> {
        let Some(mode) = self.options.proxy_mode else { return Ok(()) };
        let mut command = self.kubernetes("kube-proxy");
        command.extend([
            format!("--kubeconfig={}", self.kubeconfig("kube-proxy").display()),
            format!("--hostname-override={}", host.name),
            // So that it need not wait for the Node to have an address.
            format!("--bind-address={}", host.address),
            format!("--cluster-cidr={POD_RANGES}"),
            format!("--proxy-mode={}", mode.as_str()),
            "--healthz-bind-address=0.0.0.0:10256".into(),
            // These would be set for the whole machine.
            "--conntrack-max-per-core=0".into(),
            "--conntrack-tcp-timeout-established=0".into(),
            "--conntrack-tcp-timeout-close-wait=0".into(),
        ]);
        command.extend_from_slice(&self.options.proxy_flags);
        self.start_on_node(&host.name, "kube-proxy", command)?;
        self.daemons.keep(&host.name, "kube-proxy");
        Ok(())
    }

    /// Waits until the kube-proxy of each of these nodes calls itself healthy.
    pub(crate) async fn await_kube_proxies(
        &self,
        nodes: impl Iterator<Item = Node<'_>>,
    ) -> anyhow::Result<()> {
        for node in nodes {
            await_that(&format!("kube-proxy on {} is healthy", node.name()), READY, async || {
                self.daemons.check(&self.sandbox, self.logs(), node.name(), "kube-proxy")?;
                let url = "http://127.0.0.1:10256/healthz";
                self.exec(node.name(), &["curl", "-sS", "--noproxy", "*", "--fail", "--max-time", "2", url])
                    .await?;
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    }

    /// Starts a server in a namespace of its own on the node, as a pod would be.
    pub(crate) fn start_light_server(&self, node: &str, pod: &str, nth: u8) -> anyhow::Result<LightServer> {
        let host = self.host(node)?;
        let ((v4, v6), (gateway, gateway_v6)) =
            host.pod_addresses(nth).zip(host.pod_addresses(1)).context("no pod addresses")?;
        // Interface names have at most 15 characters: the pod's number within the node is enough.
        let port = format!("pod{nth}");
        self.sandbox.script(&format!(
            "ip netns add {pod}\n\
             ip -n {pod} link set lo up\n\
             ip -n {node} link add {port} type veth peer name eth0 netns {pod}\n\
             ip -n {node} link set {port} master cni0 up\n\
             ip -n {pod} addr add {v4}/27 dev eth0\n\
             ip -n {pod} link set eth0 up\n\
             ip -n {pod} route add default via {gateway}\n\
             if [ -e /proc/sys/net/ipv6 ]; then\n\
             ip -n {pod} addr add {v6}/64 dev eth0 nodad\n\
             ip -n {pod} route add default via {gateway_v6}\nfi"
        ))?;
        self.start_netexec(pod, node, pod)?;
        Ok(LightServer { node: node.to_owned(), v4, v6 })
    }

    /// Starts a server in the node's own namespace, as a pod of the host network would be.
    pub(crate) fn start_light_host_server(&self, node: &str, pod: &str) -> anyhow::Result<LightServer> {
        let host = self.host(node)?;
        self.start_netexec(node, node, pod)?;
        Ok(LightServer { node: node.to_owned(), v4: host.address, v6: host.ipv6() })
    }

    /// Starts a server of the node that calls itself `pod`.
    fn start_netexec(&self, netns: &str, node: &str, pod: &str) -> anyhow::Result<()> {
        let mark = format!("{}={node}", crate::node::MARK);
        let agnhost = self.tools.path("agnhost");
        let server = format!("hostname {pod}; exec {} netexec", crate::sandbox::quoted(&agnhost));
        let command = ["env", &mark, "unshare", "--uts", "sh", "-c", &server].map(str::to_owned).to_vec();
        self.daemons.start(&self.sandbox, netns, "netexec", command)
    }

    /// Light only: starts a backend's server on a node again that has ended.
    pub fn start_server_again(&self, backend: &str, node: &str) -> anyhow::Result<()> {
        self.daemons.start_again(&self.sandbox, &format!("{backend}-{node}"), "netexec")
    }

    /// Light only: the same of the server of the node's own network.
    pub fn start_host_server_again(&self, node: &str) -> anyhow::Result<()> {
        self.daemons.start_again(&self.sandbox, node, "netexec")
    }

    /// Light only: writes the EndpointSlices of a Service, one of each family, for its ports as they are now.
    /// (kube-proxy uses those of the families that it has.)
    pub async fn write_endpoint_slices(&self, service: &Service) -> anyhow::Result<()> {
        self.write_endpoints(service, |_| Some(EndpointState::Ready)).await
    }

    /// The same for these pods and no others.
    pub async fn write_pods(&self, service: &Service, pods: Pods<'_>) -> anyhow::Result<()> {
        let state = |node: &str| pods.iter().find(|(on, _)| *on == node).map(|(_, state)| *state);
        self.write_endpoints(service, state).await
    }

    /// The same with the state of each server's pod, by its node; `None`: it has none.
    pub async fn write_endpoints(
        &self,
        service: &Service,
        state: impl Fn(&str) -> Option<EndpointState>,
    ) -> anyhow::Result<()> {
        let name = service.name_any();
        let servers = self.servers().get(&name).cloned().unwrap_or_default();
        let ports = endpoint_ports(service);
        let endpoints = |address: fn(&LightServer) -> IpAddr| {
            let endpoint = |server: &LightServer| {
                let conditions = state(&server.node)?.conditions();
                Some(
                    json!({"addresses": [address(server)], "nodeName": server.node, "conditions": conditions}),
                )
            };
            servers.iter().filter_map(endpoint).collect::<Vec<Value>>()
        };
        try_join!(
            apply(self.client(), &name, "IPv4", endpoints(|server| server.v4.into()), &ports),
            apply(self.client(), &name, "IPv6", endpoints(|server| server.v6.into()), &ports),
        )?;
        Ok(())
    }
}

/// The node of each pod, and the pod's state.
pub type Pods<'a> = &'a [(&'a str, EndpointState)];

/// State of a pod behind a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It serves.
    Ready,
    /// It runs, and does not serve yet.
    Starting,
    /// It ends, and still serves.
    Terminating,
}

impl EndpointState {
    fn conditions(self) -> Value {
        match self {
            Self::Ready => json!({"ready": true, "serving": true, "terminating": false}),
            Self::Starting => json!({"ready": false, "serving": false, "terminating": false}),
            Self::Terminating => json!({"ready": false, "serving": true, "terminating": true}),
        }
    }
}

/// The servers' own ports by the names that [`Lab::load_balancer`] uses, and whatever else the Service names with a number
/// as its target.
fn endpoint_ports(service: &Service) -> Vec<Value> {
    let mut ports = vec![
        json!({"name": "http", "protocol": "TCP", "port": BACKEND_HTTP}),
        json!({"name": "udp", "protocol": "UDP", "port": BACKEND_UDP}),
    ];
    let further = service.spec.iter().filter_map(|spec| spec.ports.as_ref()).flatten();
    for port in further {
        let (Some(name), Some(IntOrString::Int(target))) = (&port.name, &port.target_port) else { continue };
        if ports.iter().all(|known| known["name"] != **name) {
            ports.push(json!({"name": name, "protocol": port.protocol, "port": target}));
        }
    }
    ports
}

async fn apply(
    client: Client,
    service: &str,
    family: &str,
    endpoints: Vec<Value>,
    ports: &[Value],
) -> anyhow::Result<()> {
    let name = format!("{service}-{}", family.to_lowercase());
    let slice: EndpointSlice = serde_json::from_value(json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": family,
        "endpoints": endpoints,
        "ports": ports,
    }))?;
    let api: Api<EndpointSlice> = Api::default_namespaced(client);
    api.patch(&name, &PatchParams::apply("windlass-lab").force(), &Patch::Apply(slice)).await?;
    Ok(())
}

/// A Node as a kubelet would have written it.
fn node_object(host: &Host, uninitialized: bool) -> anyhow::Result<NodeObject> {
    // Not older than the boot of this machine: agents wait for a kubelet that has not reported since.
    let now = Timestamp::now().to_string();
    let name = &host.name;
    let taints = if uninitialized {
        json!([{"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}])
    } else {
        json!([])
    };
    let addresses = if uninitialized {
        json!([])
    } else {
        json!([
            {"type": "InternalIP", "address": host.address},
            {"type": "InternalIP", "address": host.ipv6()},
            {"type": "Hostname", "address": name},
        ])
    };
    let pods = host.pod_cidrs().context("a node without pod addresses")?;
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
            // A kubelet with --node-ip writes this for the cloud provider.
            "annotations": {"alpha.kubernetes.io/provided-node-ip": format!("{},{}", host.address, host.ipv6())},
        },
        "spec": {"podCIDR": pods[0], "podCIDRs": pods, "taints": taints},
        "status": {
            "addresses": addresses,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "written by the lab",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
        },
    });
    Ok(serde_json::from_value(node)?)
}
