//! Leader election on a Lease (service-contract S-61).
//!
//! One task per process: it tries to get the lease, then runs what only the leader may run and renews the lease beside
//! it. What runs gets a token that is cancelled the moment the lease can no longer be vouched for.

mod decide;
mod lease_health;
mod program;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use kube::{Client, Resource as _};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

pub use decide::{Decision, Observed, decide};
pub use lease_health::LeaseHealth;
pub use program::program;

use self::decide::{LONGEST_PROMISE, shown};
use crate::apiserver::{self, describe};
use crate::events::{EventType, Recorder};
use crate::lenient::{Lenient, read, read_opt};
use crate::metrics::ElectionMetrics;

/// Options of a candidate for leader.
#[derive(Debug, Clone)]
pub struct ElectionOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Identity of this candidate; must be unique among all, as `<hostname>_<uuid>`.
    pub identity: String,
    /// Time for which other candidates respect a holder that has stopped renewing.
    pub lease_duration: Duration,
    /// Longest time that the leader continues without a successful renewal. Must be shorter than `lease_duration`, and than the hour for
    /// which other candidates respect any holder at most.
    pub renew_deadline: Duration,
    /// Time between two attempts to acquire or renew. Must be shorter than `renew_deadline`.
    pub retry_period: Duration,
}

impl ElectionOptions {
    /// Kubernetes' own values: `kube-system/cloud-controller-manager`, 15 s, 10 s, 2 s.
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            name: "cloud-controller-manager".to_owned(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ElectionError> {
        let bad = |reason: String| Err(ElectionError::Options(reason));
        if self.identity.is_empty() {
            return bad(
                "the identity is empty; give each candidate a unique one, as <hostname>_<uuid>".to_owned()
            );
        }
        if self.renew_deadline >= self.lease_duration {
            return bad(format!(
                "renew deadline {:?} is not shorter than lease duration {:?}: two leaders could be active at once; \
                 shorten the deadline",
                self.renew_deadline, self.lease_duration
            ));
        }
        if self.renew_deadline >= LONGEST_PROMISE {
            return bad(format!(
                "renew deadline {:?} is not shorter than an hour, the longest time that a candidate waits \
                 for a silent leader; shorten it",
                self.renew_deadline
            ));
        }
        if self.retry_period >= self.renew_deadline || self.retry_period.is_zero() {
            return bad(format!(
                "retry period {:?} is not between 0 and renew deadline {:?}; shorten it",
                self.retry_period, self.renew_deadline
            ));
        }
        if self.lease_duration < Duration::from_secs(1) {
            return bad(format!(
                "lease duration {:?} is shorter than one second, the unit of Lease.spec.leaseDurationSeconds",
                self.lease_duration
            ));
        }
        Ok(())
    }
}

/// Reason that the election failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElectionError {
    /// The options contradict each other.
    #[error("leader election cannot start: {0}")]
    Options(String),
    /// The lease was lost: the process must exit, so that no part of it continues as if it led (S-61).
    #[error("leaderelection lost: lease {lease} {reason}")]
    Lost {
        /// `namespace/name`.
        lease: String,
        /// Reason that the lease was lost.
        reason: String,
    },
}

/// Runs for leader on one Lease.
#[derive(Clone)]
pub struct Elector {
    client: Client,
    options: ElectionOptions,
    program: Option<&'static str>,
    metrics: Option<ElectionMetrics>,
    lease_health: LeaseHealth,
}

/// Outcome of one attempt to acquire or renew.
#[derive(Debug, PartialEq)]
enum Attempt {
    /// The lease is ours as of the moment the attempt began.
    Held,
    /// Another candidate holds it; the names are fit to be shown.
    HeldBy {
        holder: String,
        /// The program that renewed it, if that is known and not ours.
        foreign: Option<String>,
    },
}

impl Elector {
    /// An elector; nothing happens until [`Elector::run`]. `client` is best one that keeps no dead connections beside the one in use
    /// ([`crate::client::election_client`]).
    pub fn new(client: Client, options: ElectionOptions) -> Self {
        Self { client, options, program: None, metrics: None, lease_health: LeaseHealth::default() }
    }

