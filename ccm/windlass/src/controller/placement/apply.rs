//! Makes the cluster what the plan says, and nothing else: what is as it should be is not written.
//!
//! One pass at a time. A write that meets a newer object fails by its precondition; the watch brings the news, and the
//! next pass decides again. A pass of which something failed is repeated with back-off, unless there is something new before.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_api::{ServiceRef, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_ccm::lenient::{Lenient, read, read_opt};

use super::pool_pace::PoolPace;
use super::replan::rest;
use super::writes::{Write, Writes};
use crate::controller::allocation::ownership::is_orphaned;
use crate::controller::allocation::request::is_object_name;
use crate::controller::provider::load_balancer::Provider;
use crate::controller::state::watched::Watched;
use crate::controller::stores::limited::limited;
use windlass_ccm::app::root_cause;

/// How long after its end an object in quarantine is deleted.
const QUARANTINE_SLACK: Duration = Duration::from_millis(100);
/// When the news of what overtook a write has come, unless a watch is interrupted.
const NEWS_ARE_HERE: Duration = Duration::from_secs(2);
/// Writes in flight at the same time.
const PARALLEL: usize = 8;
/// Pause after a failed pass, doubled with each further one up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The planner's hands.
pub(crate) struct Applier {
    provider: Arc<Provider>,
    pools: Api<Lenient<VirtualIPPool>>,
    vips: Api<Lenient<VirtualIP>>,
    routers: Api<Lenient<VirtualRouter>>,
    client: Client,
}

/// What a pass was like.
struct Pass {
    /// How long it took to decide, in which nobody else could.
    planning: Duration,
    failures: Vec<Failure>,
}

/// A call that did not do what it should, in words for the log.
type Failure = String;

impl Applier {
    /// An applier; nothing happens until [`Applier::run`].
    pub(crate) fn new(client: Client, provider: Arc<Provider>) -> Self {
        Self {
            provider,
            pools: Api::all(client.clone()),
            vips: Api::all(client.clone()),
            routers: Api::all(client.clone()),
            client,
        }
    }

