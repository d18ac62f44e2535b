//! Reports to the cluster what this node is Active for. It never blocks the engine: it reads the state of the engine and the copies of the
//! objects. While the API server is unavailable it waits, and then reports the state by then.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_api::{VirtualIP, VirtualRouter};
use windlass_ccm::apiserver::call_within;
use windlass_ccm::lenient::Lenient;
use windlass_ccm::store::Informer;
use windlass_common::strict;
use windlass_engine::RouterKey;

use super::admission::Unguarded;
use super::backoff::backoff;
use super::changes::Changed;
use super::desired::{Assignment, Desired};
use super::engine_state::EngineState;
use super::replication::Finding;
use super::sharing::finding::SharingState;
use super::status::{ActiveRouter, Kind, NodeContext, Reported, StatusPatch, patches, shutdown_patches};
use super::throttle::Throttle;

/// Largest number of concurrent patches.
const AT_ONCE: usize = 8;
/// Largest number of objects examined, and of patches decided on, in one round: among many thousands of updates no report is long out of
/// date.
const BATCH: usize = 512;
/// Pause factor: after a decision on patches that took `t`, the next one waits at least `IDLE_FACTOR * t`, or the limit of [`Throttle`] if
/// that is less.
const IDLE_FACTOR: u32 = 9;
/// Interval between looks at all objects, independent of events.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Timeout of one patch.
const PATCH_LIMIT: Duration = Duration::from_secs(5);
/// Timeout of the last patches, at the end of the process.
const SHUTDOWN_REPORT_LIMIT: Duration = Duration::from_millis(700);

/// Inputs of the reporter.
pub(crate) struct Reporter {
    pub(crate) client: Client,
    pub(crate) node: String,
    pub(crate) engine_state: Arc<EngineState>,
    pub(crate) desired: watch::Receiver<Option<Arc<Desired>>>,
    pub(crate) routers: Informer<VirtualRouter>,
    pub(crate) vips: Informer<VirtualIP>,
    /// True once the log has a warning that the definitions are older than this agent.
    pub(crate) older_definitions: AtomicBool,
}

/// Result of one patch.
enum Outcome {
    Done,
    /// The object changed meanwhile or is gone, or this node is no longer Active: no patch is needed.
    NotNeeded,
    /// To be retried.
    Failed(StatusPatch, String),
}

impl Reporter {
    /// Reports until `token` is cancelled.
    pub(crate) async fn run(&self, token: &CancellationToken) {
        let reported = Mutex::new(Reported::default());
        let (backoff, mut failures) = (backoff(&self.node), 0);
        let mut throttle = Throttle::new(IDLE_FACTOR);
        let mut pending = Changed::default();
        let mut look_again = Instant::now() + LOOK_AGAIN;
        loop {
            tokio::select! {
                () = throttle.ready() => {}
                () = token.cancelled() => return,
            }
            if look_again <= Instant::now() {
                look_again = Instant::now() + LOOK_AGAIN;
                pending.add(Changed::all());
            }
            let todo = throttle.run(|| self.todo(&mut pending, &reported));
            let mut failure = None;
            if !todo.is_empty() {
                let batch = futures::stream::iter(todo)
                    .map(|patch| self.perform(patch, &reported))
                    .buffer_unordered(AT_ONCE);
                let results: Vec<Outcome> = tokio::select! {
                    results = batch.collect() => results,
                    () = token.cancelled() => return,
                };
                for outcome in results {
                    match outcome {
                        Outcome::Failed(patch, reason) => {
                            pending.add(match patch.kind {
                                Kind::VirtualRouter => Changed::router(patch.name),
                                Kind::VirtualIP => Changed::vip(patch.name),
                            });
                            failure.get_or_insert(reason);
                        }
                        Outcome::Done | Outcome::NotNeeded => {}
                    }
                }
            }
            let wait = if let Some(error) = failure {
                if failures == 0 {
                    tracing::warn!(%error, "cannot report to the API server what this node announces; trying again");
                }
                failures += 1;
                Some(backoff.delay(failures))
            } else {
                failures = 0;
                None
            };
            if !pending.is_empty() && wait.is_none() {
                continue;
            }
            // After a failure only time helps. Otherwise the next look follows an event, the confirmation that an address is taken, or the
            // end of the time for which another node's status stands.
            let now = Instant::now();
            let due = self.engine_state.next_confirmation(now).map_or(look_again, |at| at.min(look_again));
            let limit = wait.unwrap_or_else(|| due.saturating_duration_since(now));
            tokio::select! {
                () = tokio::time::sleep(limit) => {}
                () = self.engine_state.to_report.changed(), if wait.is_none() => {}
                () = token.cancelled() => return,
            }
        }
    }

    /// Returns the assignments that this node is Active for, at the request to stop.
    pub(crate) fn active_assignments(&self) -> Vec<Assignment> {
        let desired = self.desired.borrow().clone().unwrap_or_default();
        self.engine_state.read(Instant::now(), |activities| {
            let active = ActiveRouter::among(&desired.assignments, activities);
            active.into_values().map(|active| active.assignment.clone()).collect()
        })
    }

