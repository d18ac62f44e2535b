//! The writes that make the cluster as planned: the difference, and nothing where there is none. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::{
    ANNOTATION_PREFERRED_NODE, ANNOTATION_VRID_CHANGES, CONDITION_ADDRESS_CONFLICT, CONDITION_ANNOUNCED,
    CONDITION_LOAD_SHARED, SharedLoad, VirtualIP, VirtualIPPoolStatus, VirtualRouter, VirtualRouterSpec,
};
use windlass_ccm::conditions::{DesiredCondition, find};

use super::announcements::{self, AnnouncementFindings, SelectedBy};
use super::plan::{self, PlacementPlan, PlanInput, Unplaced};
use super::plan_input;
use super::status_throttle::{CountedKind, StatusThrottle};
use crate::allocation::pools::{self, Announceability, PoolFindings};
use crate::state::ClusterState;
use crate::state::shared::SharedState;
use crate::stores::Stores;

/// VIPs compared in one go, in which nobody else can decide: less than a millisecond.
const AT_ONCE: usize = 256;

/// One write. Patches are JSON merge patches that hold `metadata.resourceVersion`: they change only what was seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PlannedWrite {
    CreateRouter(Box<VirtualRouter>),
    Router {
        name: String,
        patch: Value,
    },
    Vip {
        name: String,
        patch: Value,
    },
    VipStatus {
        name: String,
        patch: Value,
    },
    /// `counts_only`: its conditions are as they were.
    PoolStatus {
        name: String,
        patch: Value,
        counts_only: bool,
    },
    /// The same.
    AnnouncementStatus {
        name: String,
        patch: Value,
        counts_only: bool,
    },
    DeleteRouter(Arc<VirtualRouter>),
}

/// Writes in the order in which they must be made.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PlannedWrites {
    routers: Vec<PlannedWrite>,
    vips: Vec<PlannedWrite>,
    rest: Vec<PlannedWrite>,
    /// From then on, in so long a time, another plan may be better without any other cause.
    look_again: Option<Duration>,
}

impl PlannedWrites {
    /// Plans, and compares what is with the plan. Nobody is kept from deciding meanwhile: the plan is made of a snapshot, and
    /// the writes of what has changed since are refused by their versions. `None`: not all is known yet.
    pub(crate) fn new(shared: &SharedState) -> Option<Self> {
        let (input, now) = {
            let mut state = shared.state();
            if !state.allocation.is_ready() {
                return None;
            }
            let ClusterState { stores, allocation, placement, clock, .. } = &mut *state;
            let now = clock.now();
            (plan_input::input(stores, allocation, placement, now), now)
        };
        let plan = plan::plan(&input);
        let look_again =
            plan.look_again.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        let mut writes = Self { look_again, ..Self::default() };
        writes.add_routers(&input, &plan);
        for vips in input.vips.chunks(AT_ONCE) {
            let state = shared.state();
            for vip in vips {
                let name = vip.name_any();
                let selected = input.selected.get(&vip.spec.address);
                let placement = VipPlacement {
                    announcement: selected.and_then(|by| by.applied.as_ref()),
                    router: plan.routers_by_vip.get(&name),
                    unplaced: plan.unplaced.get(&name),
                    without_candidates: plan.without_candidates.get(&name),
                    shared: plan.shared_loads.get(&vip.spec.address),
                    not_shared: plan.not_shared.get(&vip.spec.address).copied(),
                };
                writes.add_vip(&state, vip, &placement, now);
            }
        }
        let mut state = shared.state();
        writes.add_pools(&mut state, now);
        writes.add_announcements(&state, &input, &plan, now);
        state.placement.set_uneven(&plan.uneven, now);
        let flawed = state.placement.set_flaws(plan.flaws(&input));
        let keys = state.allocation.services_with(flawed);
        drop(state);
        if !keys.is_empty() {
            shared.services_to_sync.push(keys);
        }
        Some(writes)
    }

    /// Returns the time until the next plan, without any other cause.
    pub(crate) fn look_again(&self) -> Option<Duration> {
        self.look_again
    }

    /// Returns the writes in stages; each stage is to be done before the next.
    pub(crate) fn stages(self) -> [Vec<PlannedWrite>; 3] {
        let Self { routers, vips, rest, look_again: _ } = self;
        [routers, vips, rest]
    }

