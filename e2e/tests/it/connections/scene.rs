//! One address of each family for backends wherever they can be, and clients with connections to each of them.

use std::net::IpAddr;

use anyhow::ensure;
use windlass_api::ANNOTATION_SHARING_KEY;
use windlass_e2e::{Lab, Load, LoadOptions, Protocol, SERVICE_PORT, await_that};

use super::{await_replicated, replicate};
use crate::setup::{LIMIT, annotate, await_ingresses, dual_stack};

/// Connections of each family to each backend. Every other one is idle.
const MANY: usize = 6;
const CLIENTS: LoadOptions = LoadOptions { connections: MANY, requests_per_second: 0 };

/// Where the backend of a Service is, as `n1` is Active and `n2` the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Backend {
    /// A pod on a node that announces nothing.
    ThirdNode,
    /// The host network of that node.
    ThirdHost,
    /// A pod on `n2`.
    Next,
    /// The host network of `n2`.
    NextHost,
    /// A pod on `n1`.
    Active,
}

impl Backend {
    pub(super) const ALL: [Self; 5] =
        [Self::ThirdNode, Self::ThirdHost, Self::Next, Self::NextHost, Self::Active];

    /// Of the Service.
    fn name(self) -> &'static str {
        match self {
            Self::ThirdNode => "third",
            Self::ThirdHost => "thirdhost",
            Self::Next => "next",
            Self::NextHost => "nexthost",
            Self::Active => "active",
        }
    }

    fn port(self) -> u16 {
        SERVICE_PORT
            + match self {
                Self::ThirdNode => 0,
                Self::ThirdHost => 1,
                Self::Next => 2,
                Self::NextHost => 3,
                Self::Active => 4,
            }
    }

    /// On `third` if on none that announces.
    fn node(self, third: &str) -> &str {
        match self {
            Self::ThirdNode | Self::ThirdHost => third,
            Self::Next | Self::NextHost => "n2",
            Self::Active => "n1",
        }
    }

    fn is_on_host(self) -> bool {
        match self {
            Self::ThirdHost | Self::NextHost => true,
            Self::ThirdNode | Self::Next | Self::Active => false,
        }
    }
}

/// The addresses, announced by `n1`, and where their connections are known.
pub(super) struct Scene {
    pub(super) vips: Vec<IpAddr>,
    third: &'static str,
}

impl Scene {
    /// Windlass on these nodes, of which the first announces, and the Services, with a server on each node and on `third`.
    pub(super) async fn start(
        lab: &Lab,
        announcing: &[&'static str],
        third: &'static str,
    ) -> anyhow::Result<Self> {
        replicate(lab, announcing).await?;
        lab.deploy_windlass(announcing).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
        let mut scene = Self { vips: Vec::new(), third };
        for backend in Backend::ALL {
            let (name, nodes) = (backend.name(), [backend.node(third)]);
            if backend.is_on_host() {
                lab.host_backend(name, &nodes).await?;
            } else {
                lab.backend(name, &nodes).await?;
            }
            lab.load_balancer(name, |service| {
                dual_stack(service);
                annotate(service, ANNOTATION_SHARING_KEY, "one");
                let ports = &mut service.spec.get_or_insert_default().ports;
                ports.iter_mut().flatten().for_each(|port| port.port = backend.port().into());
            })
            .await?;
            let vips = await_ingresses(lab, name, 2).await?;
            ensure!(scene.vips.is_empty() || scene.vips == vips, "{name} has {vips:?}, not {:?}", scene.vips);
            scene.vips = vips;
        }
        scene.await_ready(lab).await?;
        Ok(scene)
    }

    /// Waits until `n1` announces, and the next ones have its connections.
    pub(super) async fn await_ready(&self, lab: &Lab) -> anyhow::Result<()> {
        await_replicated(lab, &self.vips, "n1", "n2").await?;
        for backend in Backend::ALL {
            for vip in &self.vips {
                await_that(&format!("{backend:?} is reached over {vip}"), LIMIT, async || {
                    lab.curl("c1", *vip, backend.port()).await?;
                    Ok(Some(()))
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Connections to each backend of these, of each family.
    pub(super) async fn clients(&self, lab: &Lab, backends: &[Backend]) -> anyhow::Result<Clients> {
        let mut loads = Vec::new();
        for backend in backends {
            for vip in &self.vips {
                loads.push((*backend, *vip, lab.load("c1", *vip, backend.port(), CLIENTS).await?));
            }
        }
        Ok(Clients { loads, third: self.third })
    }
}

/// Clients with connections to several backends.
pub(super) struct Clients {
    loads: Vec<(Backend, IpAddr, Load)>,
    third: &'static str,
}

impl Clients {
    /// Waits until the kernel of each heir has those connections that it can have: neither those whose backend is on the Active,
    /// nor, until it takes over, those whose backend is on itself.
    pub(super) async fn await_known(&self, lab: &Lab, heirs: &[&str]) -> anyhow::Result<()> {
        for heir in heirs {
            for (backend, vip, load) in &self.loads {
                let node = backend.node(self.third);
                if node == *heir || *backend == Backend::Active {
                    continue;
                }
                await_that(
                    &format!("{heir} knows the connections to {backend:?} over {vip}"),
                    LIMIT,
                    async || {
                        let known = lab.tracked(heir, Protocol::Tcp, *vip).await?;
                        let mut unknown = load.ports();
                        unknown.retain(|port| !known.contains(port));
                        ensure!(unknown.is_empty(), "it does not know those from {unknown:?}");
                        Ok(Some(()))
                    },
                )
                .await?;
            }
        }
        Ok(())
    }

    /// Asks on all connections once more: those of some backends have ended, those of some may have, all others have gone on.
    pub(super) fn stop(self, what: &str, ended: &[Backend], may_end: &[Backend]) -> anyhow::Result<()> {
        self.loads.iter().for_each(|(_, _, load)| load.end());
        let (mut wrong, mut kept, mut all) = (Vec::new(), 0, 0);
        for (backend, vip, load) in self.loads {
            let seen = load.stop()?;
            (kept, all) = (kept + seen.connections - seen.broken, all + seen.connections);
            let broken = if ended.contains(&backend) { MANY as u64 } else { 0 };
            let is_open = may_end.contains(&backend);
            if seen.connections != MANY as u64 || (seen.broken != broken && !is_open) {
                wrong.push(format!(
                    "{backend:?} over {vip}: {} of {} broke, not {broken}: {:?}",
                    seen.broken, seen.connections, seen.errors
                ));
            }
        }
        println!("{what}: {kept} of {all} connections went on");
        ensure!(wrong.is_empty(), "{what}: {}", wrong.join("; "));
        Ok(())
    }
}
