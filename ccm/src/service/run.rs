//! The loop of the service controller: changes in, jobs out. One task holds all state, so there is nothing to lock;
//! jobs run concurrently within it and end with it.

use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::jobs::{FailureKind, Job, JobQueue, JobReport, PolicyOf, ProviderPolicy, Task};
use super::sync::Context;
use crate::events::{Recorder, run_with_events};
use crate::metrics::QueueGauges;
use crate::provider::LoadBalancer;
use crate::service::ServiceController;
use crate::store::Informers;

impl<P: LoadBalancer> ServiceController<P> {
    /// Runs until `token` is cancelled. Jobs that are under way then are dropped at their next await: what they did is
    /// done again, idempotently, by the next leader.
    pub async fn run(self, token: CancellationToken) {
        let recorder = Recorder::new(self.client.clone(), &self.options.component);
        let gauges = self.metrics.queues.of("service");
        let _running = self.metrics.running.started("service");
        let Self { client, informers, provider, options, metrics } = self;
        run_with_events(recorder, token, |events| async move {
            reconcile(&Context { client, provider, options, events, metrics }, &informers, gauges).await;
        })
        .await;
    }
}

async fn reconcile<P: LoadBalancer>(context: &Context<P>, informers: &Informers, gauges: QueueGauges) {
    let policy = PolicyOf(&*context.provider);
    let (services, mut service_changes) = informers.services().subscribe();
    let (nodes, mut node_changes) = informers.nodes().subscribe();
    let mut jobs = JobQueue::new(services, nodes, context.options.clone(), policy, gauges);
    let mut changes = context.provider.changes();
    let mut changes_ended = false;
    let mut running = FuturesUnordered::new();
    let workers = context.options.workers.max(1);
    loop {
        while running.len() < workers {
            let Some(job) = jobs.next_job(Instant::now()) else { break };
            running.push(async move {
                let report = context.execute(&job).await;
                (job, report)
            });
        }
        if let Some(took) = jobs.fan_out_took() {
            context.metrics.service.node_sync_seconds.observe(took.as_secs_f64());
        }
        let due = jobs.next_due(running.len() < workers);
        tokio::select! {
            Some((job, report)) = running.next() => {
                finish(context, &mut jobs, &job, report);
            }
            those = service_changes.next() => jobs.services_changed(&those, Instant::now()),
            those = node_changes.next() => jobs.nodes_changed(&those, Instant::now()),
            change = changes.next(), if !changes_ended => match change {
                Some(key) => jobs.provider_change(&key),
                None => changes_ended = true,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

fn finish<P: LoadBalancer, R: ProviderPolicy>(
    context: &Context<P>,
    jobs: &mut JobQueue<R>,
    job: &Job,
    report: JobReport,
) {
    let failure = report.outcome.as_ref().err().cloned();
    let should_report = jobs.finish(job, report, Instant::now());
    let Some(failure) = failure else { return };
    let service = match (&job.task, &job.predecessor) {
        (_, Some(old)) if failure.kind == FailureKind::Delete => old,
        (
            Task::Ensure { service, .. }
            | Task::UpdateNodes { service, .. }
            | Task::Cleanup { service, .. }
            | Task::Check { service },
            _,
        ) => service,
        (Task::Forget, Some(old)) => old,
        (Task::Forget, None) => return,
    };
    // Once in the log, as in events: every attempt fails in the same words.
    if should_report {
        tracing::warn!(
            namespace = %job.key.namespace, service = %job.key.name, error = %failure.message,
            "sync failed, trying again"
        );
        context.send_failure_event(service, &failure);
    } else {
        tracing::debug!(
            namespace = %job.key.namespace, service = %job.key.name, error = %failure.message,
            "sync failed again"
        );
    }
}