    /// Takes out what is not due yet, by `throttle`; returns when the first of that is.
    pub(crate) fn defer(&mut self, throttle: &mut StatusThrottle, now: Instant) -> Option<Instant> {
        let mut first: Option<Instant> = None;
        let mut is_due = |kind, name: &str, counts_only| match throttle.take((kind, name), counts_only, now) {
            Ok(()) => true,
            Err(due) => {
                first = Some(first.map_or(due, |known| known.min(due)));
                false
            }
        };
        self.rest.retain(|write| match write {
            PlannedWrite::PoolStatus { name, counts_only, .. } => {
                is_due(CountedKind::Pool, name, *counts_only)
            }
            PlannedWrite::AnnouncementStatus { name, counts_only, .. } => {
                is_due(CountedKind::Announcement, name, *counts_only)
            }
            PlannedWrite::CreateRouter(_)
            | PlannedWrite::Router { .. }
            | PlannedWrite::Vip { .. }
            | PlannedWrite::VipStatus { .. }
            | PlannedWrite::DeleteRouter(_) => true,
        });
        first
    }

    fn add_routers(&mut self, input: &PlanInput, plan: &PlacementPlan<'_>) {
        let known: HashMap<_, _> = input
            .routers
            .iter()
            .filter_map(|router| Some((router.metadata.name.as_ref()?, router)))
            .collect();
        for (name, spec) in &plan.routers {
            match known.get(name).copied() {
                None => {
                    let mut router = VirtualRouter::new(name, VirtualRouterSpec::clone(spec));
                    let wanted = plan.preferred_nodes.get(name);
                    let wanted = wanted.map(|node| (ANNOTATION_PREFERRED_NODE.to_owned(), node.clone()));
                    let changes = plan.vrid_changes.get(name);
                    let changes =
                        changes.map(|number| (ANNOTATION_VRID_CHANGES.to_owned(), number.to_string()));
                    let annotations: BTreeMap<_, _> = wanted.into_iter().chain(changes).collect();
                    router.metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
                    self.routers.push(PlannedWrite::CreateRouter(Box::new(router)));
                }
                Some(old) => self.add_router(old, spec),
            }
        }
        for router in &input.routers {
            if !plan.routers.contains_key(&router.name_any()) && router.metadata.deletion_timestamp.is_none()
            {
                self.rest.push(PlannedWrite::DeleteRouter(Arc::clone(router)));
            }
        }
    }

    fn add_router(&mut self, old: &VirtualRouter, spec: &VirtualRouterSpec) {
        if old.spec != *spec {
            let (was, mut fields) = (json!(old.spec), json!(spec));
            // What is left out of a merge patch stays.
            if let (Value::Object(was), Value::Object(fields)) = (was, &mut fields) {
                for (field, _) in was {
                    fields.entry(field).or_insert(Value::Null);
                }
            }
            let patch = json!({ "metadata": precondition(old), "spec": fields });
            self.routers.push(PlannedWrite::Router { name: old.name_any(), patch });
        }
    }

    fn add_vip(
        &mut self,
        state: &ClusterState,
        vip: &VirtualIP,
        placement: &VipPlacement<'_>,
        now: Timestamp,
    ) {
        let mut spec = serde_json::Map::new();
        if let Some(router) = placement.router
            && vip.spec.virtual_router.as_ref() != Some(router)
        {
            spec.insert("virtualRouter".to_owned(), json!(router));
        }
        if vip.spec.quarantine.is_none() && vip.spec.announcement.as_ref() != placement.announcement {
            spec.insert("announcement".to_owned(), json!(placement.announcement));
        }
        if vip.spec.load_sharing.as_ref() != placement.shared {
            spec.insert("loadSharing".to_owned(), shared_patch(placement.shared));
        }
        // A pool that was renamed or split: the address stays, and belongs to the pool that holds it now.
        let pool = state.ledger().pool_of(vip.spec.address).map_or(&vip.spec.pool, |pool| &pool.name);
        if vip.spec.pool != *pool {
            spec.insert("pool".to_owned(), json!(pool));
        }
        let former = state.allocation.former_pools(&state.stores, &vip.spec, pool);
        if vip.spec.former_pools != former {
            let former = if former.is_empty() { Value::Null } else { json!(former) };
            spec.insert("formerPools".to_owned(), former);
        }
        // In quarantine nobody announces it; only a manual edit puts it there with a virtual router, or names one.
        let is_nowhere = placement.unplaced.is_some() || vip.spec.quarantine.is_some();
        if is_nowhere && vip.spec.virtual_router.is_some() {
            spec.insert("virtualRouter".to_owned(), Value::Null);
        }
        if vip.spec.quarantine.is_none() {
            let (address, owners) = (vip.spec.address, &vip.spec.owners);
            let traffic = state.allocation.traffic_of(&state.stores, address, owners);
            traffic.patch(Some(&vip.spec), &mut spec);
        }
        let name = vip.name_any();
        if !spec.is_empty() {
            let patch = json!({ "metadata": precondition(vip), "spec": spec });
            self.vips.push(PlannedWrite::Vip { name, patch });
        } else if let Some(conditions) =
            placement.unannounced_reason(&state.stores, vip).and_then(|why| not_announced(vip, why, now))
        {
            let status = json!({ "activeNode": null, "conditions": conditions });
            let patch = json!({ "metadata": precondition(vip), "status": status });
            self.vips.push(PlannedWrite::VipStatus { name, patch });
        } else if placement.shared.is_none()
            && let Some(conditions) = not_shared(vip, placement.not_shared, now)
        {
            let patch = json!({ "metadata": precondition(vip), "status": { "conditions": conditions } });
            self.vips.push(PlannedWrite::VipStatus { name, patch });
        }
    }

