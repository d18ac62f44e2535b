//! The loop of the node controller: changes of nodes, a queue, a sync of every node each refresh period.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Client, Resource as _};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_util::sync::CancellationToken;

use super::decide::{is_uninitialized, node_matters};
use super::sync::{SyncError, SyncOutcome, SyncedNode, sync};
use super::{NodeController, NodeOptions};
use crate::backoff::Backoff;
use crate::events::{EventSink, EventType, Recorder, run_with_events};
use crate::metrics::{Controller, Metrics, QueueGauges, SyncResult};
use crate::provider::Instances;
use crate::queue::WorkQueue;
use crate::store::{Change, Informer, Informers};

#[cfg(test)]
mod tests;

/// Retry of one node (service-contract N-01, with a first delay that spares the provider and a last one short enough
/// that a node does not stay tainted for a quarter of an hour after its cause is gone).
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_mins(1));

/// Upstream's event for an initialized node (service-contract N-09); ours for one that cannot be, and for one whose kubelet
/// names an address that the provider refuses.
const SYNCED: &str = "Synced";
const SYNCED_MESSAGE: &str = "Node synced successfully";
const SYNC_FAILED: &str = "SyncNodeFailed";
const NODE_IP_REFUSED: &str = "NodeIPRefused";

impl<P: Instances> NodeController<P> {
    /// Runs until `token` is cancelled. What is under way then is dropped; the next leader does it again.
    pub async fn run(self, token: CancellationToken) {
        let recorder = Recorder::new(self.client.clone(), &self.options.component);
        let gauges = self.metrics.queues.of("Nodes");
        let _running = self.metrics.running.started("cloud-node");
        let Self { client, informers, instances, options, metrics, clock } = self;
        run_with_events(recorder, token, |events| async move {
            NodeReconciler { client, instances, options, events, metrics, clock }
                .reconcile(&informers, gauges)
                .await;
        })
        .await;
    }
}

/// The nodes, and which of them to synchronise next; no clock, no I/O.
struct NodeControllerState {
    nodes: Informer<Node>,
    queue: WorkQueue<String>,
    /// The last failure that was reported, by name of a node that exists.
    last_failures: HashMap<String, LastFailure>,
    /// The last refusal of kubelet's `--node-ip` that was reported, by name of its node.
    refused: HashMap<String, String>,
}

struct LastFailure {
    message: String,
    /// A write that was to initialize the node failed: it may have been carried out, and only its answer lost.
    write_unconfirmed: bool,
}

/// Event or log message about a node.
#[derive(Debug, PartialEq)]
enum Notice {
    Initialized,
    /// It is another failure than the last one.
    Failed(String),
    /// It is another refusal than the last one.
    NodeIpRefused(String),
}

impl NodeControllerState {
    fn new(nodes: Informer<Node>, gauges: QueueGauges) -> Self {
        Self {
            nodes,
            queue: WorkQueue::new(BACKOFF, gauges),
            last_failures: HashMap::new(),
            refused: HashMap::new(),
        }
    }

    fn changed(&mut self, changes: &[Change<Node>]) {
        for change in changes {
            match (&change.old, &change.new) {
                (old, Some(new)) => {
                    if old.as_ref().is_some_and(|old| old.metadata.uid != new.metadata.uid) {
                        self.forget(new);
                    }
                    if old.as_ref().is_none_or(|old| node_matters(old, new)) {
                        self.queue.add(&new.metadata.name.clone().unwrap_or_default());
                    }
                }
                (Some(gone), None) => self.forget(gone),
                (None, None) => {}
            }
        }
    }

    fn forget(&mut self, node: &Node) {
        let name = node.metadata.name.clone().unwrap_or_default();
        self.queue.forget(&name);
        self.last_failures.remove(&name);
        self.refused.remove(&name);
    }

    /// Looks at every node again (service-contract N-10).
    fn refresh(&mut self) {
        for node in self.nodes.list() {
            self.queue.add(&node.metadata.name.clone().unwrap_or_default());
        }
    }

    fn next(&mut self, now: Instant) -> Option<(String, Arc<Node>)> {
        self.queue.pop_known(now, |name| self.nodes.get(name))
    }

