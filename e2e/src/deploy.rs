//! Windlass itself in a lab, from the project's own manifests: as pods where there are kubelets, else as processes.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment},
        core::v1::Event,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{Announcement, NodeNetwork, VirtualIP, VirtualIPPool, virtual_ip_name};

use crate::{Lab, agent_tokens::NAMESPACE, await_that, tools::workspace, windlass::ControllerOptions};

/// Time limit of the whole deployment of Windlass.
const LIMIT: Duration = Duration::from_mins(3);

impl Lab {
    /// Applies the project's manifests: custom resources, RBAC, admission policies, Deployment and DaemonSet (which only run where
    /// there are kubelets; else each node's agent is given the token that its pod would have).
    pub async fn install_manifests(&self) -> anyhow::Result<()> {
        for folder in ["manifests/crds", "manifests"] {
            let path = workspace().join(folder).display().to_string();
            self.apply(&path).await.with_context(|| format!("applying {folder}"))?;
        }
        let crds: Api<CustomResourceDefinition> = Api::all(self.client());
        await_that("the custom resources are established", LIMIT, async || {
            for crd in windlass_api::all_crds() {
                let name = crd.metadata.name.unwrap_or_default();
                let conditions = crds.get(&name).await?.status.and_then(|s| s.conditions).unwrap_or_default();
                let established = conditions.iter().any(|c| c.type_ == "Established" && c.status == "True");
                ensure!(established, "{name} is not established");
            }
            Ok(Some(()))
        })
        .await?;
        if self.options.light { self.bind_agent_tokens().await } else { Ok(()) }
    }

    /// Installs Windlass and waits until it works: with kubelets all of its pods are ready; else a controller runs, and an
    /// agent on each of `agents`.
    pub async fn deploy_windlass(&self, agents: &[&str]) -> anyhow::Result<()> {
        self.install_manifests().await?;
        if !self.options.light {
            self.await_windlass_pods().await?;
            return self.await_reports(agents).await;
        }
        for node in agents {
            self.start_agent(node)?;
        }
        // A controller that knows all nodes when it makes its first plan makes the same one each time.
        self.await_reports(agents).await?;
        self.start_controller(ControllerOptions::default())
    }

    async fn await_reports(&self, agents: &[&str]) -> anyhow::Result<()> {
        let networks: Api<NodeNetwork> = Api::all(self.client());
        await_that("every agent has reported its network", LIMIT, async || {
            for node in agents {
                networks.get(node).await?;
            }
            Ok(Some(()))
        })
        .await
    }

