//! Telling the cluster what this node is Active for. Never in the way of the engine: it reads the board and the copies
//! of the objects, and when the API server is away it waits and then says what is true by then.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Client, Error};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_api::{VirtualIP, VirtualRouter};
use windlass_ccm::lenient::Lenient;

use super::backoff::Backoff;
use super::board::Board;
use super::desired::{Assignment, Desired};
use super::news::Looks;
use super::pace::Pace;
use super::status::{Carried, Here, Job, Kind, Said, jobs, last_words};

/// Patches under way at the same time.
const AT_ONCE: usize = 8;
/// Objects looked at, and patches decided on, at once: among many thousands of news, what is told is never long behind.
const BATCH: usize = 512;
/// How many times as long as it took to decide on patches it is not done again.
const RESTS: u32 = 9;
/// How long the API server may take over one patch.
const PATCH_LIMIT: Duration = Duration::from_secs(5);
/// How much of the end of the process the last patches may take.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(700);

/// What is needed to report.
pub(crate) struct Reporter {
    pub(crate) client: Client,
    pub(crate) node: String,
    pub(crate) board: Arc<Board>,
    pub(crate) desired: watch::Receiver<Option<Arc<Desired>>>,
    pub(crate) routers: Store<VirtualRouter>,
    pub(crate) vips: Store<VirtualIP>,
}

/// What became of one patch.
enum Outcome {
    Done,
    /// The object changed meanwhile or is gone, or this node is no longer Active: nothing is owed.
    Moot,
    /// To be tried again.
    Failed(Job, String),
}

impl Reporter {
    /// Reports until `token` is cancelled.
    pub(crate) async fn run(&self, token: CancellationToken) {
        let said = Mutex::new(Said::default());
        let mut backoff = Backoff::new(&self.node);
        let mut complained = false;
        let mut pace = Pace::new(RESTS);
        let mut pending = Looks::default();
        loop {
            tokio::select! {
                () = pace.rest() => {}
                () = token.cancelled() => return,
            }
            let todo = pace.take(|| self.todo(&mut pending, &said));
            let mut failure = None;
            if !todo.is_empty() {
                let batch =
                    futures::stream::iter(todo).map(|job| self.perform(job, &said)).buffer_unordered(AT_ONCE);
                let results: Vec<Outcome> = tokio::select! {
                    results = batch.collect() => results,
                    () = token.cancelled() => return,
                };
                for outcome in results {
                    match outcome {
                        Outcome::Failed(job, reason) => {
                            pending.add(match job.kind {
                                Kind::VirtualRouter => Looks::router(job.name),
                                Kind::VirtualIP => Looks::vip(job.name),
                            });
                            failure.get_or_insert(reason);
                        }
                        Outcome::Done | Outcome::Moot => {}
                    }
                }
            }
            let wait = if let Some(error) = failure {
                if !std::mem::replace(&mut complained, true) {
                    tracing::warn!(%error, "cannot report to the API server what this node announces; trying again");
                }
                backoff.next()
            } else {
                complained = false;
                kube::runtime::utils::Backoff::reset(&mut backoff);
                None
            };
            if !pending.is_empty() && wait.is_none() {
                continue;
            }
            // After a failure only time helps; else the next news does, or that an address is believed to be taken.
            let now = Instant::now();
            let limit = wait.or_else(|| Some(self.board.next_belief(now)?.saturating_duration_since(now)));
            tokio::select! {
                () = tokio::time::sleep(limit.unwrap_or_default()), if limit.is_some() => {}
                () = self.board.changed.told(), if wait.is_none() => {}
                () = token.cancelled() => return,
            }
        }
    }

    /// What this node was Active for when it was asked to stop.
    pub(crate) fn parting(&self) -> Vec<Assignment> {
        let desired = self.desired.borrow().clone().unwrap_or_default();
        self.board.read(Instant::now(), |standings| {
            let carried = Carried::among(&desired.assignments, standings);
            carried.into_values().map(|carried| carried.assignment.clone()).collect()
        })
    }