    /// Records the result of the sync of `node`; returns the notices to report.
    fn finish(
        &mut self,
        name: &String,
        node: &Node,
        outcome: Result<SyncedNode, SyncError>,
        now: Instant,
    ) -> Vec<Notice> {
        let is_there = self.nodes.get(name).is_some_and(|known| known.metadata.uid == node.metadata.uid);
        let notice = match outcome {
            Ok(synced) => {
                self.queue.forget(name);
                let write_unconfirmed =
                    self.last_failures.remove(name).is_some_and(|failure| failure.write_unconfirmed);
                if let Some(latest) = synced.latest {
                    // Our writes are refused if anybody else wrote since: there is no other change in it.
                    drop(self.nodes.learn(latest));
                }
                let initialized = match synced.outcome {
                    SyncOutcome::Initialized => true,
                    SyncOutcome::UpToDate => write_unconfirmed,
                    SyncOutcome::OtherProvider | SyncOutcome::Gone => false,
                };
                let refused = synced.node_ip_refused.filter(|_| is_there);
                let refused = self.refuse(name, refused).map(Notice::NodeIpRefused);
                initialized.then_some(Notice::Initialized).into_iter().chain(refused).collect()
            }
            // The node is gone: nothing is left to try or to report.
            Err(_) if !is_there => {
                self.forget(node);
                Vec::new()
            }
            Err(error) => {
                match error.retry_after() {
                    Some(after) => self.queue.add_at(name, now + after),
                    None => {
                        self.queue.retry(name, now);
                    }
                }
                let message = error.to_string();
                let before = self.last_failures.remove(name);
                let write_unconfirmed = before.as_ref().is_some_and(|before| before.write_unconfirmed)
                    || (matches!(error, SyncError::Write(_)) && is_uninitialized(node));
                self.last_failures
                    .insert(name.clone(), LastFailure { message: message.clone(), write_unconfirmed });
                let is_new = before.is_none_or(|before| before.message != message);
                is_new.then_some(Notice::Failed(message)).into_iter().collect()
            }
        };
        self.queue.done(name);
        notice
    }

    /// Records the reason that kubelet's `--node-ip` is refused, if it is; returns the reason if it was not reported yet.
    fn refuse(&mut self, name: &String, why: Option<String>) -> Option<String> {
        let before = self.refused.remove(name);
        let why = why?;
        self.refused.insert(name.clone(), why.clone());
        (before.as_ref() != Some(&why)).then_some(why)
    }
}

struct NodeReconciler<P> {
    client: Client,
    instances: Arc<P>,
    options: NodeOptions,
    events: EventSink,
    metrics: Metrics,
    clock: fn() -> Timestamp,
}

impl<P: Instances> NodeReconciler<P> {
    async fn reconcile(&self, informers: &Informers, gauges: QueueGauges) {
        let (nodes, mut changes) = informers.nodes().subscribe();
        let mut state = NodeControllerState::new(nodes, gauges);
        let mut machines = self.instances.node_changes();
        let mut running = FuturesUnordered::new();
        let period = self.options.refresh_period.max(Duration::from_secs(1));
        let mut refresh = interval_at(Instant::now() + period, period);
        refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (workers, limit) = (self.options.workers.max(1), self.options.answer_limit);
        loop {
            while running.len() < workers {
                let Some((name, node)) = state.next(Instant::now()) else { break };
                running.push(async move {
                    let outcome = sync(&self.client, self.instances.as_ref(), Arc::clone(&node), limit).await;
                    (name, node, outcome)
                });
            }
            let due = state.queue.next_due(running.len() < workers);
            tokio::select! {
                Some((name, node, outcome)) = running.next() => {
                    let result = if outcome.is_ok() { SyncResult::Success } else { SyncResult::Error };
                    self.metrics.count_sync(Controller::Node, result);
                    for notice in state.finish(&name, &node, outcome, Instant::now()) {
                        self.report(&name, &node, notice);
                    }
                }
                those = changes.next() => state.changed(&those),
                Some(name) = machines.next() => state.queue.add(&name),
                _ = refresh.tick() => state.refresh(),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    fn report(&self, name: &str, node: &Node, notice: Notice) {
        let object = node.object_ref(&());
        match notice {
            Notice::Initialized => {
                tracing::info!(node = %name, "initialized");
                let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
                self.metrics.node.initialized(created, (self.clock)());
                self.events.send(object, EventType::Normal, SYNCED, SYNCED_MESSAGE);
            }
            Notice::Failed(message) => {
                tracing::warn!(node = %name, error = %message, "sync failed, trying again");
                let text = format!("Error syncing node: {message}");
                self.events.send(object, EventType::Warning, SYNC_FAILED, text);
            }
            Notice::NodeIpRefused(why) => {
                tracing::warn!(node = %name, reason = %why, "kubelet's --node-ip is refused");
                self.events.send(object, EventType::Warning, NODE_IP_REFUSED, why);
            }
        }
    }
}
