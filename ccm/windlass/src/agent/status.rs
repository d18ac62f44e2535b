//! What this node has to say about the virtual routers it is Active for, against what the cluster already knows. Pure.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use windlass_api::{CONDITION_ANNOUNCED, VirtualIP, VirtualIPStatus, VirtualRouter};
use windlass_engine::RouterKey;

use super::board::ActivePeriod;
use super::desired::{Assignment, is_wanted};

#[cfg(test)]
mod tests;

/// Reason of the condition `Announced` while it is true.
const REASON_ACTIVE: &str = "Active";
/// Reason of the condition `Announced` after the only node was stopped in an orderly way.
const REASON_STOPPED: &str = "AgentStopped";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    VirtualRouter,
    VirtualIP,
}

/// A virtual router that this node is Active for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried<'a> {
    pub(crate) assignment: &'a Assignment,
    pub(crate) period: ActivePeriod,
}

/// One patch of a status, good only while the period lasts and the object has the version it was computed from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// `metadata.resourceVersion` the patch is computed from and conditional on.
    pub(crate) version: String,
    /// The virtual router on this node.
    pub(crate) key: RouterKey,
    pub(crate) period: ActivePeriod,
    /// JSON merge patch of the status subresource.
    pub(crate) patch: Value,
}

/// What was already said. Without it two nodes that are both Active (a partition of the LAN, while both reach the API
/// server) would overwrite each other for ever: each says so once per period, and the last to become Active stands.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Object (by UID) and period.
    claimed: HashSet<(String, u64)>,
    /// Object (by UID) and the version that was patched: until the watch shows a newer one, there is nothing to add.
    patched: HashSet<(String, String)>,
}

impl Said {
    /// The patch was accepted.
    pub(crate) fn accepted(&mut self, job: &Job) {
        self.claimed.insert((job.uid.clone(), job.period.number));
        self.patched.insert((job.uid.clone(), job.version.clone()));
    }

    /// The object has changed since, or is gone.
    pub(crate) fn outdated(&mut self, job: &Job) {
        self.patched.insert((job.uid.clone(), job.version.clone()));
    }

    /// Forgets periods that are over and versions that are history.
    pub(crate) fn prune(&mut self, periods: &HashSet<u64>, versions: &HashSet<(&str, &str)>) {
        self.claimed.retain(|(_, period)| periods.contains(period));
        self.patched.retain(|(uid, version)| versions.contains(&(uid.as_str(), version.as_str())));
    }
}