    /// Returns the state of this candidate's lease, for a health check: whether and since when it leads.
    pub fn lease_health(&self) -> LeaseHealth {
        self.lease_health.clone()
    }

    /// Sets the name of this program. The API server records it as the writer of the lease (its field manager), and a candidate that waits
    /// for a lease of another program reports that.
    #[must_use]
    pub fn with_program(mut self, name: &'static str) -> Self {
        self.program = Some(name);
        self
    }

    /// Reports `leader_election_master_status` there.
    #[must_use]
    pub fn with_metrics(mut self, metrics: ElectionMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Waits until this candidate leads, runs `on_leading`, and renews the lease until that ends.
    ///
    /// - `token` cancelled: `on_leading`'s token is cancelled, its end awaited, the lease released, `Ok(None)` or
    ///   `Ok(Some(output))` returned.
    /// - `on_leading` ends by itself: the lease is released and its output returned.
    /// - the lease is lost: `on_leading` is dropped and [`ElectionError::Lost`] returned. It is dropped before others
    ///   may lead, `lease_duration - renew_deadline` after the last successful renewal at the latest.
    pub async fn run<F, Fut>(
        &self,
        token: CancellationToken,
        on_leading: F,
    ) -> Result<Option<Fut::Output>, ElectionError>
    where
        F: FnOnce(CancellationToken) -> Fut,
        Fut: Future,
    {
        self.options.check()?;
        let mut candidate = Candidate::new(self);
        tokio::select! {
            () = token.cancelled() => return Ok(None),
            () = candidate.acquire() => {}
        }
        self.set_master(true);
        let child = token.child_token();
        let lost = {
            let mut work = pin!(on_leading(child.clone()));
            let mut renewing = pin!(candidate.renew_until_lost());
            tokio::select! {
                output = &mut work => Ok(output),
                reason = &mut renewing => Err(reason),
            }
        };
        self.set_master(false);
        self.lease_health.ended();
        match lost {
            Ok(output) => {
                candidate.publish_event("stopped leading").await;
                candidate.release().await;
                Ok(Some(output))
            }
            Err(reason) => {
                child.cancel();
                candidate.publish_event("stopped leading").await;
                Err(ElectionError::Lost {
                    lease: format!("{}/{}", self.options.namespace, self.options.name),
                    reason,
                })
            }
        }
    }

    fn set_master(&self, leading: bool) {
        if let Some(metrics) = &self.metrics {
            metrics.set_master(leading);
        }
    }
}

/// The state of one run.
struct Candidate<'a> {
    api: Api<Lenient<Lease>>,
    options: &'a ElectionOptions,
    observed: Option<Observed>,
    /// The rest of the Lease object, kept as it is.
    metadata: ObjectMeta,
    program: Option<&'static str>,
    /// The program that renewed the lease as it was read, if that is known and not ours.
    foreign: Option<String>,
    /// Start of the last attempt that acquired or renewed the lease.
    held_since: Instant,
    /// The lease was ours then.
    leads: bool,
    metrics: Option<&'a ElectionMetrics>,
    lease_health: &'a LeaseHealth,
    recorder: Recorder,
}

impl<'a> Candidate<'a> {
    fn new(elector: &'a Elector) -> Self {
        let Elector { client, options, program, metrics, lease_health } = elector;
        Self {
            api: Api::namespaced(client.clone(), &options.namespace),
            options,
            observed: None,
            metadata: fresh(options),
            program: *program,
            foreign: None,
            held_since: Instant::now(),
            leads: false,
            metrics: metrics.as_ref(),
            lease_health,
            recorder: Recorder::new(client.clone(), &options.identity),
        }
    }

