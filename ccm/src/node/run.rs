//! The loop of the node controller: changes of nodes, a queue, a look at every node now and then.

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
use super::sync::{Standing, SyncError, Synced, sync};
use super::{NodeController, NodeOptions};
use crate::backoff::Backoff;
use crate::events::{EventKind, EventSink, Recorder, beside_events};
use crate::metrics::{Controller, Metrics, QueueGauges, SyncResult};
use crate::provider::Instances;
use crate::queue::Queue;
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
        beside_events(recorder, token, |events| async move {
            Edge { client, instances, options, events, metrics, clock }.reconcile(&informers, gauges).await;
        })
        .await;
    }
}

/// What the node controller knows; no clock, no I/O.
struct State {
    nodes: Informer<Node>,
    queue: Queue<String>,
    /// The last failure told of, by node that is there.
    told: HashMap<String, Failure>,
    /// The last refusal of an address told of, by node that has one.
    refused: HashMap<String, String>,
}

struct Failure {
    message: String,
    /// A write that was to initialize the node failed: it may have been carried out, and only its answer lost.
    unsure: bool,
}

/// What is to be told of a node.
#[derive(Debug, PartialEq)]
enum News {
    Initialized,
    /// It is another failure than the last one.
    Failed(String),
    /// It is another refusal than the last one.
    NodeIpRefused(String),
}

impl State {
    fn new(nodes: Informer<Node>, gauges: QueueGauges) -> Self {
        Self { nodes, queue: Queue::new(BACKOFF, gauges), told: HashMap::new(), refused: HashMap::new() }
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
        self.told.remove(&name);
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

    /// Takes in how it went with `node`; returns what is to be told of it.
    fn finish(
        &mut self,
        name: &String,
        node: &Node,
        outcome: Result<Synced, SyncError>,
        now: Instant,
    ) -> Vec<News> {
        let is_there = self.nodes.get(name).is_some_and(|known| known.metadata.uid == node.metadata.uid);
        let news = match outcome {
            Ok(synced) => {
                self.queue.forget(name);
                let unsure = self.told.remove(name).is_some_and(|failure| failure.unsure);
                if let Some(latest) = synced.latest {
                    // Our writes are refused if anybody else wrote since: there is no other change in it.
                    drop(self.nodes.learn(latest));
                }
                let initialized = match synced.standing {
                    Standing::Initialized => true,
                    Standing::InOrder => unsure,
                    Standing::Foreign | Standing::Gone => false,
                };
                let refused = synced.node_ip_refused.filter(|_| is_there);
                let refused = self.refuse(name, refused).map(News::NodeIpRefused);
                initialized.then_some(News::Initialized).into_iter().chain(refused).collect()
            }
            // Nothing is left to try, and nobody to tell.
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
                let before = self.told.remove(name);
                let unsure = before.as_ref().is_some_and(|before| before.unsure)
                    || (matches!(error, SyncError::Write(_)) && is_uninitialized(node));
                self.told.insert(name.clone(), Failure { message: message.clone(), unsure });
                let is_news = before.is_none_or(|before| before.message != message);
                is_news.then_some(News::Failed(message)).into_iter().collect()
            }
        };
        self.queue.done(name);
        news
    }

    /// Takes in whether kubelet's `--node-ip` is refused; returns why, if that is news.
    fn refuse(&mut self, name: &String, why: Option<String>) -> Option<String> {
        let before = self.refused.remove(name);
        let why = why?;
        self.refused.insert(name.clone(), why.clone());
        (before.as_ref() != Some(&why)).then_some(why)
    }
}

struct Edge<P> {
    client: Client,
    instances: Arc<P>,
    options: NodeOptions,
    events: EventSink,
    metrics: Metrics,
    clock: fn() -> Timestamp,
}

impl<P: Instances> Edge<P> {
    async fn reconcile(&self, informers: &Informers, gauges: QueueGauges) {
        let (nodes, mut changes) = informers.nodes().subscribe();
        let mut state = State::new(nodes, gauges);
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
                    for news in state.finish(&name, &node, outcome, Instant::now()) {
                        self.tell(&name, &node, news);
                    }
                }
                those = changes.next() => state.changed(&those),
                Some(name) = machines.next() => state.queue.add(&name),
                _ = refresh.tick() => state.refresh(),
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    fn tell(&self, name: &str, node: &Node, news: News) {
        let object = node.object_ref(&());
        match news {
            News::Initialized => {
                tracing::info!(node = %name, "initialized");
                let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
                self.metrics.node.initialized(created, (self.clock)());
                self.events.send(object, EventKind::Normal, SYNCED, SYNCED_MESSAGE);
            }
            News::Failed(message) => {
                tracing::warn!(node = %name, error = %message, "sync failed, trying again");
                let text = format!("Error syncing node: {message}");
                self.events.send(object, EventKind::Warning, SYNC_FAILED, text);
            }
            News::NodeIpRefused(why) => {
                tracing::warn!(node = %name, reason = %why, "kubelet's --node-ip is refused");
                self.events.send(object, EventKind::Warning, NODE_IP_REFUSED, why);
            }
        }
    }
}
