//! Targets of faults: Services, their addresses, and the state that must hold after recovery.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fs,
    net::IpAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt as _};
use serde_json::json;
use windlass_api::{NodeNetwork, VirtualRouter};

use crate::{
    Answering, ControllerOptions, EndpointState, Lab, SERVICE_PORT, await_that, shown, state_folder,
};

/// The nodes with agents.
pub(super) const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// Name and port of the controller.
pub(super) const CONTROLLER: (&str, u16) = ("controller", 10258);
/// The Announcements: of all addresses, and of those that several nodes share.
pub(super) const ANNOUNCEMENTS: [&str; 2] = ["lan", SHARED];
const BACKEND: &str = "web";
/// The last two have `externalTrafficPolicy: Local`, and the pods behind them are on [`NODES`].
const SERVICES: [&str; 5] = ["web", "two", "three", SHARED, LOCAL];
pub(super) const LOCAL: &str = "local";
/// The Service with a pod on each node, which share its addresses.
pub(super) const SHARED: &str = "shared";
/// Limit of an operation that takes a second in a healthy cluster.
pub(super) const LIMIT: Duration = Duration::from_mins(1);
/// Limit of a full recovery, which includes the expiry of a killed controller's lease.
pub(super) const CALM: Duration = Duration::from_mins(2);
/// Time for which one node alone has to answer for an address, without an unanswered question.
const SETTLED: Duration = Duration::from_millis(500);

/// Targets of the faults.
pub struct Scene<'a> {
    pub(super) lab: &'a Lab,
    /// One address per family of each Service, IPv4 first.
    vips: Vec<IpAddr>,
    /// The Service of [`SHARED`].
    pub(super) shared: Service,
    /// The Service whose traffic is local.
    pub(super) local: Service,
    /// Node of the pod behind it.
    pub(super) pod_on: Cell<&'static str>,
    /// Number of the key that signs, 0 before the first.
    pub(super) key: Cell<u8>,
    /// Target since the last calm.
    target: Cell<Option<Target>>,
}

/// Target of a fault: a node, and an address of each family that it holds, IPv4 first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) node: &'static str,
    pub(super) vips: [IpAddr; 2],
    /// VRIDs of the virtual routers of `vips`.
    pub(super) vrids: [u8; 2],
}

impl<'a> Scene<'a> {
    /// Windlass, and Services with an address of each family.
    ///
    /// # Errors
    /// What did not come about.
    pub async fn set(lab: &'a Lab) -> anyhow::Result<Self> {
        lab.install_manifests().await?;
        start_controller(lab, CONTROLLER)?;
        fs::create_dir_all(keys(lab)).context("making the folder of the keys")?;
        for node in NODES {
            // Small enough to be filled in no time.
            let folder = state_folder(node);
            lab.sandbox
                .script(&format!("mkdir -p {folder} && mount -t tmpfs -o size=256k state {folder}"))
                .context("making a small disk for the agent's state")?;
            start_agent(lab, node)?;
        }
        let [of_all, of_shared] = ANNOUNCEMENTS;
        lab.announcement(of_all, json!({"loadSharing": "None", "unschedulableNodes": "Yield"})).await?;
        let labels = json!([{"matchLabels": {SHARED: "true"}}]);
        let spec = json!({"priority": 50, "serviceSelectors": labels, "unschedulableNodes": "Yield"});
        lab.announcement(of_shared, spec).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
        lab.backend(BACKEND, &["n4"]).await?;
        lab.backend(LOCAL, &NODES).await?;
        let (mut vips, mut services) = (Vec::new(), Vec::new());
        for name in SERVICES {
            let is_local = [LOCAL, SHARED].contains(&name);
            if name != LOCAL {
                lab.same_backend(name, if is_local { LOCAL } else { BACKEND })?;
            }
            let service = lab.load_balancer(name, |service| {
                if name == SHARED {
                    service.labels_mut().insert(SHARED.into(), "true".into());
                }
                let spec = service.spec.get_or_insert_default();
                spec.ip_family_policy = Some("RequireDualStack".into());
                spec.ip_families = Some(vec!["IPv4".into(), "IPv6".into()]);
                spec.external_traffic_policy = is_local.then(|| "Local".into());
            });
            services.push(service.await?);
            let both = await_that(&format!("{name} has an address of each family"), LIMIT, async || {
                let shown = addresses_of(lab, name).await?;
                ensure!(shown.len() == 2, "{name} shows {shown:?}");
                Ok(Some(shown))
            })
            .await?;
            vips.extend(both);
        }
        let [local, shared] = [services.pop(), services.pop()].map(|one| one.context("a Service is missing"));
        let (local, shared) = (local?, shared?);
        lab.write_endpoints(&local, |node| (node == NODES[0]).then_some(EndpointState::Ready)).await?;
        let pod_on = Cell::new(NODES[0]);
        Ok(Self { lab, vips, shared, local, pod_on, key: Cell::new(0), target: Cell::new(None) })
    }

