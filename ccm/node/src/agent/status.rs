//! Status patches for the virtual routers that this node is Active for, where the cluster's status differs. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use windlass_api::{
    AddressConflictPolicy, CONDITION_ADDRESS_CONFLICT, CONDITION_ANNOUNCED, CONDITION_CONNECTIONS_REPLICATED,
    CONDITION_LOAD_SHARED, CONDITION_MULTICAST_HEARD, REASON_DEFENDED, RankedNode, VirtualIP, VirtualRouter,
    announced, multicast_heard,
};
use windlass_ccm::conditions::{DesiredCondition, find};
use windlass_engine::RouterKey;

use super::activity::{ActivePeriod, RouterActivity};
use super::admission::Unguarded;
use super::desired::{Assignment, Refused, is_wanted};
use super::duplicates::FORGET_AFTER;
use super::replication::Finding as Replicated;
use super::sharing::finding::SharingState;
use crate::engine_events;
use crate::mac;

#[cfg(test)]
mod tests;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    VirtualRouter,
    VirtualIP,
}

/// A virtual router that this node is Active for.
#[derive(Debug, Clone)]
pub(crate) struct ActiveRouter<'a> {
    pub(crate) assignment: &'a Assignment,
    pub(crate) key: RouterKey,
    pub(crate) period: ActivePeriod,
    pub(crate) activity: &'a RouterActivity,
}

impl<'a> ActiveRouter<'a> {
    /// Returns the assignments that this node is Active for, by the name of the virtual router.
    pub(crate) fn among(
        assignments: &'a [Assignment],
        activities: &'a BTreeMap<RouterKey, RouterActivity>,
    ) -> HashMap<&'a str, Self> {
        let active = assignments.iter().filter_map(|assignment| {
            let key = assignment.key().ok()?;
            let activity = activities.get(&key)?;
            let period = activity.period?;
            Some((assignment.virtual_router.as_str(), Self { assignment, key, period, activity }))
        });
        active.collect()
    }
}

/// One patch of a status, conditional on the version of the object that it was computed from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StatusPatch {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// `metadata.resourceVersion` the patch is computed from and conditional on.
    pub(crate) version: String,
    /// Active period outside which the patch is void.
    pub(crate) basis: Option<(RouterKey, ActivePeriod)>,
    /// JSON merge patch of the status subresource.
    pub(crate) body: Value,
}

/// Pauses during which this node lets another node's status stand against its own: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Report that this node is Active, made in this period.
#[derive(Debug, Clone, Copy)]
struct Claim {
    period: u64,
    /// Earliest time of the next report.
    until: Instant,
    pause: Duration,
}

/// Reports already made. Without them two nodes that are both Active (a partition of the LAN, while both reach the API server) would
/// overwrite each other all the time. Each reports when it becomes Active, and overwrites the other's report less and less often. It never
/// stops: when the partition ends, the node that stays Active may have reported first.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// Last claim of this node on an object, by the object's UID.
    claimed: HashMap<String, Claim>,
    /// Version of an object that was patched last, by its UID: until the watch shows a newer one, no further patch is computed.
    patched: HashMap<String, String>,
}

impl Reported {
    /// Records that the patch was accepted.
    pub(crate) fn accepted(&mut self, patch: &StatusPatch, now: Instant) {
        if let Some((_, period)) = &patch.basis {
            let is_same = |claim: &&Claim| claim.period == period.number && now < claim.until + claim.pause;
            // A claim that has expired long ago does not count.
            let before = self.claimed.get(&patch.uid).filter(is_same);
            let pause = before.map_or(FIRST_PAUSE, |claim| (claim.pause * 2).min(LONGEST_PAUSE));
            self.claimed
                .insert(patch.uid.clone(), Claim { period: period.number, until: now + pause, pause });
        }
        self.outdated(patch);
    }

    /// Records that the object has changed since the patch was computed, or is gone.
    pub(crate) fn outdated(&mut self, patch: &StatusPatch) {
        self.patched.insert(patch.uid.clone(), patch.version.clone());
    }

    /// Returns true if there may be as many entries of deleted objects as the `count` existing objects.
    pub(crate) fn is_large(&self, count: usize) -> bool {
        self.claimed.len().max(self.patched.len()) > 2 * count + 64
    }

