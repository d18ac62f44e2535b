//! What faults befall: Services, their addresses and what has to hold of them once all is well again.

use std::{
    cell::Cell,
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use kube::Api;
use windlass_api::VirtualRouter;

use crate::{Answering, ControllerOptions, Lab, SERVICE_PORT, await_that};

/// The nodes with agents.
pub(super) const NODES: [&str; 3] = ["n1", "n2", "n3"];
pub(super) const CONTROLLER: &str = "controller";
const BACKEND: &str = "web";
const SERVICES: [&str; 3] = ["web", "two", "three"];
/// How long something may take that takes a second when all is well.
const LIMIT: Duration = Duration::from_mins(1);
/// How long everything may take to be in order again: the lease of a controller that was killed has to run out, too.
const CALM: Duration = Duration::from_mins(2);
/// How long one node alone has to answer for an address, without a question that stays open.
const SETTLED: Duration = Duration::from_millis(500);

pub(super) struct Scene<'a> {
    pub(super) lab: &'a Lab,
    /// Of each of the Services.
    pub(super) vips: Vec<Ipv4Addr>,
    /// VRID of the first one, as of the last calm.
    vrid: Cell<u8>,
}

impl<'a> Scene<'a> {
    /// Windlass, and Services with an address each.
    pub(super) async fn set(lab: &'a Lab) -> anyhow::Result<Self> {
        for node in NODES {
            // Small enough to be filled in no time.
            let folder = state_folder(node);
            lab.sandbox
                .script(&format!("mkdir -p {folder} && mount -t tmpfs -o size=256k state {folder}"))
                .context("making a small disk for the agent's state")?;
        }
        lab.deploy_windlass(&NODES).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
        lab.backend(BACKEND, &["n4"]).await?;
        let mut vips = Vec::new();
        for name in SERVICES {
            lab.same_backend(name, BACKEND)?;
            lab.load_balancer(name, |_| ()).await?;
            let IpAddr::V4(vip) = lab.ingress(name, LIMIT).await? else {
                anyhow::bail!("{name} got no IPv4 address")
            };
            vips.push(vip);
        }
        Ok(Self { lab, vips, vrid: Cell::new(0) })
    }

    /// The VRID of the first address.
    pub(super) fn vrid(&self) -> u8 {
        self.vrid.get()
    }

    /// Starts the controller where it has ended, as a kubelet would: one that could not renew its lease ends, as it has to.
    pub(super) fn revive_controller(&self) -> anyhow::Result<()> {
        if !self.lab.controller_runs(CONTROLLER)? {
            self.lab.start_controller(ControllerOptions::default())?;
        }
        Ok(())
    }

    /// Waits until one node alone answers for each address, all Services answer, and shows what is in order; the node of the first
    /// address.
    pub(super) async fn await_calm(&self, answering: &Answering) -> anyhow::Result<String> {
        let begin = Instant::now();
        for (service, vip) in SERVICES.into_iter().zip(&self.vips) {
            await_that(&format!("{service} answers at {vip}"), CALM, async || {
                self.revive_controller()?;
                Ok(Some(self.lab.curl("c1", *vip, SERVICE_PORT).await.map(drop)?))
            })
            .await?;
            let shown = self.lab.ingress(service, LIMIT).await?;
            ensure!(shown == IpAddr::from(*vip), "{service} had {vip} and shows {shown}");
        }
        let vrid =
            await_that("the virtual router is known", LIMIT, async || Ok(Some(self.first_vrid().await?)));
        self.vrid.set(vrid.await?);
        let left = CALM.saturating_sub(begin.elapsed());
        await_that("one node alone answers for each address", left, async || {
            let seen = answering.seen()?;
            for vip in &self.vips {
                let last = seen.last.get(vip);
                let alone = seen.alone.get(vip).with_context(|| format!("{last:?} answer for {vip}"))?;
                let since = alone.since.elapsed();
                ensure!(since >= SETTLED, "{} has {vip} for {} ms", alone.node, since.as_millis());
            }
            Ok(self.vips.first().and_then(|first| seen.alone.get(first)).map(|alone| alone.node.clone()))
        })
        .await
    }

    async fn first_vrid(&self) -> anyhow::Result<u8> {
        let vip = self.lab.virtual_ip(self.vips[0].into()).await?.context("no VirtualIP")?;
        let name = vip.spec.virtual_router.context("no virtual router")?;
        Ok(Api::<VirtualRouter>::all(self.lab.client()).get(&name).await?.spec.vrid)
    }
}

/// Where the lab keeps the state of a node's agent.
pub(super) fn state_folder(node: &str) -> String {
    format!("/run/lab/windlass/{node}")
}
