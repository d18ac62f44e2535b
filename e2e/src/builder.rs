//! Configuration of a lab.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::Context as _;

use crate::{
    cni::Cni,
    rack_networks,
    topology::{self, Host},
};

/// Method by which kube-proxy rewrites packets to Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProxyMode {
    /// By nftables rules.
    #[default]
    Nftables,
    /// By iptables rules.
    Iptables,
}

impl ProxyMode {
    /// As kube-proxy's `--proxy-mode` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        }
    }
}

/// Holder of the VIP of the API servers, for a control plane with nodes of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ApiVipHolder {
    /// None, until the scenario starts one; [`crate::Lab::client`] gets no answer before.
    #[default]
    Nobody,
    /// `windlass vip` on each node, with these flags beside the usual ones.
    Windlass(Vec<String>),
    /// keepalived on each node, with the script that is usual for an API server.
    Keepalived,
}

/// Start options of kubelets and kube-proxies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kubelets {
    /// They run without `--cloud-provider=external`.
    pub(crate) without_cloud_provider: bool,
    /// Nodes whose kubelets run without `--node-ip`.
    pub(crate) without_node_ip: Vec<String>,
    /// Nodes that are not of the cluster yet when the lab has started.
    pub(crate) late: Vec<String>,
    /// No kube-proxy is started with the lab.
    pub(crate) late_proxies: bool,
}

/// Network of the nodes of a control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ControlPlaneNetwork {
    /// The LAN of all hosts.
    #[default]
    Lan,
    /// Two racks, each with a network of its own.
    Racks,
}

/// Configuration of a lab; made by [`crate::Lab::builder`].
#[derive(Clone, Debug)]
pub struct LabBuilder {
    /// Which one it is of the clusters on its LAN.
    pub(crate) cluster: u8,
    /// 0: all of it is on `cp`.
    pub(crate) control_plane_nodes: u8,
    pub(crate) control_plane_network: ControlPlaneNetwork,
    pub(crate) api_vip: ApiVipHolder,
    pub(crate) nodes: u8,
    pub(crate) clients: Vec<String>,
    pub(crate) light: bool,
    pub(crate) uninitialized: bool,
    pub(crate) kubelets: Kubelets,
    pub(crate) cni: Cni,
    pub(crate) service_range: String,
    /// `None`: there is no kube-proxy.
    pub(crate) proxy_mode: Option<ProxyMode>,
    pub(crate) proxy_flags: Vec<String>,
    pub(crate) limit: Option<Duration>,
    pub(crate) interactive: bool,
}

impl Default for LabBuilder {
    fn default() -> Self {
        Self {
            cluster: 0,
            control_plane_nodes: 0,
            control_plane_network: ControlPlaneNetwork::default(),
            api_vip: ApiVipHolder::default(),
            nodes: 1,
            clients: Vec::new(),
            light: false,
            uninitialized: false,
            kubelets: Kubelets::default(),
            cni: Cni::default(),
            service_range: "198.51.100.0/24".into(),
            proxy_mode: Some(ProxyMode::default()),
            proxy_flags: Vec::new(),
            limit: Some(Duration::from_mins(10)),
            interactive: false,
        }
    }
}

impl LabBuilder {
    /// Sets the number of nodes (`n1`, `n2`, …), 1 to 8; default 1.
    #[must_use]
    pub fn nodes(self, nodes: u8) -> Self {
        Self { nodes, ..self }
    }

    /// A control plane with nodes of its own, `cp1`, `cp2`, …, 1 to 5: each has a member of one etcd and an API server, and with kubelets a
    /// kube-controller-manager and a kube-scheduler. All clients use [`crate::Lab::api_vip`] only. No other nodes then, unless
    /// [`Self::nodes`] says so after this.
    #[must_use]
    pub fn control_plane_nodes(self, control_plane_nodes: u8) -> Self {
        Self { control_plane_nodes, nodes: 0, ..self }
    }

    /// The nodes of the control plane are in two racks, each with a network and a BGP router of its own: all in the first but the last.
    #[must_use]
    pub fn racks(self) -> Self {
        Self { control_plane_network: ControlPlaneNetwork::Racks, ..self }
    }

    /// Sets the initial holder of the VIP of the API servers; default none.
    #[must_use]
    pub fn api_vip(self, holder: ApiVipHolder) -> Self {
        Self { api_vip: holder, ..self }
    }

    /// Which one it is of several clusters on one LAN, 0 to 3; default 0. Their hosts have addresses of their own;
    /// [`crate::clusters`] starts them.
    #[must_use]
    pub fn cluster(self, cluster: u8) -> Self {
        Self { cluster, ..self }
    }

    /// Adds a client host of that name to the LAN.
    #[must_use]
    pub fn client(mut self, name: &str) -> Self {
        self.clients.push(name.to_owned());
        self
    }