    /// Removes entries of deleted objects, if [`Self::is_large`].
    pub(crate) fn prune<'a>(&mut self, count: usize, uids: impl Iterator<Item = &'a str>) {
        if self.is_large(count) {
            let present: HashSet<&str> = uids.collect();
            self.claimed.retain(|uid, _| present.contains(uid.as_str()));
            self.patched.retain(|uid, _| present.contains(uid.as_str()));
        }
    }

    /// Returns true if this node made its claim recently, so that another node's status stands.
    fn has_claimed(&self, uid: Option<&str>, period: ActivePeriod, now: Instant) -> bool {
        uid.and_then(|uid| self.claimed.get(uid))
            .is_some_and(|claim| claim.period == period.number && now < claim.until)
    }

    /// Returns true if the watch has yet to show the outcome of an earlier patch.
    fn has_patched(&self, object: &impl kube::Resource) -> bool {
        let meta = object.meta();
        let patched = meta.uid.as_ref().and_then(|uid| self.patched.get(uid));
        patched.is_some() && patched == meta.resource_version.as_ref()
    }
}

/// This node and the current time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeContext<'a> {
    pub(crate) node: &'a str,
    pub(crate) now: Instant,
    /// The current time by the wall clock.
    pub(crate) wall: Timestamp,
    /// Reasons why this node cannot block clients that may not use an address.
    pub(crate) unguarded: &'a Unguarded,
    /// Findings about connections, by virtual router.
    pub(crate) connections: &'a BTreeMap<RouterKey, Replicated>,
    /// State of sharing on this node.
    pub(crate) sharing: &'a SharingState,
}

/// Returns at most `limit` patches that report what this node is Active for; none where the status is already right.
pub(crate) fn patches<R, V>(
    context: NodeContext<'_>,
    active: &HashMap<&str, ActiveRouter<'_>>,
    refused: &[Refused],
    routers: &[R],
    vips: &[V],
    reported: &Reported,
    limit: usize,
) -> Vec<StatusPatch>
where
    R: AsRef<VirtualRouter>,
    V: AsRef<VirtualIP>,
{
    let of_routers = routers.iter().map(AsRef::as_ref).filter(|router| !reported.has_patched(*router));
    let of_routers = of_routers.filter_map(|router| {
        router_patch(context, active.get(router.metadata.name.as_deref()?)?, router, reported)
    });
    let of_vips = vips.iter().map(AsRef::as_ref).filter(|vip| !reported.has_patched(*vip));
    let of_vips = of_vips.filter_map(|vip| {
        if vip.spec.quarantine.is_some() {
            return quarantine_patch(context, vip);
        }
        let active = active.get(vip.spec.virtual_router.as_deref()?);
        if let Ok(at) = refused.binary_search_by_key(&vip.spec.address, |one| one.address) {
            return refusal_patch(context, &refused[at], active, vip);
        }
        vip_patch(context, active?, vip, reported)
    });
    of_routers.chain(of_vips).take(limit).collect()
}

fn router_patch(
    context: NodeContext<'_>,
    active: &ActiveRouter<'_>,
    router: &VirtualRouter,
    reported: &Reported,
) -> Option<StatusPatch> {
    let shown = router.active_node();
    let is_mine = shown == Some(context.node);
    let was_reported = || reported.has_claimed(router.metadata.uid.as_deref(), active.period, context.now);
    if !is_mine && shown.is_some() && was_reported() {
        return None;
    }
    let heard = multicast_condition(context, active, router);
    if is_mine && heard.is_none() {
        return None;
    }
    let mut patch = json!({});
    if !is_mine {
        let transitions = router.status.as_ref().map_or(0, |status| status.transitions);
        patch = json!({
            "activeNode": context.node,
            "activeSince": format!("{:.3}", active.period.since),
            "transitions": transitions.saturating_add(1),
        });
    }
    if let Some(heard) = heard {
        let mut conditions = router.status.as_ref().map_or_else(Vec::new, |status| status.conditions.clone());
        heard.set_in(&mut conditions, context.wall);
        patch["conditions"] = json!(conditions);
    }
    Some(status_patch(Kind::VirtualRouter, router, Some(active), &patch))
}