    /// Plans and applies whenever something changed, until `token` is cancelled.
    pub(crate) async fn run(self, token: CancellationToken) {
        let mut pause = FIRST_PAUSE;
        let mut rested = Instant::now();
        let mut pools = PoolPace::default();
        let mut retry: Option<Instant> = None;
        loop {
            // What failed is not waited for by what is new: one object that cannot be written holds up no other.
            tokio::select! {
                () = token.cancelled() => return,
                () = self.provider.shared.replan.due_after(rested) => {}
                () = self.quarantine_ends(), if retry.is_none() => {}
                () = sleep_until(retry.unwrap_or(rested)), if retry.is_some() => {}
            }
            let Pass { planning, failures } = tokio::select! {
                () = token.cancelled() => return,
                pass = self.pass(&mut pools) => pass,
            };
            rested = rest(Instant::now(), planning);
            let Some(first) = failures.first() else {
                (pause, retry) = (FIRST_PAUSE, None);
                continue;
            };
            self.provider.shared.state().dirty.everything();
            tracing::warn!(failed = failures.len(), error = %first, retry_in = ?pause, "not everything was written");
            let now = Instant::now();
            (rested, retry) = (rested.max(now + FIRST_PAUSE), Some(now + pause));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn pass(&self, pools: &mut PoolPace) -> Pass {
        let woken = {
            let mut state = self.provider.shared.state();
            if state.ready { state.review_pools().1 } else { Vec::new() }
        };
        self.provider.shared.changes.push(woken);
        let mut failures = self.provider.serve_external().await;
        failures.extend(self.remove_orphans().await);
        failures.extend(self.end_quarantines().await);
        let began = Instant::now();
        let mut writes = {
            let mut state = self.provider.shared.state();
            if !state.ready {
                return Pass { planning: Duration::ZERO, failures };
            }
            let (reviewed, now) = (state.reviewed(), state.clock.now());
            Writes::new(&mut state, &reviewed, now)
        };
        let planning = began.elapsed();
        if let Some(due) = writes.hold_back(pools, Instant::now()) {
            self.provider.shared.replan.ask_at(due);
        }
        // Routers before the VIPs that name them; those that carry nothing any more go last.
        for stage in writes.stages() {
            let results: Vec<_> =
                stream::iter(stage).map(|write| self.write(write)).buffer_unordered(PARALLEL).collect().await;
            failures.extend(results.into_iter().filter_map(Result::err));
        }
        Pass { planning, failures }
    }

    async fn write(&self, write: Write) -> Result<(), Failure> {
        match write {
            Write::CreateRouter(router) => {
                tracing::info!(
                    router = router.name_any(),
                    vrid = router.spec.vrid,
                    "making a virtual router"
                );
                let what = format!("create VirtualRouter {:?}", router.name_any());
                // If another controller was faster, the watch will show it.
                self.learn(&what, self.routers.create(&PostParams::default(), &Lenient::new(*router))).await
            }
            Write::Router { name, patch } => {
                let what = format!("change VirtualRouter {name:?}");
                self.learn(&what, self.routers.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)))
                    .await
            }
            Write::Vip { name, patch } => {
                let what = format!("change VirtualIP {name:?}");
                self.learn(&what, self.vips.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)))
                    .await
            }
            Write::VipStatus { name, patch } => {
                let what = format!("change the status of VirtualIP {name:?}");
                let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
                self.learn(&what, self.vips.patch_status(&name, &params, &patch)).await
            }
            Write::PoolStatus { name, patch, counts_only: _ } => {
                let what = format!("change the status of VirtualIPPool {name:?}");
                let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
                self.learn(&what, self.pools.patch_status(&name, &params, &patch)).await
            }
            Write::DeleteRouter(router) => self.delete_router(&router).await,
        }
    }

    /// Makes a call and takes in its answer. What changed or vanished meanwhile is no failure: its news is on its way.
    async fn learn<K: Watched>(
        &self,
        what: &str,
        call: impl Future<Output = Result<Lenient<K>, kube::Error>>,
    ) -> Result<(), Failure> {
        match limited(read(call), || format!("cannot {what}")).await? {
            Ok(object) => {
                self.provider.shared.learn(object);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {
                tracing::debug!(what, reason = status.reason, "decided again when the news is here");
                self.overtaken();
                Ok(())
            }
            Err(error) => Err(format!("cannot {what}: {}", root_cause(&error))),
        }
    }

    /// Somebody changed an object meanwhile. The news may be here before, or be one that is no reason for a pass, as that of
    /// a status.
    fn overtaken(&self) {
        self.provider.shared.state().dirty.everything();
        self.provider.shared.replan.ask_at(Instant::now() + NEWS_ARE_HERE);
    }

    async fn delete_router(&self, router: &VirtualRouter) -> Result<(), Failure> {
        let name = router.name_any();
        let what = format!("delete VirtualRouter {name:?}");
        // Only in the version the plan was made from.
        let preconditions = Preconditions { uid: router.uid(), resource_version: router.resource_version() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match limited(self.routers.delete(&name, &params), || format!("cannot {what}")).await? {
            Ok(_) => {
                tracing::info!(router = name, "virtual router removed: it carries no VIP");
                self.provider.shared.forget(router);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.provider.shared.forget(router);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.overtaken();
                Ok(())
            }
            Err(error) => Err(format!("cannot {what}: {}", root_cause(&error))),
        }
    }

    /// Withdraws addresses whose Service is gone, was made anew, or is no LoadBalancer any more, and that nobody
    /// withdrew: the controller was away, or the finalizer was removed by hand. The Service is read from the API
    /// server first, because the watch of Services may lag behind.
    async fn remove_orphans(&self) -> Vec<Failure> {
        let suspects = {
            let mut state = self.provider.shared.state();
            if state.ready { state.take_suspects() } else { return Vec::new() }
        };
        let mut failures = Vec::new();
        for owner in suspects {
            if let Err(failure) = self.remove_orphan(&owner).await {
                failures.push(failure);
                self.provider.shared.state().suspects.insert(owner);
            }
        }
        failures
    }

    async fn remove_orphan(&self, owner: &ServiceRef) -> Result<(), Failure> {
        let found = self.read_service(owner).await?;
        if !is_orphaned(owner, found.as_ref(), self.provider.settings) {
            return Ok(());
        }
        let orphans = {
            let state = self.provider.shared.state();
            let mut held = state.to_withdraw(owner);
            held.retain(|address| !state.wants_besides(owner, found.as_ref(), *address));
            held
        };
        if orphans.is_empty() {
            return Ok(());
        }
        tracing::info!(
            service = %owner,
            addresses = ?orphans,
            "its Service is gone or wants no address: withdrawing it"
        );
        for address in orphans {
            self.provider.withdraw(owner, address).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn read_service(&self, owner: &ServiceRef) -> Result<Option<Service>, Failure> {
        // A hand may have written anything there: what cannot be a name is no Service's, and no path either.
        if !is_object_name(&owner.namespace) || !is_object_name(&owner.name) {
            return Ok(None);
        }
        let api: Api<Lenient<Service>> = Api::namespaced(self.client.clone(), &owner.namespace);
        let what = format!("cannot read Service {owner}");
        let found = limited(read_opt(api.get_opt(&owner.name)), || what.clone()).await?;
        found.map_err(|error| format!("{what}: {}", root_cause(&error)))
    }

    /// Returns when the next quarantine ends, or looks again after a while.
    async fn quarantine_ends(&self) {
        let wait = {
            let state = self.provider.shared.state();
            state.ledger.next_due().map(|due| due.duration_since(state.clock.now()))
        };
        match wait {
            None => std::future::pending().await,
            // A little later: it has ended then, and an object that was changed meanwhile is not asked for over and over.
            Some(wait) => {
                tokio::time::sleep(Duration::try_from(wait).unwrap_or_default() + QUARANTINE_SLACK).await;
            }
        }
    }

    /// Frees the addresses that were kept back long enough.
    async fn end_quarantines(&self) -> Vec<Failure> {
        let due = {
            let state = self.provider.shared.state();
            if !state.ready {
                return Vec::new();
            }
            state.ledger.due(state.clock.now())
        };
        let mut failures = Vec::new();
        for (address, object) in due {
            if let Err(error) = self.provider.end_quarantine(address, &object).await {
                failures.push(error.to_string());
            }
        }
        failures
    }
}
