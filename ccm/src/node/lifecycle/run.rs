//! The loop of the node-lifecycle controller: changes of nodes, a check of every node each period, a queue of those to check.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use k8s_openapi::api::core::v1::Node;
use kube::{Client, Resource as _};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::decide::{NodeAction, next_action};
use super::sync::{LifecycleOutcome, check_node};
use super::{LifecycleOptions, NodeLifecycleController};
use crate::backoff::Backoff;
use crate::events::{EventSink, EventType, Recorder, run_with_events};
use crate::metrics::{Controller, Metrics, QueueGauges, SyncResult};
use crate::provider::Instances;
use crate::queue::WorkQueue;
use crate::store::{Change, Informer, Informers};

#[cfg(test)]
mod tests;

/// A Node that was deleted is checked again after this time, if the watch still shows it.
const UNSEEN: Duration = Duration::from_mins(1);
/// Delays before a retry of a call that the API server refused.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));

const DELETING: &str = "DeletingNode";
const DELETING_FAILED: &str = "DeletingNodeFailed";

impl<P: Instances> NodeLifecycleController<P> {
    /// Runs until `token` is cancelled.
    pub async fn run(self, token: CancellationToken) {
        let recorder = Recorder::new(self.client.clone(), &self.options.component);
        let gauges = self.metrics.queues.of("node-lifecycle");
        let _running = self.metrics.running.started("cloud-node-lifecycle");
        let Self { client, informers, instances, options, metrics } = self;
        run_with_events(recorder, token, |events| async move {
            LifecycleReconciler { client, instances, options, events, metrics }
                .reconcile(&informers, gauges)
                .await;
        })
        .await;
    }
}

/// The nodes, and which of them to check next; no clock, no I/O.
struct LifecycleControllerState {
    nodes: Informer<Node>,
    queue: WorkQueue<String>,
    /// Last failure of each node that exists or was deleted. Nodes with a retry of their own are checked when it is due in the queue, not
    /// each period.
    last_failures: HashMap<String, LastFailure>,
}

struct LastFailure {
    /// Message to report; `None`: the Node was deleted, and the watch has not shown that yet.
    message: Option<String>,
    /// The queue has a time for its next check.
    has_own_retry: bool,
}

impl LifecycleControllerState {
    fn new(nodes: Informer<Node>, gauges: QueueGauges) -> Self {
        Self { nodes, queue: WorkQueue::new(BACKOFF, gauges), last_failures: HashMap::new() }
    }

    fn changed(&mut self, changes: &[Change<Node>]) {
        for change in changes {
            match (&change.old, &change.new) {
                (Some(old), Some(new)) if old.metadata.uid != new.metadata.uid => self.forget(new),
                (_, Some(_)) | (None, None) => {}
                (Some(gone), None) => self.forget(gone),
            }
        }
    }

    fn forget(&mut self, node: &Node) {
        let name = node.metadata.name.clone().unwrap_or_default();
        self.queue.forget(&name);
        self.last_failures.remove(&name);
    }

    /// Looks at every node (service-contract L-01).
    fn check_nodes(&mut self) {
        for node in self.nodes.list() {
            let name = node.metadata.name.clone().unwrap_or_default();
            let has_own_retry = self.last_failures.get(&name).is_some_and(|failure| failure.has_own_retry);
            match next_action(&node) {
                NodeAction::Nothing => {}
                NodeAction::RemoveTaint(_) | NodeAction::AskProvider if has_own_retry => {}
                NodeAction::RemoveTaint(_) | NodeAction::AskProvider => self.queue.add(&name),
            }
        }
    }

    fn next(&mut self, now: Instant) -> Option<(String, Arc<Node>)> {
        self.queue.pop_known(now, |name| self.nodes.get(name))
    }