/// Returns the condition about nodes that do not receive this node's multicast, if it is not shown yet.
fn multicast_condition<'a>(
    context: NodeContext<'_>,
    active: &ActiveRouter<'_>,
    router: &VirtualRouter,
) -> Option<DesiredCondition<'a>> {
    let shown = router.status.as_ref().and_then(|status| find(&status.conditions, CONDITION_MULTICAST_HEARD));
    let is_deaf = |node: &&RankedNode| active.activity.deaf.contains(&node.address);
    let deaf: Vec<&str> = router.spec.nodes.iter().filter(is_deaf).map(|node| node.name.as_str()).collect();
    let (node, interface) = (context.node, &active.assignment.interface);
    let (reason, message) = if deaf.is_empty() {
        shown?;
        (
            multicast_heard::HEARD,
            format!("All other nodes receive the multicast adverts of node {node} on {interface}"),
        )
    } else {
        let message = format!(
            "Multicast adverts of node {node} on {interface} do not reach {}, so it sends them unicast: \
             {}",
            deaf.join(", "),
            engine_events::AGENT.multicast
        );
        (multicast_heard::UNICAST_FALLBACK, message)
    };
    let desired = DesiredCondition {
        type_: CONDITION_MULTICAST_HEARD,
        holds: deaf.is_empty(),
        reason,
        message,
        generation: router.metadata.generation,
    };
    (!shown.is_some_and(|shown| desired.is_same(shown))).then_some(desired)
}

fn vip_patch(
    context: NodeContext<'_>,
    active: &ActiveRouter<'_>,
    vip: &VirtualIP,
    reported: &Reported,
) -> Option<StatusPatch> {
    let address = vip.spec.address;
    if !is_wanted(vip) || !active.assignment.addresses.contains(&address) {
        return None;
    }
    // No report either while the address is being probed.
    let finding = if active.activity.claimed.contains(&address) {
        Finding::Announced(active)
    } else if let Some(why) = context.unguarded.why(address).filter(|_| vip.spec.needs_guard()) {
        Finding::Unguarded { why }
    } else {
        let host = active.activity.host(address, context.now)?;
        Finding::Taken { active, mac: host.mac }
    };
    let shown = vip.active_node();
    let mine = shown == Some(context.node);
    let known = vip.announced();
    let is_true = known.is_some_and(|condition| condition.status == "True");
    let is_known = match finding {
        Finding::Announced(active) => {
            let is_shown = |one| matches!(one, Further::AsShown);
            let further = further(context, active, vip);
            mine && is_true && further.into_iter().all(is_shown)
        }
        Finding::Taken { .. } | Finding::Unguarded { .. } => known.is_some_and(|known| {
            !is_true
                && known.reason == finding.reason()
                && known.message == finding.sentence(context.node, address)
        }),
        Finding::Refused { .. } | Finding::Stopped | Finding::Quarantined => true,
    };
    let others = shown.is_some() && !mine && is_true;
    if is_known || (others && reported.has_claimed(vip.metadata.uid.as_deref(), active.period, context.now)) {
        return None;
    }
    Some(announced_patch(context, vip, finding, Some(active)))
}