/// The patches that make the cluster know what this node is Active for; none where it knows already.
pub(crate) fn jobs<R, V>(
    node: &str,
    now: Timestamp,
    carried: &[Carried<'_>],
    routers: &[R],
    vips: &[V],
    said: &Said,
) -> Vec<Job>
where
    R: AsRef<VirtualRouter>,
    V: AsRef<VirtualIP>,
{
    let find = |name: &str| carried.iter().find(|carried| carried.assignment.virtual_router == name);
    let mut jobs = Vec::new();
    for router in routers.iter().map(AsRef::as_ref) {
        let Some(carried) = find(&router.name_any()) else { continue };
        let status = router.status.clone().unwrap_or_default();
        let stands = status.active_node.as_deref() == Some(node);
        if stands || (status.active_node.is_some() && was_said(said, router, carried)) {
            continue;
        }
        let patch = json!({
            "activeNode": node,
            "activeSince": format!("{:.3}", carried.period.since),
            "transitions": status.transitions.saturating_add(1),
        });
        jobs.extend(job(Kind::VirtualRouter, router, carried, said, &patch));
    }
    for vip in vips.iter().map(AsRef::as_ref) {
        let Some(carried) = vip.spec.virtual_router.as_deref().and_then(find) else { continue };
        if !is_wanted(vip) || !carried.assignment.addresses.contains(&vip.spec.address) {
            continue;
        }
        let status = vip.status.clone().unwrap_or_default();
        let mine = status.active_node.as_deref() == Some(node);
        let announced =
            status.conditions.iter().any(|c| c.type_ == CONDITION_ANNOUNCED && c.status == "True");
        let others = status.active_node.is_some() && !mine && announced;
        if (mine && announced) || (others && was_said(said, vip, carried)) {
            continue;
        }
        let message = format!(
            "Node {node} answers for {} on {} (VRID {})",
            vip.spec.address, carried.assignment.interface, carried.assignment.vrid
        );
        let conditions = with_announced(vip, &status, true, REASON_ACTIVE, &message, now);
        let patch = json!({ "activeNode": node, "conditions": conditions });
        jobs.extend(job(Kind::VirtualIP, vip, carried, said, &patch));
    }
    jobs
}

/// The patches of an orderly stop: where no other node could take over, nobody else would say that the address is no
/// longer announced. Everywhere else the next Active says what is true then.
pub(crate) fn last_words<R, V>(
    node: &str,
    now: Timestamp,
    carried: &[Carried<'_>],
    routers: &[R],
    vips: &[V],
) -> Vec<Job>
where
    R: AsRef<VirtualRouter>,
    V: AsRef<VirtualIP>,
{
    let said = Said::default();
    let alone = |name: &str| {
        carried
            .iter()
            .find(|carried| carried.assignment.virtual_router == name && carried.assignment.peers.is_empty())
    };
    let mut jobs = Vec::new();
    for router in routers.iter().map(AsRef::as_ref) {
        let Some(carried) = alone(&router.name_any()) else { continue };
        let active = router.status.as_ref().and_then(|status| status.active_node.as_deref());
        if active == Some(node) {
            let patch = json!({ "activeNode": null, "activeSince": null });
            jobs.extend(job(Kind::VirtualRouter, router, carried, &said, &patch));
        }
    }
    for vip in vips.iter().map(AsRef::as_ref) {
        let Some(carried) = vip.spec.virtual_router.as_deref().and_then(alone) else { continue };
        let Some(status) = &vip.status else { continue };
        if status.active_node.as_deref() == Some(node) && vip.metadata.deletion_timestamp.is_none() {
            let message = format!("The agent on node {node}, the only one that may announce it, was stopped");
            let conditions = with_announced(vip, status, false, REASON_STOPPED, &message, now);
            let patch = json!({ "activeNode": null, "conditions": conditions });
            jobs.extend(job(Kind::VirtualIP, vip, carried, &said, &patch));
        }
    }
    jobs
}

fn was_said(said: &Said, object: &impl kube::ResourceExt, carried: &Carried<'_>) -> bool {
    said.claimed.contains(&(object.uid().unwrap_or_default(), carried.period.number))
}

/// `None` while the watch has not yet shown the outcome of an earlier patch.
fn job(
    kind: Kind,
    object: &impl kube::ResourceExt,
    carried: &Carried<'_>,
    said: &Said,
    status: &Value,
) -> Option<Job> {
    let uid = object.uid().unwrap_or_default();
    let version = object.resource_version().unwrap_or_default();
    if said.patched.contains(&(uid.clone(), version.clone())) {
        return None;
    }
    let patch = json!({ "metadata": { "uid": uid, "resourceVersion": version }, "status": status });
    let key = carried.assignment.config().ok()?.key();
    Some(Job { kind, name: object.name_any(), uid, version, key, period: carried.period, patch })
}

/// All conditions with `Announced` set; others' conditions are kept, a merge patch replaces the list as a whole.
fn with_announced(
    vip: &VirtualIP,
    status: &VirtualIPStatus,
    announced: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let value = if announced { "True" } else { "False" };
    let (old, mut conditions): (Vec<Condition>, Vec<Condition>) =
        status.conditions.iter().cloned().partition(|condition| condition.type_ == CONDITION_ANNOUNCED);
    let since = old.iter().find(|condition| condition.status == value);
    conditions.push(Condition {
        type_: CONDITION_ANNOUNCED.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: vip.metadata.generation,
        last_transition_time: since.map_or(Time(now), |condition| condition.last_transition_time.clone()),
    });
    conditions
}