    /// All addresses.
    pub(super) fn vips(&self) -> &[IpAddr] {
        &self.vips
    }

    /// Addresses of the Service with local traffic, IPv4 first.
    pub(super) fn local_vips(&self) -> &[IpAddr] {
        &self.vips[self.vips.len() - 2..]
    }

    /// Addresses of the Service that all nodes share, IPv4 first.
    pub(super) fn shared_vips(&self) -> &[IpAddr] {
        &self.vips[self.vips.len() - 4..self.vips.len() - 2]
    }

    /// Addresses of the other Services.
    fn other_vips(&self) -> &[IpAddr] {
        &self.vips[..self.vips.len() - 4]
    }

    pub(super) fn start_agent(&self, node: &str) -> anyhow::Result<()> {
        start_agent(self.lab, node)
    }

    /// Path at which the agents find the key of this number.
    pub(super) fn key_file(&self, number: u8) -> PathBuf {
        keys(self.lab).join(number.to_string())
    }

    /// The folder is as it is where the Secret is deleted.
    pub(super) fn delete_keys(&self) -> anyhow::Result<()> {
        let keys = keys(self.lab);
        fs::rename(&keys, keys.with_extension("kept")).context("taking the keys away")?;
        fs::create_dir(&keys).context("making the folder of no keys")
    }

    /// Undoes [`Self::delete_keys`].
    pub(super) fn put_keys_back(&self) -> anyhow::Result<()> {
        let keys = keys(self.lab);
        fs::remove_dir(&keys).context("removing the folder of no keys")?;
        fs::rename(keys.with_extension("kept"), &keys).context("putting the keys back")
    }

    /// Returns the target of the faults.
    pub(super) fn target(&self) -> anyhow::Result<Target> {
        self.target.get().context("there was no calm yet")
    }

    /// Starts the controller where it has ended, as a kubelet would: one that could not renew its lease ends, as it has to.
    pub(super) fn revive_controller(&self) -> anyhow::Result<()> {
        if self.lab.controller_runs(CONTROLLER.0)? { Ok(()) } else { start_controller(self.lab, CONTROLLER) }
    }

    /// Waits until one node alone answers for each address, the one in the API server, and all Services answer; returns the next
    /// target.
    pub(super) async fn await_calm(&self, answering: &Answering) -> anyhow::Result<Target> {
        let begin = Instant::now();
        for (service, vips) in SERVICES.into_iter().zip(self.vips.chunks(2)) {
            for vip in vips {
                await_that(&format!("{service} answers at {vip}"), CALM, async || {
                    self.revive_controller()?;
                    Ok(Some(self.lab.curl("c1", *vip, SERVICE_PORT).await.map(drop)?))
                })
                .await?;
            }
            let shown = addresses_of(self.lab, service).await?;
            ensure!(shown.iter().eq(vips), "{service} had {vips:?} and shows {shown:?}");
        }
        for vip in self.shared_vips() {
            self.await_served_lots(*vip).await?;
        }
        let left = CALM.saturating_sub(begin.elapsed());
        let what =
            "one node alone answers for each address, as is told, and one has addresses of both families";
        let (node, vips) = await_that(what, left, async || {
            let seen = answering.seen()?;
            let owner = |vip: &IpAddr| {
                let last = seen.last.get(vip);
                let alone = seen.alone.get(vip).with_context(|| format!("{last:?} answer for {vip}"))?;
                let since = alone.since.elapsed();
                ensure!(since >= SETTLED, "{} has {vip} for {} ms", alone.node, since.as_millis());
                let node = NODES.into_iter().find(|node| *node == alone.node);
                Ok((*vip, node.context("a node without an agent answers")?))
            };
            let owners = self.vips.iter().map(owner).collect::<anyhow::Result<Vec<_>>>()?;
            for (vip, node) in &owners {
                self.is_told(*vip, node).await?;
            }
            // Not so for a moment where a node has lost one family.
            self.pair_of(&owners).context("no node has addresses of both families").map(Some)
        })
        .await?;
        let vrids = await_that("the virtual routers are known", LIMIT, async || {
            Ok(Some([self.vrid_of(vips[0]).await?, self.vrid_of(vips[1]).await?]))
        });
        let target = Target { node, vips, vrids: vrids.await? };
        self.target.set(Some(target));
        Ok(target)
    }