    /// Without kubelets, containers, kube-controller-manager and kube-scheduler: the lab writes Nodes and EndpointSlices
    /// itself, backends are plain processes, windlass is started by [`crate::Lab::start_controller`] and
    /// [`crate::Lab::start_agent`]. etcd, kube-apiserver and kube-proxy are real. Up in a few seconds.
    #[must_use]
    pub fn light(self) -> Self {
        Self { light: true, ..self }
    }

    /// Light only: Nodes begin as under `kubelet --cloud-provider=external`, with the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized` and no addresses. (Real kubelets begin so, unless they are [`Self::without_cloud_provider`].)
    #[must_use]
    pub fn uninitialized(self) -> Self {
        Self { uninitialized: true, ..self }
    }

    /// With kubelets: they run without `--cloud-provider=external`, as most that were not made for a cloud. Their Nodes do
    /// not wait for a cloud controller.
    #[must_use]
    pub fn without_cloud_provider(mut self) -> Self {
        self.kubelets.without_cloud_provider = true;
        self
    }

    /// With kubelets: the pod network; default [`Cni::Routed`].
    #[must_use]
    pub fn cni(self, cni: Cni) -> Self {
        Self { cni, ..self }
    }

    /// With kubelets: those of these nodes run without `--node-ip`, and so know no addresses of their own.
    #[must_use]
    pub fn without_node_ip(mut self, nodes: &[&str]) -> Self {
        self.kubelets.without_node_ip.extend(nodes.iter().map(|&node| node.to_owned()));
        self
    }

    /// These nodes are not of the cluster until [`crate::Lab::join`], those of the control plane not until
    /// [`crate::Lab::join_control_plane`].
    #[must_use]
    pub fn late(mut self, nodes: &[&str]) -> Self {
        self.kubelets.late.extend(nodes.iter().map(|&node| node.to_owned()));
        self
    }

    /// With kubelets: only [`crate::Lab::start_kube_proxies`] starts kube-proxies. Until then no client reaches the cluster
    /// address of any Service, the API server's included.
    #[must_use]
    pub fn late_proxies(mut self) -> Self {
        self.kubelets.late_proxies = true;
        self
    }

    /// IPv4 cluster addresses of Services, as `198.18.0.0/16`; default 198.51.100.0/24, which is enough for 254 of them.
    #[must_use]
    pub fn service_range(self, cidr: &str) -> Self {
        Self { service_range: cidr.to_owned(), ..self }
    }

    /// Mode of every kube-proxy; default nftables.
    #[must_use]
    pub fn proxy_mode(self, proxy_mode: ProxyMode) -> Self {
        Self { proxy_mode: Some(proxy_mode), ..self }
    }

    /// Light only: a further flag for every kube-proxy.
    #[must_use]
    pub fn proxy_flag(mut self, flag: &str) -> Self {
        self.proxy_flags.push(flag.to_owned());
        self
    }

    /// Light only: no kube-proxy. Services lead nowhere, and thousands of them cost nothing on the nodes.
    #[must_use]
    pub fn without_proxy(self) -> Self {
        Self { proxy_mode: None, ..self }
    }

    /// Limits the time that the body may take before the scenario fails; default 10 minutes.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Removes the time limit of the body.
    #[must_use]
    pub fn no_limit(self) -> Self {
        Self { limit: None, ..self }
    }

    /// For programs that people run. The body may take as long as it likes; Ctrl-C, SIGTERM and SIGHUP take the lab down in
    /// an orderly way, and `Lab::run` returns [`crate::command::Interrupted`]. Unless something failed no file is left, and
    /// what the cluster and the logs then show goes to a file instead of the terminal.
    #[must_use]
    pub fn interactive(self) -> Self {
        Self { limit: None, interactive: true, ..self }
    }

    /// Returns the address at which clients find the API server.
    pub(crate) fn api_address(&self, hosts: &[Host]) -> anyhow::Result<Ipv4Addr> {
        match self.control_plane_nodes {
            0 => Ok(topology::control_plane(hosts)?.address),
            1.. => Ok(self.api_vip_address()),
        }
    }

    /// The VIP of the API servers of a control plane that has nodes of its own.
    pub(crate) fn api_vip_address(&self) -> Ipv4Addr {
        match self.control_plane_network {
            ControlPlaneNetwork::Lan => topology::api_vip(self.cluster),
            ControlPlaneNetwork::Racks => rack_networks::VIP,
        }
    }

    /// The first usable address of the service range: the API server's Service gets it.
    pub(crate) fn api_service_address(&self) -> anyhow::Result<Ipv4Addr> {
        let network =
            self.service_range.split_once('/').and_then(|(network, _)| network.parse::<Ipv4Addr>().ok());
        let network =
            network.with_context(|| format!("service range {:?} is no IPv4 CIDR", self.service_range))?;
        Ok(Ipv4Addr::from_bits(network.to_bits() + 1))
    }
}
