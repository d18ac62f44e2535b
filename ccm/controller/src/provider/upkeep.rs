//! Work of the provider that no call of the service controller asks for: it claims permitted external IPs, releases orphaned
//! addresses, and ends quarantines. Beside the planner, so that thousands of them hold up no plan.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Service};
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::Instant;
use windlass_api::{ServiceRef, event, node_event};
use windlass_ccm::ProviderError;
use windlass_ccm::events::EventType;
use windlass_ccm::lenient::{Lenient, read, read_opt};

use super::load_balancer::Provider;
use super::node_changes::NodeChange;
use crate::allocation::external::claims::ExternalIpClaim;
use crate::allocation::ownership::is_orphaned;
use crate::allocation::request::is_object_name;
use crate::nodes::report_condition::{self, Due};
use crate::nodes::reports::DoubtsByNode;
use crate::state::ClusterState;
use crate::stores::call::{CallFailed, call};
use crate::wakeup::{ReconcileReport, Reconciler, Urgency, Wakeup};

/// Delay between the end of a quarantine and the deletion of its object.
const QUARANTINE_SLACK: Duration = Duration::from_millis(100);
/// Number of objects that are processed at the same time.
const PARALLEL: usize = 8;

/// Reconciles external IPs, orphaned addresses and quarantines.
pub(crate) struct Upkeep(pub(crate) Arc<Provider>);

impl Reconciler for Upkeep {
    fn wakeup(&self) -> &Wakeup {
        &self.0.shared.upkeep_wakeup
    }

    fn due(&self) -> impl Future<Output = ()> + Send {
        self.0.quarantine_ends()
    }

    fn reconcile(&mut self) -> impl Future<Output = ReconcileReport> + Send {
        self.0.upkeep()
    }
}

impl Provider {
    async fn upkeep(&self) -> ReconcileReport {
        if !self.shared.review_pools() {
            return ReconcileReport::default();
        }
        let began = Instant::now();
        let doubts = self.shared.state().doubts();
        self.tell_doubts(&doubts, began);
        self.tell_node_changes();
        let conditions = self.report_conditions(&doubts);
        let claims = self.external_claims().await;
        let (orphan_candidates, due) = {
            let ClusterState { stores, allocation, clock, .. } = &mut *self.shared.state();
            (allocation.take_orphan_candidates(stores), allocation.ledger().ended_quarantines(clock.now()))
        };
        let decision_time = began.elapsed();
        let claims = stream::iter(claims)
            .map(|(owner, planned, claim)| async move { self.claim(&owner, &planned, claim).await });
        let mut failures = failures_of(claims).await;
        let conditions = stream::iter(conditions)
            .map(|(node, condition)| async move { self.write_condition(&node, &condition).await });
        failures.extend(failures_of(conditions).await);
        let orphans =
            stream::iter(orphan_candidates).map(|orphan_candidate| self.remove_orphan(orphan_candidate));
        failures.extend(failures_of(orphans).await);
        let ended = stream::iter(due)
            .map(|(address, object)| async move { self.end_quarantine(address, &object).await });
        failures.extend(failures_of(ended).await);
        ReconcileReport { decision_time, failures }
    }

    /// Returns the external IPs to claim. Reports refused ones, once each. Addresses that a Service holds and may no longer have are
    /// orphans.
    pub(crate) async fn external_claims(&self) -> Vec<ExternalIpClaim> {
        let first = self.shared.state().allocation.begin_external_ip_pass();
        let (mut claims, mut after, mut changed) = (Vec::new(), None, false);
        loop {
            let steps = {
                let ClusterState { allocation, stores, .. } = &mut *self.shared.state();
                allocation.external_ip_steps(stores, after.as_ref())
            };
            for (service, reason, message) in steps.events {
                // Whoever lists what it may not have must not drown what its victims are told.
                if reason == event::EXTERNAL_IP_REFUSED && !self.events.has_room() {
                    continue;
                }
                self.events.send_once(service, EventType::Warning, reason, message, first);
            }
            claims.extend(steps.claims);
            changed |= steps.changed;
            after = steps.last;
            if after.is_none() {
                break;
            }
            // What else this thread has to do does not wait for all of them, either.
            yield_now().await;
        }
        if changed {
            self.shared.planner_wakeup.request(Urgency::Soon);
        }
        claims
    }

    /// Reports doubts about the nodes' reports: in the log, and on the Node, if there is one.
    fn tell_doubts(&self, doubts: &DoubtsByNode, now: Instant) {
        let mut state = self.shared.state();
        for (node, message) in state.told_doubts.news(doubts, now) {
            tracing::warn!(node, "{message}");
            if let Some(node) = state.stores.nodes.get(&node) {
                self.events.send(
                    node.object_ref(&()),
                    EventType::Warning,
                    node_event::REPORT_DOUBTED,
                    message,
                );
            }
        }
    }

