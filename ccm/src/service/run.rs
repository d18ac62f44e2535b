//! The loop of the service controller: changes in, jobs out. One task holds all state, so there is nothing to lock;
//! jobs run concurrently within it and end with it.

use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::state::{FailureKind, Job, ProviderRules, Report, Rules, State, Task};
use super::sync::Context;
use crate::events::{Recorder, beside_events};
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
        beside_events(recorder, token, |events| async move {
            reconcile(&Context { client, provider, options, events, metrics }, &informers, gauges).await;
        })
        .await;
    }
}

async fn reconcile<P: LoadBalancer>(context: &Context<P>, informers: &Informers, gauges: QueueGauges) {
    let rules = ProviderRules(&*context.provider);
    let (services, mut service_changes) = informers.services().subscribe();
    let (nodes, mut node_changes) = informers.nodes().subscribe();
    let mut state = State::new(services, nodes, context.options.clone(), rules, gauges);
    let mut changes = context.provider.changes();
    let mut changes_ended = false;
    let mut running = FuturesUnordered::new();
    let workers = context.options.workers.max(1);
    loop {
        while running.len() < workers {
            let Some(job) = state.next_job(Instant::now()) else { break };
            running.push(async move {
                let report = context.execute(&job).await;
                (job, report)
            });
        }
        if let Some(took) = state.fan_out_took() {
            context.metrics.service.node_sync_seconds.observe(took.as_secs_f64());
        }
        let due = state.next_due(running.len() < workers);
        tokio::select! {
            Some((job, report)) = running.next() => {
                finish(context, &mut state, &job, report);
            }
            those = service_changes.next() => state.services_changed(&those, Instant::now()),
            those = node_changes.next() => state.nodes_changed(&those, Instant::now()),
            change = changes.next(), if !changes_ended => match change {
                Some(key) => state.provider_change(&key),
                None => changes_ended = true,
            },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

fn finish<P: LoadBalancer, R: Rules>(context: &Context<P>, state: &mut State<R>, job: &Job, report: Report) {
    let failure = report.outcome.as_ref().err().cloned();
    let tell = state.finish(job, report, Instant::now());
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
    // Once for the reader of the log, as for the reader of events: every attempt fails in the same words.
    if tell {
        tracing::warn!(
            namespace = %job.key.namespace, service = %job.key.name, error = %failure.message,
            "sync failed, trying again"
        );
        context.tell_failure(service, &failure);
    } else {
        tracing::debug!(
            namespace = %job.key.namespace, service = %job.key.name, error = %failure.message,
            "sync failed again"
        );
    }
}
