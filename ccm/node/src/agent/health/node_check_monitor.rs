//! Runs the checks of Announcements.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_api::NodeCheck;

use super::failed::FailedChecks;
use super::failed_memory::FailedMemory;
use super::node_checks::NodeChecks;
use super::{PARALLEL, change, sources};
use crate::agent::desired::Desired;

/// Runs the checks, judges them and publishes failures.
pub(super) struct NodeCheckMonitor {
    checks: NodeChecks,
    memory: FailedMemory,
    sender: Arc<watch::Sender<FailedChecks>>,
}

impl NodeCheckMonitor {
    /// Creates the monitor with the failures stored in `folder`, that of the state.
    pub(super) fn new(folder: &Path, sender: Arc<watch::Sender<FailedChecks>>, now: Instant) -> Self {
        let memory = FailedMemory::open(folder);
        let mut checks = NodeChecks::default();
        checks.want(memory.failed(), memory.failed(), now);
        let monitor = Self { checks, memory, sender };
        monitor.tell();
        monitor
    }

    /// Runs the checks of this node's virtual routers until `token` is cancelled. A slow one delays no other, unless many are slow.
    pub(super) async fn run(
        &mut self,
        desired: &mut watch::Receiver<Option<Arc<Desired>>>,
        token: &CancellationToken,
    ) {
        let mut own: Arc<BTreeSet<IpAddr>> = Arc::default();
        let mut asked = FuturesUnordered::new();
        desired.mark_changed();
        self.checks.renew_requests();
        loop {
            while asked.len() < PARALLEL
                && let Some((check, mut request)) = self.checks.take_due(Instant::now())
            {
                let own = Arc::clone(&own);
                asked.push(async move {
                    let finding = request.run(&own).await;
                    (check, request, finding)
                });
            }
            let due = self.checks.next_due().filter(|_| asked.len() < PARALLEL);
            let until_due = tokio::time::sleep_until(due.unwrap_or_else(Instant::now).into());
            tokio::select! {
                Some((check, request, finding)) = asked.next() => {
                    self.checks.note(&check, request, finding, Instant::now());
                    self.remember_and_tell();
                }
                () = until_due, if due.is_some() => {}
                Ok(()) = desired.changed() => {
                    // Until anything is known, what failed before is as it was.
                    if let Some(desired) = desired.borrow_and_update().clone() {
                        own = Arc::new(sources(&desired));
                        self.checks.want(&wanted(&desired), self.memory.failed(), Instant::now());
                        self.remember_and_tell();
                    }
                }
                () = token.cancelled() => return,
            }
        }
    }

    fn remember_and_tell(&mut self) {
        self.memory.set(self.checks.failed().into_keys().collect());
        self.tell();
    }

    fn tell(&self) {
        let new = self.checks.failed();
        change(&self.sender, |failed| failed.of_announcements = new);
    }
}

/// Returns the checks of this node's virtual routers. Each runs once, however many routers share it, and at any rank of this node: its
/// result must be known before it is needed.
pub(super) fn wanted(desired: &Desired) -> BTreeSet<NodeCheck> {
    desired.assignments.iter().flat_map(|one| &one.checks).cloned().collect()
}