    /// Records the result of the check of `node`; returns the failure if it was not reported yet.
    fn finish(
        &mut self,
        name: &String,
        node: &Arc<Node>,
        outcome: LifecycleOutcome,
        now: Instant,
    ) -> Option<String> {
        // For a Node that is gone, or that was recreated, nothing is left to report or to wait for.
        if self.nodes.get(name).is_none_or(|known| known.metadata.uid != node.metadata.uid) {
            self.forget(node);
            self.queue.done(name);
            return None;
        }
        let failure = match outcome {
            LifecycleOutcome::Kept | LifecycleOutcome::Conflict => None,
            LifecycleOutcome::Written(latest) => {
                drop(self.nodes.learn(*latest));
                None
            }
            LifecycleOutcome::Deleted | LifecycleOutcome::Gone => {
                self.queue.add_at(name, now + UNSEEN);
                Some(LastFailure { message: None, has_own_retry: true })
            }
            LifecycleOutcome::Unknown(error) => {
                let after = error.retry_after();
                if let Some(after) = after {
                    self.queue.add_at(name, now + after);
                }
                let message =
                    format!("cannot find out whether the machine exists, so the Node is kept: {error}");
                Some(LastFailure { message: Some(message), has_own_retry: after.is_some() })
            }
            LifecycleOutcome::DeleteFailed(error) => {
                self.queue.retry(name, now);
                Some(LastFailure {
                    message: Some(format!("cannot delete the Node: {error}")),
                    has_own_retry: true,
                })
            }
            LifecycleOutcome::TaintFailed(error) => {
                self.queue.retry(name, now);
                Some(LastFailure {
                    message: Some(format!("cannot write the node's taints: {error}")),
                    has_own_retry: true,
                })
            }
        };
        let before = self.last_failures.remove(name);
        let unreported = match failure {
            None => {
                self.queue.forget(name);
                None
            }
            Some(failure) => {
                let message = failure.message.clone();
                self.last_failures.insert(name.clone(), failure);
                message.filter(|message| before.is_none_or(|before| before.message.as_ref() != Some(message)))
            }
        };
        self.queue.done(name);
        unreported
    }
}

struct LifecycleReconciler<P> {
    client: Client,
    instances: Arc<P>,
    options: LifecycleOptions,
    events: EventSink,
    metrics: Metrics,
}

impl<P: Instances> LifecycleReconciler<P> {
    async fn reconcile(&self, informers: &Informers, gauges: QueueGauges) {
        let (nodes, mut changes) = informers.nodes().subscribe();
        let mut state = LifecycleControllerState::new(nodes, gauges);
        let mut running = FuturesUnordered::new();
        let mut period = interval(self.options.monitor_period.max(Duration::from_millis(100)));
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (workers, limit) = (self.options.workers.max(1), self.options.answer_limit);
        loop {
            while running.len() < workers {
                let Some((name, node)) = state.next(Instant::now()) else { break };
                running.push(async move {
                    let outcome = check_node(&self.client, self.instances.as_ref(), &node, limit).await;
                    (name, node, outcome)
                });
            }
            let due = state.queue.next_due(running.len() < workers);
            tokio::select! {
                Some((name, node, outcome)) = running.next() => {
                    self.report(&name, &node, &outcome);
                    if let Some(message) = state.finish(&name, &node, outcome, Instant::now()) {
                        tracing::warn!(node = %name, "{message}");
                    }
                }
                those = changes.next() => state.changed(&those),
                _ = period.tick() => state.check_nodes(),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Logs, counts, and writes the events of service-contract L-03. Deletions are reported once they are decided by the API
    /// server: one that it refused because the node changed was none.
    fn report(&self, name: &str, node: &Node, outcome: &LifecycleOutcome) {
        let deleting = || {
            let text = format!("Deleting node {name} because it does not exist in the cloud provider");
            self.events.send(node.object_ref(&()), EventType::Normal, DELETING, text);
        };
        let result = match outcome {
            LifecycleOutcome::Kept | LifecycleOutcome::Conflict | LifecycleOutcome::Gone => {
                SyncResult::Success
            }
            LifecycleOutcome::Written(_) => {
                tracing::info!(node = %name, taint = super::TAINT_SHUTDOWN, "taint added or removed");
                SyncResult::Success
            }
            LifecycleOutcome::Deleted => {
                tracing::info!(node = %name, "deleted: its machine does not exist");
                deleting();
                SyncResult::Success
            }
            LifecycleOutcome::DeleteFailed(error) => {
                deleting();
                let text = format!("Failed deleting node {name}: {error}");
                self.events.send(node.object_ref(&()), EventType::Warning, DELETING_FAILED, text);
                SyncResult::Error
            }
            LifecycleOutcome::Unknown(_) | LifecycleOutcome::TaintFailed(_) => SyncResult::Error,
        };
        self.metrics.count_sync(Controller::NodeLifecycle, result);
    }
}
