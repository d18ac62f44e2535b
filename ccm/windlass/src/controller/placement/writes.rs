//! What has to be written so that the cluster is as planned: the difference, and nothing where there is none. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::{CONDITION_ANNOUNCED, VirtualIP, VirtualIPPoolStatus, VirtualRouter, VirtualRouterSpec};
use windlass_ccm::conditions::Saying;

use super::plan::{self, Input, Plan, Unplaced};
use super::pool_pace::PoolPace;
use super::view;
use crate::controller::allocation::pools::{self, Findings, Reach, Reviewed};
use crate::controller::provider::claim::sources_patch;
use crate::controller::state::State;
use crate::controller::state::shared::Shared;
use crate::controller::stores::Stores;

/// VIPs compared in one go, in which nobody else can decide: less than a millisecond.
const AT_ONCE: usize = 256;

/// One write. Patches are JSON merge patches that hold `metadata.resourceVersion`: they change only what was seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
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
    DeleteRouter(Arc<VirtualRouter>),
}

/// Writes in the order in which they must be made.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Writes {
    routers: Vec<Write>,
    vips: Vec<Write>,
    rest: Vec<Write>,
}

impl Writes {
    /// Plans, and compares what is with the plan. Nobody is kept from deciding meanwhile: the plan is made of a snapshot, and
    /// the writes of what has changed since are refused by their versions. `None`: not all is known yet.
    pub(crate) fn new(shared: &Shared) -> Option<Self> {
        let (input, now) = {
            let mut state = shared.state();
            if !state.ready {
                return None;
            }
            (view::input(&mut state), state.clock.now())
        };
        let plan = plan::plan(&input);
        let mut writes = Self::default();
        writes.add_routers(&input, &plan);
        for vips in input.vips.chunks(AT_ONCE) {
            let state = shared.state();
            for vip in vips {
                let name = vip.name_any();
                let place = Place {
                    carrier: plan.carriers.get(&name),
                    unplaced: plan.unplaced.get(&name),
                    deserted: plan.deserted.get(&name),
                };
                writes.add_vip(&state, vip, &place, now);
            }
        }
        let mut state = shared.state();
        let reviewed = state.reviewed();
        writes.add_pools(&mut state, &reviewed, now);
        Some(writes)
    }

    /// Each stage is to be done before the next.
    pub(crate) fn stages(self) -> [Vec<Write>; 3] {
        let Self { routers, vips, rest } = self;
        [routers, vips, rest]
    }

    /// Takes out what is not due yet, by `pace`; returns when the first of that is.
    pub(crate) fn hold_back(&mut self, pace: &mut PoolPace, now: Instant) -> Option<Instant> {
        let mut first: Option<Instant> = None;
        self.rest.retain(|write| match write {
            Write::PoolStatus { name, counts_only, .. } => match pace.take(name, *counts_only, now) {
                Ok(()) => true,
                Err(due) => {
                    first = Some(first.map_or(due, |known| known.min(due)));
                    false
                }
            },
            Write::CreateRouter(_)
            | Write::Router { .. }
            | Write::Vip { .. }
            | Write::VipStatus { .. }
            | Write::DeleteRouter(_) => true,
        });
        first
    }

    fn add_routers(&mut self, input: &Input, plan: &Plan<'_>) {
        let known: HashMap<_, _> = input
            .routers
            .iter()
            .filter_map(|router| Some((router.metadata.name.as_ref()?, router)))
            .collect();
        for (name, spec) in &plan.routers {
            match known.get(name).copied() {
                None => {
                    let router = Box::new(VirtualRouter::new(name, VirtualRouterSpec::clone(spec)));
                    self.routers.push(Write::CreateRouter(router));
                }
                Some(old) => self.add_router(old, spec),
            }
        }
        for router in &input.routers {
            if !plan.routers.contains_key(&router.name_any()) && router.metadata.deletion_timestamp.is_none()
            {
                self.rest.push(Write::DeleteRouter(Arc::clone(router)));
            }
        }
    }

    fn add_router(&mut self, old: &VirtualRouter, spec: &VirtualRouterSpec) {
        if old.spec != *spec {
            let patch = json!({ "metadata": seen(old), "spec": spec });
            self.routers.push(Write::Router { name: old.name_any(), patch });
        }
    }