    /// Returns when the lease is ours.
    async fn acquire(&mut self) {
        let mut last_seen = None;
        loop {
            // One hanging request must not outlast the chance to try again; client-go takes the same limit.
            match timeout(self.options.renew_deadline / 2, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => {
                    tracing::info!(lease = %self.lease(), identity = %self.options.identity, "leading");
                    return;
                }
                Ok(Ok(Attempt::HeldBy { holder, foreign })) => {
                    let told = foreign.map(|program| self.about_foreign(&holder, &program));
                    if last_seen.as_ref() != Some(&(holder.clone(), told.clone())) {
                        match &told {
                            Some(told) => tracing::warn!("waiting: {told}"),
                            None => {
                                tracing::info!(lease = %self.lease(), %holder, "waiting: another candidate leads");
                            }
                        }
                        last_seen = Some((holder, told.clone()));
                    }
                    self.lease_health.waits(told);
                }
                Ok(Err(error)) => tracing::warn!(
                    lease = %self.lease(), error = %describe(&error), "cannot acquire the lease, trying again"
                ),
                Err(_) => tracing::warn!(
                    lease = %self.lease(), "no answer from the API server about the lease, trying again"
                ),
            }
            sleep(self.options.retry_period).await;
        }
    }

    /// Renews until that fails for the renew deadline or another candidate holds the lease; returns the reason.
    async fn renew_until_lost(&mut self) -> String {
        self.publish_event("became leader").await;
        let (mut began, mut failure) = (self.held_since, None);
        loop {
            let deadline = self.held_since + self.options.renew_deadline;
            // Counted from when the last attempt began: one that was not answered has waited long enough.
            sleep_until((began + self.options.retry_period).min(deadline)).await;
            began = Instant::now();
            if began >= deadline {
                let failure = failure.unwrap_or_else(|| "this process did not get to run".to_owned());
                return format!("was not renewed for {:?}: {failure}", self.options.renew_deadline);
            }
            // One that is not answered leaves time for another, of another API server where they have one address.
            let left = deadline - began;
            let limit = (left / 2).max(left.min(self.options.retry_period / 2));
            let reason = match timeout(limit, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => {
                    failure = None;
                    continue;
                }
                Ok(Ok(Attempt::HeldBy { holder, .. })) => return format!("is held by {holder} now"),
                Ok(Err(error)) => describe(&error),
                Err(_) => "no answer from the API server".to_owned(),
            };
            tracing::warn!(lease = %self.lease(), error = %reason, "cannot renew the lease, trying again");
            failure = Some(reason);
        }
    }

    /// Renews the lease as it was written last, without reading it, as client-go does: the version reveals any other write since. Else
    /// reads it, decides and writes.
    async fn attempt(&mut self) -> Result<Attempt, kube::Error> {
        let began = Instant::now();
        if self.leads && began.saturating_duration_since(self.held_since) < self.options.lease_duration {
            match self.renew().await {
                Ok(written) => {
                    self.hold(written, began);
                    return Ok(Attempt::Held);
                }
                Err(error) => tracing::debug!(
                    lease = %self.lease(), error = %describe(&error), "not renewed as it was, reading it"
                ),
            }
        }
        let found = read_opt(self.api.get_opt(&self.options.name)).await?;
        self.observe(found);
        let decision = decide(
            &self.options.identity,
            self.observed.as_ref(),
            Instant::now(),
            self.options.lease_duration,
        );
        let written = match decision {
            Decision::Wait { .. } => {
                let holder = self.observed.as_ref().and_then(Observed::holder).map(shown).unwrap_or_default();
                return Ok(Attempt::HeldBy { holder, foreign: self.foreign.clone() });
            }
            Decision::Create => {
                let lease = self.lease_to_write(self.spec(Timestamp::now(), 0));
                read(self.api.create(&self.params(), &lease)).await
            }
            Decision::Acquire { transitions } => {
                let lease = self.lease_to_write(self.spec(Timestamp::now(), transitions));
                read(self.api.replace(&self.options.name, &self.params(), &lease)).await
            }
            Decision::Renew => {
                if let Some(metrics) = self.metrics.filter(|_| self.leads) {
                    metrics.count_slow_path();
                }
                self.renew().await
            }
        };
        // A conflict is an error here like any other: the next attempt reads the newer record.
        self.hold(written?, began);
        Ok(Attempt::Held)
    }