/// Change of a condition beside `Announced`.
enum Further {
    AsShown,
    Told(DesiredCondition<'static>),
    Over,
}

impl Further {
    fn unless_shown(desired: DesiredCondition<'static>, shown: Option<&Condition>) -> Self {
        if shown.is_some_and(|shown| desired.is_same(shown)) { Self::AsShown } else { Self::Told(desired) }
    }
}

/// Types of those conditions.
const FURTHER: [&str; 3] =
    [CONDITION_ADDRESS_CONFLICT, CONDITION_CONNECTIONS_REPLICATED, CONDITION_LOAD_SHARED];

/// Returns the change of each of them where the address is announced.
fn further(context: NodeContext<'_>, active: &ActiveRouter<'_>, vip: &VirtualIP) -> [Further; 3] {
    [conflict(context, active, vip), connections(context, active, vip), load(context, vip)]
}

/// Returns the change of the condition about load sharing. Without nodes of lots the controller knows the reason: its `False` stays.
fn load(context: NodeContext<'_>, vip: &VirtualIP) -> Further {
    let shown = vip.status.as_ref().and_then(|status| find(&status.conditions, CONDITION_LOAD_SHARED));
    let Some(load) = &vip.spec.load_sharing else {
        return if shown.is_some_and(|shown| shown.status == "True") {
            Further::Over
        } else {
            Further::AsShown
        };
    };
    let Some(finding) = context.sharing.finding(context.node, vip.spec.address, load) else {
        return Further::AsShown;
    };
    let desired = DesiredCondition {
        type_: CONDITION_LOAD_SHARED,
        holds: finding.holds,
        reason: finding.reason,
        message: finding.message,
        generation: vip.metadata.generation,
    };
    Further::unless_shown(desired, shown)
}

/// Returns the change of the condition about connections: do those to the address outlive this node? Those of Services with
/// `externalTrafficPolicy: Local`, and of shared addresses, end with the node that serves them.
fn connections(context: NodeContext<'_>, active: &ActiveRouter<'_>, vip: &VirtualIP) -> Further {
    let status = vip.status.as_ref();
    let shown = status.and_then(|status| find(&status.conditions, CONDITION_CONNECTIONS_REPLICATED));
    if vip.ends_with_its_servers() || !active.assignment.replicates() {
        return if shown.is_some() { Further::Over } else { Further::AsShown };
    }
    let Some(finding) = context.connections.get(&active.key) else { return Further::AsShown };
    let desired = DesiredCondition {
        type_: CONDITION_CONNECTIONS_REPLICATED,
        holds: finding.holds,
        reason: finding.reason,
        message: finding.sentence(context.node, vip.spec.address),
        generation: vip.metadata.generation,
    };
    Further::unless_shown(desired, shown)
}

fn conflict(context: NodeContext<'_>, active: &ActiveRouter<'_>, vip: &VirtualIP) -> Further {
    let address = vip.spec.address;
    let shown = vip.status.as_ref().and_then(|status| find(&status.conditions, CONDITION_ADDRESS_CONFLICT));
    match (active.assignment.address_conflict, active.activity.claimant(address, context.now)) {
        (AddressConflictPolicy::Defend, Some(host)) => {
            let desired = DesiredCondition {
                type_: CONDITION_ADDRESS_CONFLICT,
                holds: true,
                reason: REASON_DEFENDED,
                // The message names no node, so that it stays the same when the address moves.
                message: format!(
                    "Another host, {}, uses {address} beside the node that announces it: clients reach the one or \
                     the other until the address is taken off that host",
                    mac(host.mac)
                ),
                generation: vip.metadata.generation,
            };
            Further::unless_shown(desired, shown)
        }
        // A new Active has yet to observe the conflicts that the previous one observed.
        (AddressConflictPolicy::Defend, None)
            if context.wall.duration_since(active.period.since).unsigned_abs() < FORGET_AFTER =>
        {
            Further::AsShown
        }
        // The condition Announced reports an address that is yielded.
        (AddressConflictPolicy::Defend | AddressConflictPolicy::Yield, _) if shown.is_some() => Further::Over,
        (AddressConflictPolicy::Defend | AddressConflictPolicy::Yield, _) => Further::AsShown,
    }
}

/// Returns the Active's report of why it does not announce an address. Without an Active, because this is the only address, each node whose
/// reason is common to all may report; but not against a node that still announces it.
fn refusal_patch(
    context: NodeContext<'_>,
    refused: &Refused,
    active: Option<&ActiveRouter<'_>>,
    vip: &VirtualIP,
) -> Option<StatusPatch> {
    let others = vip.active_node().is_some_and(|node| node != context.node);
    let may_say = active.is_some() || (refused.alone && !others);
    let finding = Finding::Refused { why: &refused.reason };
    let is_known = vip.announced().is_some_and(|known| {
        known.status != "True" && known.reason == finding.reason() && known.message == refused.reason
    });
    (is_wanted(vip) && may_say && !is_known).then(|| announced_patch(context, vip, finding, active))
}

/// Returns the report that an address in quarantine is no longer announced, from the node that announced it.
fn quarantine_patch(context: NodeContext<'_>, vip: &VirtualIP) -> Option<StatusPatch> {
    let is_mine = vip.active_node() == Some(context.node) && vip.metadata.deletion_timestamp.is_none();
    is_mine.then(|| announced_patch(context, vip, Finding::Quarantined, None))
}

/// Returns the patches of an orderly stop: where no other node could take over, none would report that the address is no longer announced.
/// Everywhere else the next Active reports the new state.
pub(crate) fn shutdown_patches<R, V>(
    context: NodeContext<'_>,
    assignments: &[Assignment],
    routers: &[R],
    vips: &[V],
) -> Vec<StatusPatch>
where
    R: AsRef<VirtualRouter>,
    V: AsRef<VirtualIP>,
{
    let alone: HashSet<&str> = assignments
        .iter()
        .filter(|assignment| assignment.peers.is_empty())
        .map(|assignment| assignment.virtual_router.as_str())
        .collect();
    let mut patches = Vec::new();
    for router in routers.iter().map(AsRef::as_ref) {
        let shown = router.active_node();
        let is_alone = router.metadata.name.as_deref().is_some_and(|name| alone.contains(name));
        if is_alone && shown == Some(context.node) {
            let patch = json!({ "activeNode": null, "activeSince": null });
            patches.push(status_patch(Kind::VirtualRouter, router, None, &patch));
        }
    }
    for vip in vips.iter().map(AsRef::as_ref) {
        let is_alone = vip.spec.virtual_router.as_deref().is_some_and(|name| alone.contains(name));
        if is_alone && is_wanted(vip) && vip.active_node() == Some(context.node) {
            patches.push(announced_patch(context, vip, Finding::Stopped, None));
        }
    }
    patches
}

fn status_patch(
    kind: Kind,
    object: &impl kube::ResourceExt,
    active: Option<&ActiveRouter<'_>>,
    status: &Value,
) -> StatusPatch {
    let (uid, version) = (object.meta().uid.as_deref(), object.meta().resource_version.as_deref());
    StatusPatch {
        kind,
        name: object.name_any(),
        uid: uid.unwrap_or_default().to_owned(),
        version: version.unwrap_or_default().to_owned(),
        basis: active.map(|active| (active.key.clone(), active.period)),
        body: json!({ "metadata": { "uid": uid, "resourceVersion": version }, "status": status }),
    }
}

/// Report about an address.
#[derive(Clone, Copy)]
enum Finding<'a> {
    Announced(&'a ActiveRouter<'a>),
    Taken { active: &'a ActiveRouter<'a>, mac: [u8; 6] },
    Unguarded { why: &'a str },
    Refused { why: &'a str },
    Stopped,
    Quarantined,
}

impl Finding<'_> {
    const fn reason(self) -> &'static str {
        match self {
            Self::Announced(_) => announced::ACTIVE,
            Self::Taken { .. } => announced::ADDRESS_TAKEN,
            Self::Unguarded { .. } => announced::UNGUARDED,
            Self::Refused { .. } => announced::ADDRESS_REFUSED,
            Self::Stopped => announced::AGENT_STOPPED,
            Self::Quarantined => announced::QUARANTINED,
        }
    }