    fn add_pools(&mut self, state: &mut ClusterState, now: Timestamp) {
        let ClusterState { stores, allocation, placement, .. } = state;
        let (reviewed, findings) = (allocation.reviewed(), allocation.findings(stores));
        let announceability_by_pool = placement.announceability_by_pool(stores, &reviewed);
        let none = PoolFindings::default();
        for pool in stores.pools.iter() {
            let name = pool.name_any();
            let Some(reviewed) = reviewed.iter().find(|one| one.pool.name == name) else { continue };
            let counts = |family| allocation.ledger().counts(&name, family);
            let findings = findings.get(&name).unwrap_or(&none);
            let generation = pool.metadata.generation;
            let announceability = announceability_by_pool.get(&name).unwrap_or(&Announceability::Unknown);
            let shown = pool.status.as_ref();
            let status = pools::status(shown, generation, reviewed, announceability, counts, findings, now);
            if pool.status.as_ref() != Some(&status) {
                let counts_only = pool
                    .status
                    .as_ref()
                    .is_some_and(|old| old.conditions == status.conditions && old.cidrs == status.cidrs);
                let VirtualIPPoolStatus { ipv4, ipv6, cidrs, conditions } = status;
                let patch = json!({
                    "metadata": precondition(&**pool),
                    "status": { "ipv4": ipv4, "ipv6": ipv6, "cidrs": cidrs, "conditions": conditions },
                });
                self.rest.push(PlannedWrite::PoolStatus { name, patch, counts_only });
            }
        }
    }

    fn add_announcements(
        &mut self,
        state: &ClusterState,
        input: &PlanInput,
        plan: &PlacementPlan<'_>,
        now: Timestamp,
    ) {
        let findings = announcement_findings(input, plan);
        for announcement in state.stores.announcements.iter() {
            let name = announcement.name_any();
            let (Some(parsed), Some(findings)) = (input.announcements.get(Some(&name)), findings.get(&name))
            else {
                continue;
            };
            let shown = announcement.status.as_ref();
            let status =
                announcements::status(shown, announcement.metadata.generation, parsed, findings, now);
            if shown != Some(&status) {
                let counts_only = shown.is_some_and(|old| old.conditions == status.conditions);
                let patch = json!({ "metadata": precondition(&**announcement), "status": status });
                self.rest.push(PlannedWrite::AnnouncementStatus { name, patch, counts_only });
            }
        }
    }
}

/// Collects the findings about each Announcement from VIPs and nodes.
fn announcement_findings(
    input: &PlanInput,
    plan: &PlacementPlan<'_>,
) -> BTreeMap<String, AnnouncementFindings> {
    let mut all: BTreeMap<String, AnnouncementFindings> = BTreeMap::new();
    for announcement in input.announcements.iter() {
        let Some(name) = announcement.name.clone() else { continue };
        let segments = input.topology.segments(announcement);
        let is_without_node = segments.is_any_reported() && segments.subnets().next().is_none();
        all.insert(name, AnnouncementFindings { is_without_node, ..AnnouncementFindings::default() });
    }
    for vip in input.wanted_vips() {
        let address = vip.spec.address;
        let Some(SelectedBy { applied: Some(applied), overruled }) = input.selected.get(&address) else {
            continue;
        };
        if let Some(findings) = all.get_mut(applied) {
            findings.virtual_ips += 1;
            if plan.without_key.contains(&address) {
                findings.without_key.insert(address);
            } else if plan.left_behind.contains(&address) {
                findings.left_behind.insert(address);
            }
        }
        for other in overruled {
            if let Some(findings) = all.get_mut(other) {
                findings.overruled.insert(address, applied.clone());
            }
        }
    }
    all
}

