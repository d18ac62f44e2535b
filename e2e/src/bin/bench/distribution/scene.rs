//! The lab: an address, pods on some of the nodes, and the system that serves it.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anyhow::ensure;
use k8s_openapi::{
    api::core::v1::{Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::json;
use windlass_e2e::{EndpointState, IN_A_ROW, Lab, Pods, SERVICE_PORT, await_that};

use super::download;
use crate::system::CLIENT;

/// All nodes. Pods are on the first ones.
pub(crate) const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];
/// The node that has the address while it can.
pub(crate) const DIRECTOR: &str = NODES[0];
/// Port of the Services for downloads.
pub(crate) const DOWNLOAD_PORT: u16 = 81;
const ANNOUNCEMENT: &str = "distribution";
/// Limit of what takes seconds when all is well. A server that dies often gets its lots back five minutes after its return.
const LIMIT: Duration = Duration::from_mins(6);

/// System that serves the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum System {
    /// Windlass with `loadSharing: Local`.
    Windlass,
    /// Windlass with `loadSharing: None`.
    None,
    /// keepalived, with an address of its own and `externalTrafficPolicy: Cluster`.
    Keepalived,
}

impl System {
    /// Name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::None => "none",
            Self::Keepalived => "keepalived",
        }
    }
}

/// A running lab with the address.
pub(crate) struct Scene<'a> {
    pub(crate) lab: &'a Lab,
    /// The address that Windlass announces.
    pub(crate) vip: IpAddr,
    service: Service,
}

impl<'a> Scene<'a> {
    /// Starts Windlass and a server on each node.
    pub(crate) async fn start(lab: &'a Lab) -> anyhow::Result<Self> {
        lab.deploy_windlass(&NODES).await?;
        let preferred = json!({"matchLabels": {"kubernetes.io/hostname": DIRECTOR}});
        let spec = json!({"loadSharing": "None", "preferredNodes": [{"weight": 100, "selector": preferred}]});
        lab.announcement(ANNOUNCEMENT, spec).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend("web", &NODES).await?;
        download::start_servers(lab)?;
        let local = |service: &mut Service| {
            offer_downloads(service);
            service.spec.get_or_insert_default().external_traffic_policy = Some("Local".into());
        };
        let service = lab.load_balancer("web", local).await?;
        let vip = lab.ingress("web", LIMIT).await?;
        Ok(Self { lab, vip, service })
    }

    /// HTTP port of the address.
    pub(crate) fn target(&self) -> SocketAddr {
        (self.vip, SERVICE_PORT).into()
    }

    /// Sets the load sharing of the address. keepalived's address is another one.
    pub(crate) async fn share(&self, system: System) -> anyhow::Result<()> {
        let sharing = match system {
            System::Windlass => "Local",
            System::None | System::Keepalived => "None",
        };
        self.lab.change_announcement(ANNOUNCEMENT, json!({"loadSharing": sharing})).await.map(drop)
    }

    /// Puts a pod on each of these nodes, and waits until they serve.
    pub(crate) async fn serve(&self, system: System, nodes: &[&str]) -> anyhow::Result<()> {
        let pods: Vec<_> = nodes.iter().map(|node| (*node, EndpointState::Ready)).collect();
        self.write(system, &pods).await
    }

    /// Writes these pods, and waits until those that are ready serve, and no others: all of them, or one without load sharing.
    pub(crate) async fn write(&self, system: System, pods: Pods<'_>) -> anyhow::Result<()> {
        let Self { lab, vip, service } = self;
        lab.write_pods(service, pods).await?;
        let ready: Vec<&str> =
            pods.iter().filter(|(_, state)| *state == EndpointState::Ready).map(|(node, _)| *node).collect();
        if system == System::Windlass && ready.len() > 1 {
            return lab.await_shared(CLIENT, *vip, &ready, LIMIT).await;
        }
        await_that(&format!("one of {ready:?} serves {vip}"), LIMIT, async || {
            let owner = lab.await_owner(CLIENT, *vip).await?;
            ensure!(ready.contains(&owner.as_str()), "{owner} has it");
            self.await_servers(*vip, &[&owner]).await.map(Some)
        })
        .await
    }

    /// Waits until the pods of these nodes answer at an address, and no others.
    pub(crate) async fn await_servers(&self, address: IpAddr, nodes: &[&str]) -> anyhow::Result<()> {
        let pods: BTreeSet<String> = nodes.iter().map(|node| format!("web-{node}")).collect();
        await_that(&format!("{pods:?} answer at {address}"), LIMIT, async || {
            let servers = self.servers(address).await?;
            ensure!(servers == pods, "{servers:?} answer");
            Ok(Some(()))
        })
        .await
    }

    /// Turns a node off, and waits until all new connections succeed without it.
    pub(crate) async fn turn_off(&self, node: &str) -> anyhow::Result<()> {
        self.lab.node(node)?.power_off().await?;
        await_that(&format!("all new connections succeed without {node}"), LIMIT, async || {
            let servers = self.servers(self.vip).await?;
            ensure!(!servers.contains(&format!("web-{node}")), "{servers:?} answer");
            Ok(Some(()))
        })
        .await
    }

    /// Turns a node on again, with its server and its agent.
    pub(crate) async fn turn_on(&self, node: &str) -> anyhow::Result<()> {
        self.lab.node(node)?.power_on().await?;
        self.lab.start_server_again("web", node)?;
        self.lab.start_agent(node)
    }

    /// Returns the servers of new connections, which all have to succeed.
    async fn servers(&self, address: IpAddr) -> anyhow::Result<BTreeSet<String>> {
        self.lab.curl_each(CLIENT, address, SERVICE_PORT, IN_A_ROW, &[]).await
    }
}

/// Adds the port of downloads to a Service.
pub(crate) fn offer_downloads(service: &mut Service) {
    let port = ServicePort {
        name: Some("download".into()),
        port: DOWNLOAD_PORT.into(),
        target_port: Some(IntOrString::Int(download::SERVER_PORT.into())),
        ..ServicePort::default()
    };
    service.spec.get_or_insert_default().ports.get_or_insert_default().push(port);
}