    /// With kubelets: waits until every pod of Windlass that is wanted is ready.
    pub async fn await_windlass_pods(&self) -> anyhow::Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client(), NAMESPACE);
        let daemon_sets: Api<DaemonSet> = Api::namespaced(self.client(), NAMESPACE);
        await_that("all Windlass pods are ready", LIMIT, async || {
            let deployment = deployments.get("windlass-controller").await?;
            let wanted = deployment.spec.replicas.unwrap_or(1);
            let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or(0);
            ensure!(ready >= wanted, "{ready} of {wanted} controller pods are ready");
            let agents =
                daemon_sets.get("windlass-agent").await?.status.context("no DaemonSet status yet")?;
            let (wanted, ready) = (agents.desired_number_scheduled, agents.number_ready);
            ensure!(wanted > 0 && ready >= wanted, "{ready} of {wanted} agent pods are ready");
            Ok(Some(()))
        })
        .await
    }

    /// Makes a VirtualIPPool of these addresses.
    pub async fn pool(&self, name: &str, addresses: &[&str]) -> anyhow::Result<VirtualIPPool> {
        self.pool_with(name, addresses, json!({})).await
    }

    /// Makes a VirtualIPPool of these addresses with further fields of its spec.
    pub async fn pool_with(
        &self,
        name: &str,
        addresses: &[&str],
        spec: Value,
    ) -> anyhow::Result<VirtualIPPool> {
        let mut pool = json!({
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "VirtualIPPool",
            "metadata": {"name": name},
            "spec": spec,
        });
        pool["spec"]["addresses"] = json!(addresses);
        let pool = serde_json::from_value(pool)?;
        let pools: Api<VirtualIPPool> = Api::all(self.client());
        pools
            .create(&PostParams::default(), &pool)
            .await
            .with_context(|| format!("making VirtualIPPool {name}"))
    }

    /// Makes an Announcement. Made before the addresses that it selects are given, it applies to them from the start.
    pub async fn announcement(&self, name: &str, spec: Value) -> anyhow::Result<Announcement> {
        let announcement = serde_json::from_value(json!({
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "Announcement",
            "metadata": {"name": name},
            "spec": spec,
        }))?;
        let announcements: Api<Announcement> = Api::all(self.client());
        announcements
            .create(&PostParams::default(), &announcement)
            .await
            .with_context(|| format!("making Announcement {name}"))
    }

    /// Changes these fields of an Announcement's spec.
    pub async fn change_announcement(&self, name: &str, spec: Value) -> anyhow::Result<Announcement> {
        let announcements: Api<Announcement> = Api::all(self.client());
        let change = Patch::Merge(json!({"spec": spec}));
        announcements
            .patch(name, &PatchParams::default(), &change)
            .await
            .with_context(|| format!("changing Announcement {name}"))
    }

    /// The `VirtualIP` of an address, if there is one.
    pub async fn virtual_ip(&self, address: IpAddr) -> anyhow::Result<Option<VirtualIP>> {
        let virtual_ips: Api<VirtualIP> = Api::all(self.client());
        Ok(virtual_ips.get_opt(&virtual_ip_name(address)).await?)
    }

    /// The condition of this type of an address's `VirtualIP`, if there is one.
    pub async fn condition(&self, address: IpAddr, type_: &str) -> anyhow::Result<Option<Condition>> {
        let status = self.virtual_ip(address).await?.and_then(|vip| vip.status).unwrap_or_default();
        Ok(status.conditions.into_iter().find(|one| one.type_ == type_))
    }

    /// Waits until exactly one host answers for `address` (ARP, or neighbour discovery) as client `client` sees it, the same
    /// twice in a row, and returns the node's name. The API server is not asked.
    pub async fn await_owner(&self, client: &str, address: IpAddr) -> anyhow::Result<String> {
        self.await_owner_among(client, address, None).await
    }

    /// As [`Self::await_owner`], but the one that answers has to be another than `not`.
    pub async fn await_owner_other_than(
        &self,
        client: &str,
        address: IpAddr,
        not: &str,
    ) -> anyhow::Result<String> {
        self.await_owner_among(client, address, Some(not)).await
    }

    async fn await_owner_among(
        &self,
        client: &str,
        address: IpAddr,
        not: Option<&str>,
    ) -> anyhow::Result<String> {
        let what = match not {
            Some(not) => format!("exactly one node other than {not} answers for {address}"),
            None => format!("exactly one node answers for {address}"),
        };
        let mut before = None;
        await_that(&what, Duration::from_secs(30), async || {
            let macs = self.neighbours(client, address).await?;
            let &[mac] = macs.as_slice() else { anyhow::bail!("answers came from {macs:?}") };
            let owner = self.all_nodes().find(|node| node.mac() == mac);
            let owner = owner.with_context(|| format!("{mac} is no node's"))?.name().to_owned();
            ensure!(Some(owner.as_str()) != not, "{owner} answers");
            // At first the node that has started first may have it, and another take its place.
            let stays = not.is_some() || before.replace(owner.clone()).as_ref() == Some(&owner);
            Ok(stays.then_some(owner))
        })
        .await
    }

    /// Every event about an object of this kind and name, as `reason: message`.
    pub async fn events_of(&self, kind: &str, name: &str) -> anyhow::Result<BTreeSet<String>> {
        let events: Api<Event> = Api::all(self.client());
        let about =
            ListParams::default().fields(&format!("involvedObject.kind={kind},involvedObject.name={name}"));
        let events = events.list(&about).await?.items.into_iter();
        Ok(events
            .map(|event| {
                format!("{}: {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
            })
            .collect())
    }
}
