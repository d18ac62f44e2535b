//! Writes the difference between the cluster and the plan, and nothing else.
//!
//! One pass at a time. A write that meets a newer object fails by its precondition; the watch shows the newer one, and the
//! next pass decides again. A pass of which something failed is repeated with back-off, unless there is something new before.
//!
//! So one write may come to nothing that another was planned to follow. No VIP is left without its virtual router by that: it names none
//! that could not be made, and none goes that a VIP could not leave. Nobody would announce it, and the next pass would know no more where
//! it was.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube::api::{Api, DeleteParams, Patch, Preconditions};
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tokio::time::Instant;
use windlass_api::{Announcement, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_ccm::lenient::{Lenient, read};
use windlass_common::strict;

use super::status_throttle::StatusThrottle;
use super::writes::{PlannedWrite, PlannedWrites};
use crate::state::shared::SharedState;
use crate::state::watched_kinds::WatchedKind;
use crate::stores::call::{CallFailed, call};
use crate::wakeup::{ReconcileReport, Reconciler, Wakeup};

/// After a conflict: by then the watch shows the newer object, unless it is interrupted.
const RETRY_AFTER_CONFLICT: Duration = Duration::from_secs(2);
/// Writes in flight at the same time.
const PARALLEL: usize = 8;
/// The planner and its writes.
pub(crate) struct Applier {
    shared: Arc<SharedState>,
    pools: Api<Lenient<VirtualIPPool>>,
    announcements: Api<Lenient<Announcement>>,
    vips: Api<Lenient<VirtualIP>>,
    routers: Api<Lenient<VirtualRouter>>,
    throttle: StatusThrottle,
}

impl Reconciler for Applier {
    fn wakeup(&self) -> &Wakeup {
        &self.shared.planner_wakeup
    }

    async fn reconcile(&mut self) -> ReconcileReport {
        self.shared.review_pools();
        let began = Instant::now();
        let Some(mut writes) = PlannedWrites::new(&self.shared) else { return ReconcileReport::default() };
        let decision_time = began.elapsed();
        if let Some(due) = writes.defer(&mut self.throttle, Instant::now()) {
            self.shared.planner_wakeup.request_at(due);
        }
        if let Some(pause) = writes.look_again() {
            self.shared.planner_wakeup.request_at(Instant::now() + pause);
        }
        let next_settled = self.shared.state().placement.next_settled(began);
        if let Some(at) = next_settled {
            self.shared.planner_wakeup.request_at(at);
        }
        let mut failures = Vec::new();
        // Routers before the VIPs that name them; those that carry nothing any more go last.
        for stage in writes.stages() {
            let results: Vec<_> =
                stream::iter(stage).map(|write| self.write(write)).buffer_unordered(PARALLEL).collect().await;
            failures.extend(results.into_iter().filter_map(Result::err).map(Into::into));
        }
        ReconcileReport { decision_time, failures }
    }
}

impl Applier {
    /// An applier; nothing happens until it makes its passes.
    pub(crate) fn new(client: Client, shared: Arc<SharedState>) -> Self {
        let (pools, announcements) = (Api::all(client.clone()), Api::all(client.clone()));
        let (vips, routers) = (Api::all(client.clone()), Api::all(client));
        Self { shared, pools, announcements, vips, routers, throttle: StatusThrottle::default() }
    }

    async fn write(&self, write: PlannedWrite) -> Result<(), CallFailed> {
        match write {
            PlannedWrite::CreateRouter(router) => {
                tracing::info!(
                    router = router.name_any(),
                    vrid = router.spec.vrid,
                    "making a virtual router"
                );
                let what = format!("create VirtualRouter {:?}", router.name_any());
                // If another controller was faster, the watch will show it.
                self.learn(&what, strict::create(&self.routers, &router)).await
            }
            PlannedWrite::Router { name, patch } => {
                let what = format!("change VirtualRouter {name:?}");
                self.learn(&what, self.routers.patch(&name, &strict::params(), &Patch::Merge(&patch))).await
            }
            PlannedWrite::Vip { name, patch } if self.names_what_is_missing(&patch) => {
                tracing::debug!(vip = name, "it changes when its virtual router is there");
                self.on_conflict();
                Ok(())
            }
            PlannedWrite::Vip { name, patch } => {
                let what = format!("change VirtualIP {name:?}");
                self.learn(&what, self.vips.patch(&name, &strict::params(), &Patch::Merge(&patch))).await
            }
            PlannedWrite::VipStatus { name, patch } => {
                let what = format!("change the status of VirtualIP {name:?}");
                let (params, patch) = (strict::params(), Patch::Merge(&patch));
                self.learn(&what, self.vips.patch_status(&name, &params, &patch)).await
            }
            PlannedWrite::PoolStatus { name, patch, counts_only: _ } => {
                let what = format!("change the status of VirtualIPPool {name:?}");
                let (params, patch) = (strict::params(), Patch::Merge(&patch));
                self.learn(&what, self.pools.patch_status(&name, &params, &patch)).await
            }
            PlannedWrite::AnnouncementStatus { name, patch, counts_only: _ } => {
                let what = format!("change the status of Announcement {name:?}");
                let (params, patch) = (strict::params(), Patch::Merge(&patch));
                self.learn(&what, self.announcements.patch_status(&name, &params, &patch)).await
            }
            PlannedWrite::DeleteRouter(router) => self.delete_router(&router).await,
        }
    }

    /// Makes a call and takes in its answer. A conflict, or an object that is gone, is no failure: the watch will show it.
    async fn learn<K: WatchedKind>(
        &self,
        what: &str,
        request: impl Future<Output = Result<Lenient<K>, kube::Error>>,
    ) -> Result<(), CallFailed> {
        match call(read(request), || what.to_owned()).await {
            Ok(object) => self.shared.learn(object),
            Err(failed) if failed.error.is_not_found() || failed.error.is_conflict() => {
                tracing::debug!(what, error = %failed.error, "decided again when the news is here");
                self.on_conflict();
            }
            Err(failed) => return Err(failed),
        }
        Ok(())
    }

    /// Requests a pass of the planner after a conflict: another writer changed an object meanwhile. The watch may have shown that
    /// before, or it may be no reason for a pass, as a changed status.
    fn on_conflict(&self) {
        self.shared.planner_wakeup.request_at(Instant::now() + RETRY_AFTER_CONFLICT);
    }

    /// Returns true if the patch makes a VIP name a virtual router that could not be made.
    fn names_what_is_missing(&self, patch: &Value) -> bool {
        let named = patch.pointer("/spec/virtualRouter").and_then(Value::as_str);
        named.is_some_and(|router| self.shared.state().stores.routers.get(router).is_none())
    }

    /// Returns true if a VIP that is to be announced still names the virtual router.
    fn is_named(&self, router: &str) -> bool {
        let state = self.shared.state();
        state.stores.vips.iter().any(|vip| {
            vip.metadata.deletion_timestamp.is_none()
                && vip.spec.quarantine.is_none()
                && vip.spec.virtual_router.as_deref() == Some(router)
        })
    }

    async fn delete_router(&self, router: &VirtualRouter) -> Result<(), CallFailed> {
        let name = router.name_any();
        if self.is_named(&name) {
            self.on_conflict();
            return Ok(());
        }
        // Only in the version the plan was made from.
        let preconditions = Preconditions { uid: router.uid(), resource_version: router.resource_version() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match call(self.routers.delete(&name, &params), || format!("delete VirtualRouter {name:?}")).await {
            Ok(_) => {
                tracing::info!(router = name, "virtual router removed: it carries no VIP");
                self.shared.forget(router);
            }
            Err(failed) if failed.error.is_not_found() => self.shared.forget(router),
            Err(failed) if failed.error.is_conflict() => self.on_conflict(),
            Err(failed) => return Err(failed),
        }
        Ok(())
    }
}