    /// A node with an address of each family, and these.
    fn pair_of(&self, owners: &[(IpAddr, &'static str)]) -> Option<(&'static str, [IpAddr; 2])> {
        let others = owners.iter().filter(|(vip, _)| self.other_vips().contains(vip));
        let pairs = others.clone().flat_map(|(first, node)| {
            let others = others.clone().filter(move |(other, its)| its == node && other.is_ipv6());
            others.filter(|_| first.is_ipv4()).map(move |(other, _)| (*node, [*first, *other]))
        });
        pairs.min_by_key(|(_, vips)| *vips)
    }

    /// Waits until no check of a node counts as failed any more, as one does for a minute. (That a node has no pod is no fault.)
    pub(super) async fn await_fit_nodes(&self) -> anyhow::Result<()> {
        let networks: Api<NodeNetwork> = Api::all(self.lab.client());
        await_that("no check of a node fails", CALM, async || {
            for node in NODES {
                let failed = networks.get(node).await?.spec.failed_checks;
                let others = failed.iter().find(|why| !why.starts_with("the health check on node port"));
                ensure!(others.is_none(), "{node} says {others:?}");
            }
            Ok(Some(()))
        })
        .await
    }

    /// Waits until each node is preferred for an address of each family, as is the share of each. (What is local follows its pods.)
    pub(super) async fn await_shares(&self) -> anyhow::Result<()> {
        await_that("each node is preferred for its share of the addresses", CALM, async || {
            let mut preferred = Vec::new();
            for vip in self.other_vips().iter().chain(self.shared_vips()) {
                let nodes = self.router_of(*vip).await?.spec.nodes;
                let first = nodes.into_iter().max_by_key(|node| node.priority).context("no node")?;
                preferred.push((first.name, vip.is_ipv4()));
            }
            let is_preferred =
                |node: &str, is_v4| preferred.iter().any(|one| one == &(node.to_owned(), is_v4));
            let all_are = NODES.iter().all(|node| is_preferred(node, true) && is_preferred(node, false));
            ensure!(all_are, "preferred are, for IPv4 and for others: {preferred:?}");
            Ok(Some(()))
        })
        .await
    }

    /// Checks that the API server shows the address and its virtual router at this node.
    async fn is_told(&self, address: IpAddr, node: &str) -> anyhow::Result<()> {
        let vip = self.lab.virtual_ip(address).await?.context("no VirtualIP")?;
        let active = vip.status.as_ref().and_then(|status| status.active_node.as_deref());
        ensure!(vip.is_announced() && active == Some(node), "{address} is at {node}, not at {active:?}");
        let router = self.router_of(address).await?;
        let active = router.status.as_ref().and_then(|status| status.active_node.as_deref());
        let name = router.name_any();
        ensure!(active == Some(node), "{node} is Active for {address} in {name}, not {active:?}");
        // Virtual routers are replaced one after the other where the key changes.
        let key = router.spec.authentication.map_or(0, |one| one.key_id);
        let wanted = self.key.get();
        ensure!(key == wanted, "{name} signs with key {key}, not {wanted}");
        Ok(())
    }

    async fn router_of(&self, vip: IpAddr) -> anyhow::Result<VirtualRouter> {
        let vip = self.lab.virtual_ip(vip).await?.context("no VirtualIP")?;
        let name = vip.spec.virtual_router.context("no virtual router")?;
        Ok(Api::all(self.lab.client()).get(&name).await?)
    }

    async fn vrid_of(&self, vip: IpAddr) -> anyhow::Result<u8> {
        Ok(self.router_of(vip).await?.spec.vrid)
    }
}

/// The one after this node, as in a circle.
pub(super) fn next(node: &str) -> &'static str {
    let nodes = NODES.iter().cycle();
    nodes.skip_while(|other| **other != node).nth(1).copied().unwrap_or(NODES[0])
}

/// Starts a controller, by its name and port.
pub(super) fn start_controller(lab: &Lab, (name, http_port): (&str, u16)) -> anyhow::Result<()> {
    let mut options = ControllerOptions::short_lease(name, http_port);
    // Who joins is given its share while somebody looks.
    options.flags.push("--rebalance-settle-seconds=10".to_owned());
    lab.start_controller(options)
}

fn start_agent(lab: &Lab, node: &str) -> anyhow::Result<()> {
    lab.start_agent_with(node, &["--vrrp-keys-dir", &keys(lab).display().to_string()])
}

/// The folder of the keys of all agents.
fn keys(lab: &Lab) -> PathBuf {
    lab.folder().join("keys")
}

/// Returns the addresses that a Service shows.
async fn addresses_of(lab: &Lab, name: &str) -> anyhow::Result<BTreeSet<IpAddr>> {
    let service = Api::<Service>::default_namespaced(lab.client()).get(name).await?;
    Ok(shown(&service))
}
