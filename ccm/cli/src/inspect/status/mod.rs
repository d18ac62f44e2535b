//! `windlass status`: what is wrong, then what there is. Pure.

pub(super) mod text;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde::Serialize;

use super::problems::{self, Problem, Severity};
use super::snapshot::{Snapshot, allocated, is_linux, is_pod_ready};
use super::views::{PoolRow, Selection, nodes, pools};
use super::{PROBLEMS, exit_code};

#[cfg(test)]
mod tests;

/// Age up to which a move is shown.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// The cluster on one screen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Overview {
    server: String,
    time: Time,
    /// Version of this program.
    version: &'static str,
    /// True if part of the cluster could not be read; the problems name it.
    is_incomplete: bool,
    problems: Vec<Problem>,
    controller: Option<Controller>,
    agents: Agents,
    pools: Vec<PoolRow>,
    services: Services,
    addresses: Addresses,
    routers: Routers,
    /// Moves of the last hour, the latest first.
    moves: Vec<Move>,
}

/// The controller that leads.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Controller {
    lease: String,
    leader: String,
    since: Option<Time>,
    works: bool,
    pods: usize,
    pods_ready: usize,
}

/// Nodes and agents.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Agents {
    nodes: usize,
    /// Nodes whose agent has reported.
    reported: usize,
    /// Nodes by the version of the agent.
    versions: BTreeMap<String, usize>,
    pods: usize,
    pods_ready: usize,
    /// Nodes on which something fails.
    failing: usize,
    by_node: Vec<NodeLoad>,
}

/// Virtual routers in which a node is Active, and addresses that it announces.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeLoad {
    node: String,
    active_routers: usize,
    addresses: usize,
}

/// Services of type LoadBalancer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Services {
    total: usize,
    /// Their condition is `True`.
    served: usize,
    /// The others by the reason of their condition.
    waiting: BTreeMap<String, usize>,
}

/// Virtual IPs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Addresses {
    total: usize,
    announced: usize,
    quarantined: usize,
}

/// Virtual routers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Routers {
    total: usize,
    /// Virtual routers that have an Active node.
    active: usize,
}

/// A virtual router whose Active node changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Move {
    time: Time,
    virtual_router: String,
    /// Node that has been Active since then.
    node: String,
    addresses: usize,
}

impl Overview {
    /// Builds the overview of the cluster at one moment.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self {
            server: snapshot.server.clone(),
            time: Time(snapshot.now),
            version: env!("CARGO_PKG_VERSION"),
            is_incomplete: snapshot.missing().next().is_some(),
            problems: problems::all(snapshot),
            controller: controller(snapshot),
            agents: agents(snapshot),
            pools: pools(snapshot, &Selection::default()),
            services: services(snapshot),
            addresses: addresses(snapshot),
            routers: routers(snapshot),
            moves: moves(snapshot),
        }
    }

    /// Returns true if something does not work.
    fn has_error(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// 0, or [`PROBLEMS`], or that it is incomplete.
    pub(super) fn exit_code(&self) -> ExitCode {
        exit_code(self.has_error(), self.is_incomplete)
    }
}

fn controller(snapshot: &Snapshot) -> Option<Controller> {
    let leader = problems::leader(snapshot)?;
    Some(Controller {
        leader: leader.holder.to_owned(),
        since: leader.since.map(Time),
        works: !leader.is_silent,
        pods: snapshot.controllers().count(),
        pods_ready: snapshot.controllers().filter(|pod| is_pod_ready(pod)).count(),
        lease: leader.lease,
    })
}

fn agents(snapshot: &Snapshot) -> Agents {
    let mut versions: BTreeMap<String, usize> = BTreeMap::new();
    for network in &snapshot.networks.objects {
        *versions.entry(network.spec.agent_version.clone()).or_default() += 1;
    }
    let by_node = nodes(snapshot, &Selection::default()).into_iter().map(|row| NodeLoad {
        node: row.name,
        active_routers: row.active_routers,
        addresses: row.addresses,
    });
    Agents {
        nodes: snapshot.nodes.objects.iter().filter(|node| is_linux(node)).count(),
        reported: snapshot.networks.objects.len(),
        versions,
        pods: snapshot.agents().count(),
        pods_ready: snapshot.agents().filter(|pod| is_pod_ready(pod)).count(),
        failing: snapshot.networks.objects.iter().filter(|one| !one.spec.failed_checks.is_empty()).count(),
        by_node: by_node.collect(),
    }
}

fn services(snapshot: &Snapshot) -> Services {
    let mut services = Services::default();
    for service in snapshot.load_balancers() {
        services.total += 1;
        match allocated(service) {
            Some(condition) if condition.status == "True" => services.served += 1,
            Some(condition) => *services.waiting.entry(condition.reason.clone()).or_default() += 1,
            None => *services.waiting.entry("NotServed".to_owned()).or_default() += 1,
        }
    }
    services
}

fn addresses(snapshot: &Snapshot) -> Addresses {
    let vips = &snapshot.vips.objects;
    Addresses {
        total: vips.len(),
        announced: vips.iter().filter(|vip| vip.is_announced()).count(),
        quarantined: vips.iter().filter(|vip| vip.spec.quarantine.is_some()).count(),
    }
}

fn routers(snapshot: &Snapshot) -> Routers {
    let routers = &snapshot.routers.objects;
    let is_active = |router: &&windlass_api::VirtualRouter| router.active_node().is_some();
    Routers { total: routers.len(), active: routers.iter().filter(is_active).count() }
}

fn moves(snapshot: &Snapshot) -> Vec<Move> {
    let carried = snapshot.vips_by_router();
    let moved = snapshot.routers.objects.iter().filter_map(|router| {
        let status = router.status.as_ref()?;
        let since: Timestamp = status.active_since.as_deref()?.parse().ok()?;
        // The first to be Active took it from nobody.
        let is_move = status.transitions > 1 && snapshot.now.duration_since(since) < RECENT;
        let virtual_router = router.name_any();
        is_move.then(|| Move {
            time: Time(since),
            node: status.active_node.clone().unwrap_or_default(),
            addresses: carried.get(virtual_router.as_str()).map_or(0, Vec::len),
            virtual_router,
        })
    });
    let mut moved: Vec<Move> = moved.collect();
    moved.sort_by_key(|one| Reverse(one.time.0));
    moved
}