/// Placement of a VIP by the plan; `None` where nothing changes.
#[derive(Default)]
struct VipPlacement<'a> {
    /// The name of the one that applies; `None`: none does.
    announcement: Option<&'a String>,
    router: Option<&'a String>,
    /// Reason that it has no router.
    unplaced: Option<&'a Unplaced>,
    /// Reason that no other router takes it, if its own has no candidate left.
    without_candidates: Option<&'a Unplaced>,
    /// Its lots, if several nodes serve it or served it.
    shared: Option<&'a SharedLoad>,
    /// Reason that it is not shared, if it is to be.
    not_shared: Option<&'static str>,
}

impl<'a> VipPlacement<'a> {
    /// Returns the reason that no node announces the VIP; `None` if a node without a report may still announce it. A node that is gone
    /// cannot report that it stopped.
    fn unannounced_reason(&self, stores: &Stores, vip: &VirtualIP) -> Option<&'a Unplaced> {
        let active = vip.active_node();
        let is_gone = || {
            active.is_none_or(|node| stores.networks.get(node).is_none() && stores.nodes.get(node).is_none())
        };
        let unplaced = self.unplaced.filter(|_| !vip.is_announced());
        unplaced.or(self.without_candidates.filter(|_| vip.is_announced() && is_gone()))
    }
}

/// Returns the lots as a part of a merge patch: former servers that are left out of it would stay.
fn shared_patch(shared: Option<&SharedLoad>) -> Value {
    let mut patch = json!(shared);
    if let Value::Object(fields) = &mut patch {
        fields.entry("formerLots").or_insert(Value::Null);
    }
    patch
}

/// The version a patch was decided on.
fn precondition(object: &impl kube::ResourceExt) -> Value {
    json!({ "uid": object.uid(), "resourceVersion": object.resource_version() })
}

/// Returns the conditions of a VIP that no node can announce; `None` if they are up to date.
fn not_announced(vip: &VirtualIP, why: &Unplaced, now: Timestamp) -> Option<Vec<Condition>> {
    let desired = DesiredCondition {
        type_: CONDITION_ANNOUNCED,
        holds: false,
        reason: why.reason(),
        message: why.to_string(),
        generation: vip.metadata.generation,
    };
    let mut conditions = with_condition(vip, desired, now)?;
    // It is about an address that a node announces.
    conditions.retain(|one| one.type_ != CONDITION_ADDRESS_CONFLICT);
    Some(conditions)
}

/// Returns the conditions of a VIP that is not shared, for this reason if it is to be; `None` if they are up to date. Of one that is shared
/// its director reports the condition.
fn not_shared(vip: &VirtualIP, reason: Option<&'static str>, now: Timestamp) -> Option<Vec<Condition>> {
    let Some(reason) = reason else {
        let mut conditions = vip.status.as_ref()?.conditions.clone();
        find(&conditions, CONDITION_LOAD_SHARED)?;
        conditions.retain(|one| one.type_ != CONDITION_LOAD_SHARED);
        return Some(conditions);
    };
    let desired = DesiredCondition {
        type_: CONDITION_LOAD_SHARED,
        holds: false,
        reason,
        message: plan::why_not_shared(vip.spec.address, reason),
        generation: vip.metadata.generation,
    };
    with_condition(vip, desired, now)
}

/// Returns the conditions of a VIP with this one; `None` if it is shown already.
fn with_condition(vip: &VirtualIP, desired: DesiredCondition<'_>, now: Timestamp) -> Option<Vec<Condition>> {
    let mut conditions = vip.status.as_ref().map_or_else(Vec::new, |status| status.conditions.clone());
    if find(&conditions, desired.type_).is_some_and(|shown| desired.is_same(shown)) {
        return None;
    }
    desired.set_in(&mut conditions, now);
    Some(conditions)
}

#[cfg(test)]
mod tests;