    /// After the engine has resigned: says what nobody else will. One try, short: the process is asked to end.
    pub(crate) async fn say_last_words(&self, parting: &[Assignment]) {
        let todo = last_words(self.here(None), parting, &self.routers.state(), &self.vips.state());
        let batch = futures::stream::iter(todo).map(|job| async move { self.send(&job).await });
        let _ =
            tokio::time::timeout(LAST_WORDS_LIMIT, batch.buffer_unordered(AT_ONCE).collect::<Vec<_>>()).await;
    }

    fn here<'a>(&'a self, unguarded: Option<&'a str>) -> Here<'a> {
        Here { node: &self.node, now: Instant::now(), wall: Timestamp::now(), unguarded }
    }

    /// The patches of the next objects that are to be looked at.
    fn todo(&self, pending: &mut Looks, said: &Mutex<Said>) -> Vec<Job> {
        let unguarded = self.board.unguarded();
        let here = self.here(unguarded.as_deref());
        pending.add(self.board.changed.take());
        // That another station has an address is believed, and told, only after a while.
        pending.add(Looks::addresses(&self.board.taken()));
        if std::mem::take(&mut pending.all) {
            let name = |meta: &ObjectMeta| meta.name.clone();
            pending.routers = self.routers.state().iter().filter_map(|one| name(&one.metadata)).collect();
            pending.vips = self.vips.state().iter().filter_map(|one| name(&one.metadata)).collect();
        }
        let looks = pending.split(BATCH);
        let routers: Vec<_> =
            looks.routers.iter().filter_map(|name| self.routers.get(&ObjectRef::new(name))).collect();
        let vips: Vec<_> =
            looks.vips.iter().filter_map(|name| self.vips.get(&ObjectRef::new(name))).collect();
        let desired = self.desired.borrow();
        let none = Desired::default();
        let desired = desired.as_deref().unwrap_or(&none);
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        self.prune(&mut said);
        self.board.read(here.now, |standings| {
            let carried = Carried::among(&desired.assignments, standings);
            jobs(here, &carried, &desired.refused, &routers, &vips, &said, BATCH)
        })
    }

    fn prune(&self, said: &mut Said) {
        let count = self.routers.len() + self.vips.len();
        if said.is_large(count) {
            let (routers, vips) = (self.routers.state(), self.vips.state());
            let all =
                routers.iter().map(|router| &router.metadata).chain(vips.iter().map(|vip| &vip.metadata));
            said.prune(count, all.filter_map(|meta| meta.uid.as_deref()));
        }
    }

    async fn perform(&self, job: Job, said: &Mutex<Said>) -> Outcome {
        // The queue may be long and the server slow: old news is not told.
        if job.basis.as_ref().is_some_and(|(key, period)| !self.board.lasts(key, *period)) {
            return Outcome::Moot;
        }
        let result = tokio::time::timeout(PATCH_LIMIT, self.send(&job)).await;
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(Ok(())) => {
                said.accepted(&job);
                Outcome::Done
            }
            // The watch brings the newer version, or the deletion, and with it the next look.
            Ok(Err(Error::Api(status))) if status.code == 409 || status.code == 404 => {
                said.outdated(&job);
                Outcome::Moot
            }
            Ok(Err(error)) => Outcome::Failed(job, windlass_ccm::apiserver::describe(&error)),
            Err(_) => Outcome::Failed(job, format!("no answer within {} s", PATCH_LIMIT.as_secs())),
        }
    }

    async fn send(&self, job: &Job) -> Result<(), Error> {
        let params = PatchParams::default();
        let patch = Patch::Merge(&job.patch);
        match job.kind {
            Kind::VirtualRouter => {
                let api: Api<Lenient<VirtualRouter>> = Api::all(self.client.clone());
                api.patch_status(&job.name, &params, &patch).await.map(drop)
            }
            Kind::VirtualIP => {
                let api: Api<Lenient<VirtualIP>> = Api::all(self.client.clone());
                api.patch_status(&job.name, &params, &patch).await.map(drop)
            }
        }
    }
}
