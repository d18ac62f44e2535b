//! Events on this node's own Node, where `kubectl describe node` shows them, and in the agent's log.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use windlass_api::node_event;
use windlass_ccm::events::{EventSink, EventType};
use windlass_common::listing::first_of;
use windlass_engine::HelperStatus;

use super::hold::News;
use crate::engine_events::{AGENT, Fault};

#[cfg(test)]
mod tests;

/// Interval after which a lasting fault is reported again: the API server removes events within an hour.
const AGAIN: Duration = Duration::from_mins(10);
/// Largest number of faults reported at a time; further ones are only logged.
const MOST: usize = 64;
/// Largest number of peers that an event names.
const NAMED: usize = 5;

/// Writes events on the Node of this agent.
pub(crate) struct NodeEvents {
    sink: EventSink,
    node: ObjectReference,
    told: Told,
}

impl NodeEvents {
    pub(crate) fn new(sink: EventSink, node: &str) -> Self {
        let node = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            // As kubelet has it in its events: `kubectl describe node` finds those, and the agent need not ask for the Node.
            uid: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        Self { sink, node, told: Told::default() }
    }

    /// Reports a fault, unless it was reported within [`AGAIN`].
    pub(crate) fn fault(&mut self, fault: Fault, now: Instant) {
        if self.told.is_news((fault.reason, fault.key.interface, fault.about), now) {
            self.sink.send(self.node.clone(), EventType::Warning, fault.reason, fault.message);
        }
    }

    /// Reports why the guard blocks nothing, unless it was reported within [`AGAIN`]. To be called repeatedly while it lasts.
    pub(crate) fn unguarded(&mut self, obstacle: &str, now: Instant) {
        if self.told.is_news((node_event::UNGUARDED, obstacle.to_owned(), None), now) {
            let message = format!("the guard does not protect the virtual IPs of this node: {obstacle}");
            self.warn(node_event::UNGUARDED, message);
        }
    }

    /// Reports each thread of the engine and part of the agent that is missing, unless it was reported within [`AGAIN`]. To be called
    /// repeatedly while it lasts.
    pub(crate) fn parts_missing(&mut self, all: &[HelperStatus], now: Instant) {
        for part in all {
            let Some(error) = &part.error else { continue };
            if self.told.is_news((node_event::AGENT_PART_MISSING, part.thread.to_owned(), None), now) {
                self.sink.send(
                    self.node.clone(),
                    EventType::Warning,
                    node_event::AGENT_PART_MISSING,
                    format!("{error}; announcing continues"),
                );
            }
        }
    }

    /// Reports, per interface, the peers between which and this node multicast does not pass. To be called repeatedly while it lasts.
    pub(crate) fn without_multicast(&mut self, all: &BTreeSet<(String, IpAddr)>, now: Instant) {
        let mut by_interface: BTreeMap<&String, BTreeSet<IpAddr>> = BTreeMap::new();
        for (interface, peer) in all {
            by_interface.entry(interface).or_default().insert(*peer);
        }
        for (interface, peers) in &by_interface {
            if self.told.is_news((node_event::WITHOUT_MULTICAST, (*interface).clone(), None), now) {
                self.warn(node_event::WITHOUT_MULTICAST, of_multicast(interface, peers));
            }
        }
    }

    fn warn(&self, reason: &'static str, message: String) {
        tracing::warn!("{message}");
        self.sink.send(self.node.clone(), EventType::Warning, reason, message);
    }

    /// Reports and logs the changes of held addresses, whose objects were deleted by accident and which are announced for `time`.
    pub(crate) fn hold(&self, news: News, time: Duration) {
        let (kind, reason, message) = of_hold(news, time);
        match kind {
            EventType::Normal => tracing::info!("{message}"),
            EventType::Warning => tracing::error!("{message}"),
        }
        self.sink.send(self.node.clone(), kind, reason, message);
    }
}

/// Returns the message about multicast that does not pass.
fn of_multicast(interface: &str, peers: &BTreeSet<IpAddr>) -> String {
    let peers = first_of(peers.iter(), NAMED);
    format!(
        "on {interface}: VRRP multicast does not pass between this node and {peers}: unicast takes its \
         place; {}",
        AGENT.multicast
    )
}

/// Returns type, reason and message of the event about held addresses.
fn of_hold(news: News, time: Duration) -> (EventType, &'static str, String) {
    match news {
        News::Held { addresses, of } => (
            EventType::Warning,
            node_event::ADDRESSES_HELD,
            format!(
                "the VirtualIPs or VirtualRouters of {addresses} of this node's {of} addresses were deleted \
                 while in service, not by the controller: the node keeps announcing the addresses for {} s. \
                 Apply the CustomResourceDefinitions again if they are gone, and let the controller run: it \
                 creates the objects again. To silence the node immediately, stop its agent",
                time.as_secs()
            ),
        ),
        News::Back => (
            EventType::Normal,
            node_event::ADDRESSES_BACK,
            "all missing VirtualIPs and VirtualRouters are back, or were taken out of service".to_owned(),
        ),
        News::Over { addresses } => (
            EventType::Warning,
            node_event::ADDRESSES_GIVEN_UP,
            format!(
                "the node stopped announcing {addresses} addresses: their VirtualIPs or VirtualRouters were \
                 not created again within {} s",
                time.as_secs()
            ),
        ),
    }
}

/// Reported faults, each with the time of its last report.
#[derive(Debug, Default)]
struct Told(BTreeMap<FaultId, Instant>);

/// Reason; interface or obstacle; peer that it concerns, if that is not this node.
type FaultId = (&'static str, String, Option<IpAddr>);

impl Told {
    /// Returns true, and records the report, if the fault is to be reported.
    fn is_news(&mut self, fault: FaultId, now: Instant) -> bool {
        self.0.retain(|_, told| now.duration_since(*told) < AGAIN);
        if self.0.contains_key(&fault) || self.0.len() >= MOST {
            return false;
        }
        self.0.insert(fault, now);
        true
    }
}