    /// Reports on Services which node announces their addresses now. Work that others wait for comes first.
    fn tell_node_changes(&self) {
        let mut state = self.shared.state();
        for NodeChange { owners, message } in state.node_changes.take() {
            for service in owners.iter().filter_map(|owner| state.stores.service(owner)) {
                if self.events.has_room() {
                    let (reason, object) = (event::ANNOUNCING_NODE_CHANGED, service.object_ref(&()));
                    self.events.send(object, EventType::Normal, reason, message.clone());
                }
            }
        }
    }

    /// The conditions that Nodes are to have about what their agents report. It is looked again when others are due.
    fn report_conditions(&self, doubts: &DoubtsByNode) -> Vec<(String, NodeCondition)> {
        let (now, nodes) = {
            let state = self.shared.state();
            (state.clock.now(), state.stores.nodes.list())
        };
        let (mut due, mut next) = (Vec::new(), None::<Duration>);
        for node in nodes {
            let name = node.name_any();
            match report_condition::due(&node, doubts.get(&name), now) {
                Due::Nothing => {}
                Due::Write(condition) => due.push((name, *condition)),
                Due::After(rest) => next = Some(next.map_or(rest, |next| next.min(rest))),
            }
        }
        if let Some(rest) = next {
            self.shared.upkeep_wakeup.request_at(Instant::now() + rest);
        }
        due
    }

    async fn write_condition(&self, node: &str, condition: &NodeCondition) -> Result<(), ProviderError> {
        let api: Api<Lenient<Node>> = Api::all(self.client.clone());
        // By its type: kubelet writes the others.
        let patch = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
        let params = PatchParams::default();
        match call(read(api.patch_status(node, &params, &patch)), || {
            format!("change the status of Node {node}")
        })
        .await
        {
            Ok(_) => Ok(()),
            Err(failed) if failed.error.is_not_found() => Ok(()),
            Err(failed) => Err(failed.into()),
        }
    }

    /// Releases the addresses of a Service that is gone, was recreated, or is no LoadBalancer any more, and that were never released:
    /// the controller was away, or the finalizer was removed by hand. If it fails, the Service stays a candidate.
    async fn remove_orphan(&self, orphan_candidate: ServiceRef) -> Result<(), ProviderError> {
        let removed = self.remove_if_orphaned(&orphan_candidate).await;
        if removed.is_err() {
            self.shared.state().allocation.add_orphan_candidate(orphan_candidate);
        }
        removed
    }

    /// The Service is read from the API server first, because the watch of Services may lag behind.
    async fn remove_if_orphaned(&self, owner: &ServiceRef) -> Result<(), ProviderError> {
        let found = self.read_service(owner).await?;
        if !is_orphaned(owner, found.as_ref(), self.settings) {
            return Ok(());
        }
        let orphans = {
            let ClusterState { stores, allocation, .. } = &*self.shared.state();
            let mut held = allocation.held_as_load_balancer(stores, owner);
            held.retain(|address| !allocation.wants_as_external_ip(stores, owner, found.as_ref(), *address));
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
            self.withdraw(owner, address).await?;
        }
        Ok(())
    }

    async fn read_service(&self, owner: &ServiceRef) -> Result<Option<Service>, CallFailed> {
        // Somebody may have written anything there: what cannot be a name is no Service's, and no path either.
        if !is_object_name(&owner.namespace) || !is_object_name(&owner.name) {
            return Ok(None);
        }
        let api: Api<Lenient<Service>> = Api::namespaced(self.client.clone(), &owner.namespace);
        call(read_opt(api.get_opt(&owner.name)), || format!("read Service {owner}")).await
    }

    /// Returns when the next quarantine ends.
    async fn quarantine_ends(&self) {
        let wait = {
            let state = self.shared.state();
            state.ledger().next_quarantine_end().map(|due| due.duration_since(state.clock.now()))
        };
        match wait {
            None => std::future::pending().await,
            // A little later: it has ended then, and an object that was changed meanwhile is not asked for over and over.
            Some(wait) => {
                tokio::time::sleep(Duration::try_from(wait).unwrap_or_default() + QUARANTINE_SLACK).await;
            }
        }
    }
}

/// Runs all of it, some at the same time, and returns the failures.
async fn failures_of(
    work: impl Stream<Item: Future<Output = Result<(), ProviderError>>>,
) -> Vec<ProviderError> {
    let done: Vec<_> = work.buffer_unordered(PARALLEL).collect().await;
    done.into_iter().filter_map(Result::err).collect()
}