    /// Writes the lease as it is known, with the present time.
    async fn renew(&self) -> Result<Lease, kube::Error> {
        let mut spec = self.observed.as_ref().map(|known| known.spec.clone()).unwrap_or_default();
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        spec.lease_duration_seconds = Some(self.duration_seconds());
        let lease = self.lease_to_write(spec);
        read(self.api.replace(&self.options.name, &self.params(), &lease)).await
    }

    /// The lease is ours, by an attempt that began at `since`.
    fn hold(&mut self, written: Lease, since: Instant) {
        self.observe(Some(written));
        self.held_since = since;
        self.lease_health.renewed(since);
        self.leads = true;
    }

    /// Gives the lease up so that another candidate need not wait for it to run out.
    async fn release(&mut self) {
        let Some(observed) = self.observed.as_ref() else { return };
        let mut spec = observed.spec.clone();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        let lease = self.lease_to_write(spec);
        let params = self.params();
        let release = self.api.replace(&self.options.name, &params, &lease);
        match timeout(self.options.retry_period, release).await {
            Ok(Ok(_)) => tracing::info!(lease = %self.lease(), "lease released"),
            Ok(Err(error)) => tracing::warn!(
                lease = %self.lease(), error = %describe(&error), "lease not released, it runs out by itself"
            ),
            Err(_) => {
                tracing::warn!(lease = %self.lease(), "lease not released in time, it runs out by itself");
            }
        }
    }

    /// The lease event of client-go: `<identity> became leader`.
    async fn publish_event(&self, what: &str) {
        let Some(observed) = self.observed.as_ref() else { return };
        let lease = self.lease_to_write(observed.spec.clone());
        let message = format!("{} {what}", self.options.identity);
        let object = lease.object_ref(&());
        let publishing = self.recorder.publish(&object, EventType::Normal, "LeaderElection", &message);
        if let Ok(Err(error)) = timeout(apiserver::EVENT_TIMEOUT, publishing).await {
            tracing::debug!(lease = %self.lease(), error = %describe(&error), "event not written");
        }
    }

    fn observe(&mut self, lease: Option<Lease>) {
        let now = Instant::now();
        // One that was deleted is made anew without what others had written on it: their finalizers would be left for good.
        self.metadata = fresh(self.options);
        self.foreign = None;
        self.observed = lease.map(|lease| {
            let own = self.program.unwrap_or_default();
            self.foreign = program(&lease.metadata).filter(|name| !own.is_empty() && *name != own).map(shown);
            self.metadata = ObjectMeta { managed_fields: None, ..lease.metadata };
            Observed::next(self.observed.as_ref(), lease.spec.unwrap_or_default(), now)
        });
    }

    fn spec(&self, now: Timestamp, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.options.identity.clone()),
            lease_duration_seconds: Some(self.duration_seconds()),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// Rounded up: others must not respect this holder for less time than it leads.
    fn duration_seconds(&self) -> i32 {
        let duration = self.options.lease_duration;
        let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }

    /// With the resourceVersion that was read: nobody's write is overwritten unseen.
    fn lease_to_write(&self, spec: LeaseSpec) -> Lenient<Lease> {
        Lenient::new(Lease { metadata: self.metadata.clone(), spec: Some(spec) })
    }

    fn params(&self) -> PostParams {
        PostParams { field_manager: self.program.map(str::to_owned), ..PostParams::default() }
    }

    /// Returns the message for the admin about a holder that is another program.
    fn about_foreign(&self, holder: &str, program: &str) -> String {
        format!(
            "lease {} is held by {holder}, which is the program {program}: this process does nothing until \
             that program exits. Remove the other cloud-controller-manager, or run other controllers here \
             with another lease (--controllers, --leader-elect-resource-name)",
            self.lease()
        )
    }

    fn lease(&self) -> String {
        format!("{}/{}", self.options.namespace, self.options.name)
    }
}

/// The metadata of a lease that is not there yet.
fn fresh(options: &ElectionOptions) -> ObjectMeta {
    ObjectMeta {
        name: Some(options.name.clone()),
        namespace: Some(options.namespace.clone()),
        ..ObjectMeta::default()
    }
}