    fn add_vip(&mut self, state: &State, vip: &VirtualIP, place: &Place<'_>, now: Timestamp) {
        let mut spec = serde_json::Map::new();
        if let Some(router) = place.carrier
            && vip.spec.virtual_router.as_ref() != Some(router)
        {
            spec.insert("virtualRouter".to_owned(), json!(router));
        }
        // A pool that was renamed or split: the address stays, and belongs to the pool that holds it now.
        let pool = state.ledger.pool_of(vip.spec.address).map_or(&vip.spec.pool, |pool| &pool.name);
        if vip.spec.pool != *pool {
            spec.insert("pool".to_owned(), json!(pool));
        }
        let former = state.former_pools(&vip.spec, pool);
        if vip.spec.former_pools != former {
            let former = if former.is_empty() { Value::Null } else { json!(former) };
            spec.insert("formerPools".to_owned(), former);
        }
        // In quarantine nobody announces it; only a hand puts it there with a virtual router, or names one.
        let is_nowhere = place.unplaced.is_some() || vip.spec.quarantine.is_some();
        if is_nowhere && vip.spec.virtual_router.is_some() {
            spec.insert("virtualRouter".to_owned(), Value::Null);
        }
        if vip.spec.quarantine.is_none() {
            let sources = state.sources_of(vip.spec.address, &vip.spec.owners);
            if vip.spec.sources != sources {
                spec.insert("sources".to_owned(), sources_patch(&sources));
            }
        }
        let name = vip.name_any();
        if !spec.is_empty() {
            let patch = json!({ "metadata": seen(vip), "spec": spec });
            self.vips.push(Write::Vip { name, patch });
        } else if let Some(conditions) =
            place.silence(&state.stores, vip).and_then(|why| not_announced(vip, why, now))
        {
            let status = json!({ "activeNode": null, "conditions": conditions });
            let patch = json!({ "metadata": seen(vip), "status": status });
            self.vips.push(Write::VipStatus { name, patch });
        }
    }

    fn add_pools(&mut self, state: &mut State, reviewed: &[Reviewed], now: Timestamp) {
        let findings = state.findings();
        let reaches = state.topology_cache.reaches(&state.stores, &state.reviewed());
        let none = Findings::default();
        for pool in state.stores.pools.iter() {
            let name = pool.name_any();
            let Some(reviewed) = reviewed.iter().find(|one| one.pool.name == name) else { continue };
            let counts = |family| state.ledger.counts(&name, family);
            let findings = findings.get(&name).unwrap_or(&none);
            let generation = pool.metadata.generation;
            let reach = reaches.get(&name).unwrap_or(&Reach::Unknown);
            let shown = pool.status.as_ref();
            let status = pools::status(shown, generation, reviewed, reach, counts, findings, now);
            if pool.status.as_ref() != Some(&status) {
                let counts_only = pool.status.as_ref().is_some_and(|old| old.conditions == status.conditions);
                let VirtualIPPoolStatus { ipv4, ipv6, conditions } = status;
                let patch = json!({
                    "metadata": seen(&**pool),
                    "status": { "ipv4": ipv4, "ipv6": ipv6, "conditions": conditions },
                });
                self.rest.push(Write::PoolStatus { name, patch, counts_only });
            }
        }
    }
}

/// What the plan says of a VIP; nothing where that is as it was.
#[derive(Default)]
struct Place<'a> {
    carrier: Option<&'a String>,
    /// Why it has none.
    unplaced: Option<&'a Unplaced>,
    /// Why no other one takes it, whose own has no candidate left.
    deserted: Option<&'a Unplaced>,
}

impl<'a> Place<'a> {
    /// Why nobody announces the VIP, unless a node does all the same: one without a report may. One that is gone cannot say
    /// that it does no more.
    fn silence(&self, stores: &Stores, vip: &VirtualIP) -> Option<&'a Unplaced> {
        let active = vip.status.as_ref().and_then(|status| status.active_node.as_deref());
        let is_gone = || {
            active.is_none_or(|node| stores.networks.get(node).is_none() && stores.nodes.get(node).is_none())
        };
        let unplaced = self.unplaced.filter(|_| !vip.is_announced());
        unplaced.or(self.deserted.filter(|_| vip.is_announced() && is_gone()))
    }
}

/// The version a patch was decided on.
fn seen(object: &impl kube::ResourceExt) -> Value {
    json!({ "uid": object.uid(), "resourceVersion": object.resource_version() })
}

/// The conditions of a VIP that nobody can announce; `None` if they say so already.
fn not_announced(vip: &VirtualIP, why: &Unplaced, now: Timestamp) -> Option<Vec<Condition>> {
    let saying = Saying {
        type_: CONDITION_ANNOUNCED,
        holds: false,
        reason: why.reason(),
        message: why.to_string(),
        generation: vip.metadata.generation,
    };
    if vip.announced().is_some_and(|shown| saying.is_said_by(shown)) {
        return None;
    }
    let mut conditions = vip.status.as_ref().map_or_else(Vec::new, |status| status.conditions.clone());
    saying.put(&mut conditions, now);
    Some(conditions)
}

#[cfg(test)]
mod tests;