    fn sentence(self, node: &str, address: IpAddr) -> String {
        match self {
            Self::Announced(ActiveRouter { assignment, .. }) => format!(
                "Node {node} answers for {address} on {} (VRID {})",
                assignment.interface, assignment.vrid
            ),
            Self::Taken { active, mac: host } => format!(
                "Another host, {} on {} of node {node}, uses {address}: Windlass announces it once that host \
                 stops. Remove the address from that host",
                mac(host),
                active.assignment.interface
            ),
            Self::Unguarded { why } => format!(
                "Source ranges restrict {address}, and node {node} cannot enforce them: {why}; run its agent \
                 with its guard, or remove the source ranges of the Service"
            ),
            Self::Refused { why } => why.to_owned(),
            Self::Stopped => {
                format!("The agent on node {node}, the only one that may announce it, was stopped")
            }
            Self::Quarantined => format!("Node {node} no longer answers for {address}: it is in quarantine"),
        }
    }
}

/// Returns a patch of all conditions with `Announced` set. Other controllers' conditions are kept, as a merge patch replaces the list as a
/// whole.
fn announced_patch(
    context: NodeContext<'_>,
    vip: &VirtualIP,
    finding: Finding<'_>,
    active: Option<&ActiveRouter<'_>>,
) -> StatusPatch {
    let (node, holds, further) = match finding {
        Finding::Announced(active) => (Some(context.node), true, further(context, active, vip)),
        Finding::Taken { .. }
        | Finding::Unguarded { .. }
        | Finding::Refused { .. }
        | Finding::Stopped
        | Finding::Quarantined => (None, false, FURTHER.map(|_| Further::Over)),
    };
    let desired = DesiredCondition {
        type_: CONDITION_ANNOUNCED,
        holds,
        reason: finding.reason(),
        message: finding.sentence(context.node, vip.spec.address),
        generation: vip.metadata.generation,
    };
    let mut conditions = vip.status.as_ref().map_or_else(Vec::new, |status| status.conditions.clone());
    desired.set_in(&mut conditions, context.wall);
    for (type_, further) in FURTHER.into_iter().zip(further) {
        match further {
            Further::AsShown => {}
            Further::Told(condition) => condition.set_in(&mut conditions, context.wall),
            Further::Over => conditions.retain(|one| one.type_ != type_),
        }
    }
    let patch = json!({ "activeNode": node, "conditions": conditions });
    status_patch(Kind::VirtualIP, vip, active, &patch)
}