    /// Reports, after the engine has resigned, what no other node will report. Makes one short attempt: the process is about to end.
    pub(crate) async fn report_shutdown(&self, was_active: &[Assignment]) {
        let todo = shutdown_patches(
            self.context(&Unguarded::default(), &BTreeMap::new(), &SharingState::default()),
            was_active,
            &self.routers.list(),
            &self.vips.list(),
        );
        let batch = futures::stream::iter(todo).map(|patch| async move { self.send(&patch).await });
        let _ =
            tokio::time::timeout(SHUTDOWN_REPORT_LIMIT, batch.buffer_unordered(AT_ONCE).collect::<Vec<_>>())
                .await;
    }

    fn context<'a>(
        &'a self,
        unguarded: &'a Unguarded,
        connections: &'a BTreeMap<RouterKey, Finding>,
        sharing: &'a SharingState,
    ) -> NodeContext<'a> {
        let (now, wall) = (Instant::now(), Timestamp::now());
        NodeContext { node: &self.node, now, wall, unguarded, connections, sharing }
    }

    /// Returns the patches of the next objects to examine.
    fn todo(&self, pending: &mut Changed, reported: &Mutex<Reported>) -> Vec<StatusPatch> {
        let (unguarded, connections) = (self.engine_state.unguarded(), self.engine_state.connections());
        let sharing = self.engine_state.sharing();
        let context = self.context(&unguarded, &connections, &sharing);
        pending.add(self.engine_state.to_report.take());
        // An address that another host has is confirmed, and reported, only after a while.
        pending.add(Changed::addresses(&self.engine_state.taken()));
        if std::mem::take(&mut pending.all) {
            let name = |meta: &ObjectMeta| meta.name.clone();
            pending.routers = self.routers.list().iter().filter_map(|one| name(&one.metadata)).collect();
            pending.vips = self.vips.list().iter().filter_map(|one| name(&one.metadata)).collect();
        }
        let changed = pending.split(BATCH);
        let routers: Vec<_> = changed.routers.iter().filter_map(|name| self.routers.get(name)).collect();
        let vips: Vec<_> = changed.vips.iter().filter_map(|name| self.vips.get(name)).collect();
        let desired = self.desired.borrow();
        let none = Desired::default();
        let desired = desired.as_deref().unwrap_or(&none);
        let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
        self.prune(&mut reported);
        self.engine_state.read(context.now, |activities| {
            let active = ActiveRouter::among(&desired.assignments, activities);
            patches(context, &active, &desired.refused, &routers, &vips, &reported, BATCH)
        })
    }

    fn prune(&self, reported: &mut Reported) {
        let count = self.routers.count() + self.vips.count();
        if reported.is_large(count) {
            let (routers, vips) = (self.routers.list(), self.vips.list());
            let all =
                routers.iter().map(|router| &router.metadata).chain(vips.iter().map(|vip| &vip.metadata));
            reported.prune(count, all.filter_map(|meta| meta.uid.as_deref()));
        }
    }

    async fn perform(&self, patch: StatusPatch, reported: &Mutex<Reported>) -> Outcome {
        // The queue may be long and the server slow: outdated updates are not reported.
        if patch.basis.as_ref().is_some_and(|(key, period)| !self.engine_state.lasts(key, *period)) {
            return Outcome::NotNeeded;
        }
        let result = call_within(PATCH_LIMIT, self.send(&patch)).await;
        let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(()) => {
                reported.accepted(&patch, Instant::now());
                Outcome::Done
            }
            // The watch brings the newer version, or the deletion, and with it the next look.
            Err(error) if error.is_conflict() || error.is_not_found() => {
                reported.outdated(&patch);
                Outcome::NotNeeded
            }
            Err(error) => Outcome::Failed(patch, error.to_string()),
        }
    }

    /// Sends a patch. A status restricts no client, so it is sent even if the definitions are too old for a part of it.
    async fn send(&self, patch: &StatusPatch) -> Result<(), Error> {
        match self.send_with(&strict::params(), patch).await {
            Err(error) if strict::is_for_unknown_field(&error.to_string()) => {
                if !self.older_definitions.swap(true, Ordering::Relaxed) {
                    let remedy = strict::remedy(&error.to_string());
                    tracing::warn!(
                        "what the API server does not know of a status is left out: {error}{remedy}"
                    );
                }
                self.send_with(&PatchParams::default(), patch).await
            }
            result => result,
        }
    }

    async fn send_with(&self, params: &PatchParams, patch: &StatusPatch) -> Result<(), Error> {
        let body = Patch::Merge(&patch.body);
        match patch.kind {
            Kind::VirtualRouter => {
                let api: Api<Lenient<VirtualRouter>> = Api::all(self.client.clone());
                api.patch_status(&patch.name, params, &body).await.map(drop)
            }
            Kind::VirtualIP => {
                let api: Api<Lenient<VirtualIP>> = Api::all(self.client.clone());
                api.patch_status(&patch.name, params, &body).await.map(drop)
            }
        }
    }
}
