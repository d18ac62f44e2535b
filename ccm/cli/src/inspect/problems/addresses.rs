//! Services, virtual IPs and virtual routers.

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use windlass_api::{
    CONDITION_CONNECTIONS_REPLICATED, CONDITION_MULTICAST_HEARD, VirtualIP, VirtualRouter, address_allocated,
    connections_replicated,
};
use windlass_ccm::conditions::find;
use windlass_common::listing::first_of;
use windlass_common::priorities;

use super::{Problem, Severity};
use crate::inspect::remedies;
use crate::inspect::snapshot::{Snapshot, allocated, created, full_name, shown};
use crate::inspect::table::age;

/// Age below which an object may still be in progress.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(30);

pub(super) fn problems(snapshot: &Snapshot) -> Vec<Problem> {
    let mut told: HashSet<&str> = HashSet::new();
    let mut problems = Vec::new();
    for service in snapshot.load_balancers() {
        if let Some(problem) = service_problem(snapshot, service) {
            told.extend(service.metadata.uid.as_deref());
            problems.push(problem);
        }
    }
    let routers = snapshot.routers.by_name();
    for vip in snapshot.vips.objects.iter().filter(|vip| vip.spec.quarantine.is_none()) {
        // The condition of the Service has the words of its VirtualIPs.
        let is_told = vip.spec.owners.iter().any(|owner| told.contains(owner.uid.as_str()));
        let router = vip.spec.virtual_router.as_deref().and_then(|name| routers.get(name).copied());
        problems.extend(vip_problem(snapshot, vip).filter(|_| !is_told));
        problems.extend(disagreement(snapshot, vip, router));
        problems.extend(connections_problem(vip));
        problems.extend(sharing_problem(vip));
    }
    let carried = snapshot.vips_by_router();
    for router in &snapshot.routers.objects {
        let vips = carried.get(router.name_any().as_str()).map_or(0, Vec::len);
        problems.extend(router_problems(snapshot, router, vips));
    }
    problems
}

fn is_young(snapshot: &Snapshot, made: Option<Timestamp>) -> bool {
    made.is_some_and(|made| snapshot.now.duration_since(made) < UNDER_WAY)
}

fn service_problem(snapshot: &Snapshot, service: &Service) -> Option<Problem> {
    let name = full_name(service);
    let Some(condition) = allocated(service) else {
        if is_young(snapshot, created(service)) || !shown(service).is_empty() {
            return None;
        }
        let made =
            created(service).map_or_else(String::new, |made| format!(" since {}", age(made, snapshot.now)));
        let message = format!("it waits for an address{made}, and no controller has reported on it");
        let remedy = "check that a controller runs and serves Services of this class \
                      (spec.loadBalancerClass, --classless-services)";
        return Some(Problem::error("Service", name, "NotServed").says(message, remedy));
    };
    match (condition.status.as_str(), condition.reason.as_str()) {
        ("True", address_allocated::ALLOCATED) => None,
        ("True", _) => Some(Problem::of(Severity::Warning, "Service", name, condition, remedies::of_service)),
        (_, _) => Some(Problem::of(Severity::Error, "Service", name, condition, remedies::of_service)),
    }
}

fn vip_problem(snapshot: &Snapshot, vip: &VirtualIP) -> Option<Problem> {
    let address = vip.spec.address.to_string();
    if vip.is_announced() {
        let conflict = vip.conflict()?;
        return Some(Problem::of(Severity::Warning, "VirtualIP", address, conflict, remedies::of_lan));
    }
    match vip.announced().filter(|condition| condition.status != "True") {
        Some(condition) => {
            Some(Problem::of(Severity::Error, "VirtualIP", address, condition, remedies::of_announced))
        }
        None if is_young(snapshot, created(vip)) => None,
        None => {
            let (message, remedy) = match &vip.spec.virtual_router {
                Some(router) => (
                    format!("no node of virtual router {router} announces it"),
                    "see whether agents run on the router's nodes: windlass nodes",
                ),
                None => (
                    "no virtual router carries it".to_owned(),
                    "see whether a controller works, and read its log",
                ),
            };
            Some(Problem::error("VirtualIP", address, "NotAnnounced").says(message, remedy))
        }
    }
}

/// Returns a problem if the address and its virtual router are reported at different nodes for longer than an update takes.
fn disagreement(snapshot: &Snapshot, vip: &VirtualIP, router: Option<&VirtualRouter>) -> Option<Problem> {
    let announces = vip.active_node().filter(|_| vip.is_announced())?;
    let status = router?.status.as_ref()?;
    let active = status.active_node.as_deref().filter(|active| *active != announces)?;
    let since: Timestamp = status.active_since.as_deref()?.parse().ok()?;
    let told = vip.announced()?.last_transition_time.0;
    let is_news = |then| snapshot.now.duration_since(then) < UNDER_WAY;
    if is_news(since) || is_news(told) {
        return None;
    }
    let message = format!(
        "its status names node {announces} as announcing it, but node {active} is Active in its virtual \
         router since {}",
        age(since, snapshot.now)
    );
    let remedy = "read the logs of both agents: they may not reach the API server, or not receive each \
                  other's adverts";
    Some(Problem::warning("VirtualIP", vip.spec.address.to_string(), "NodesDisagree").says(message, remedy))
}

/// Problem of an address whose connections are not replicated though they could be.
fn connections_problem(vip: &VirtualIP) -> Option<Problem> {
    let conditions = &vip.status.as_ref()?.conditions;
    let condition = find(conditions, CONDITION_CONNECTIONS_REPLICATED)?;
    let is_fault = connections_replicated::FAULTS.contains(&&*condition.reason) && vip.is_announced();
    let address = vip.spec.address.to_string();
    is_fault
        .then(|| Problem::of(Severity::Warning, "VirtualIP", address, condition, remedies::of_connections))
}

fn sharing_problem(vip: &VirtualIP) -> Option<Problem> {
    let address = vip.spec.address.to_string();
    let condition = vip.unshared()?;
    Some(Problem::of(Severity::Warning, "VirtualIP", address, condition, |_| remedies::OF_SHARING))
}

fn router_problems(snapshot: &Snapshot, router: &VirtualRouter, vips: usize) -> Vec<Problem> {
    const AGENTS: &str = "see whether agents run on these nodes, and what fails there: windlass nodes";
    let name = router.name_any();
    let status = router.status.as_ref();
    let nodes = &router.spec.nodes;
    let named = || first_of(nodes.iter().map(|node| &node.name), 3);
    let mut problems = Vec::new();
    if vips == 0 {
        return problems;
    }
    if nodes.is_empty() {
        let message = format!("it has no node, and {vips} addresses");
        problems.push(Problem::error("VirtualRouter", &name, "NoNode").says(message, AGENTS));
    } else if status.is_none_or(|status| status.active_node.is_none()) && !is_young(snapshot, created(router))
    {
        let message = format!("no node is Active for its {vips} addresses, of {}", named());
        problems.push(Problem::error("VirtualRouter", &name, "NoActiveNode").says(message, AGENTS));
    } else if !nodes.iter().any(|node| priorities::is_good(node.priority)) {
        let message = format!(
            "none of its nodes is good (drained, excluded, or without a pod of externalTrafficPolicy: Local): {}",
            named()
        );
        problems.push(
            Problem::warning("VirtualRouter", &name, "NoGoodNode").says(
                message,
                "uncordon a node, take the exclude label off, or let a pod run on one of them",
            ),
        );
    } else if nodes.len() == 1 && snapshot.networks.objects.len() > 1 {
        let message =
            format!("only node {} can announce its {vips} addresses: no other node can take over", named());
        problems.push(
            Problem::warning("VirtualRouter", &name, "SingleNode")
                .says(message, "run agents on more nodes of the subnet, or let the Announcement select more"),
        );
    }
    if let Some(wanted) = router.preferred_node()
        && snapshot.nodes.missing.is_none()
        && !nodes.iter().any(|node| node.name == wanted)
    {
        let why = match Snapshot::named(&snapshot.nodes, wanted) {
            None => "there is no Node of that name",
            Some(_) => "it is none of the nodes that may announce them",
        };
        problems.push(Problem::warning("VirtualRouter", &name, "PreferredNodeMissing").says(
            format!("an admin moved its {vips} addresses to node {wanted}, which has no effect: {why}"),
            "move them to another node, or undo the move: windlass move ADDRESS --undo",
        ));
    }
    let heard = status.and_then(|status| find(&status.conditions, CONDITION_MULTICAST_HEARD));
    if let Some(heard) = heard.filter(|heard| heard.status == "False") {
        problems.push(Problem::of(Severity::Warning, "VirtualRouter", &name, heard, remedies::of_lan));
    }
    problems.extend(ghost(snapshot, router));
    problems
}

/// Returns a problem if the node that is reported to be Active has no Node object.
fn ghost(snapshot: &Snapshot, router: &VirtualRouter) -> Option<Problem> {
    let active = router.active_node()?;
    if snapshot.nodes.missing.is_some() {
        return None;
    }
    Snapshot::named(&snapshot.nodes, active).is_none().then(|| {
        let message =
            format!("its status names node {active} as Active, but the cluster has no Node of that name");
        Problem::error("VirtualRouter", router.name_any(), "ActiveNodeGone")
            .says(message, "see whether agents run on the router's other nodes: windlass nodes")
    })
}
