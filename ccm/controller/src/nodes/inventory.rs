//! The machines as the admin lists them, and since when the nodes of those listed as gone are not ready.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::ResourceExt as _;
use tokio::time::Instant;

use super::cloud_config::{CloudConfig, NodeMetadata};

#[cfg(test)]
mod tests;

/// The settings in force, and what was observed for them.
#[derive(Debug, Default)]
pub(crate) struct MachineInventory {
    config: RwLock<Arc<CloudConfig>>,
    observations: Mutex<NotReadyObservations>,
}

impl MachineInventory {
    /// From now on these settings are in force.
    pub(crate) fn set(&self, config: Arc<CloudConfig>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    fn config(&self) -> Arc<CloudConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the metadata of `node` from the settings.
    pub(crate) fn metadata_of(&self, node: &Node) -> NodeMetadata {
        self.config().metadata_of(node)
    }

    /// Returns true if the machine counts as gone: its node is listed, and has not been ready for long enough. Both the time of its
    /// condition and our own observation must show that, because other clocks are not trusted. In doubt, the machine is not gone.
    pub(crate) fn is_gone(&self, node: &Node, wall: Timestamp, now: Instant) -> bool {
        let after = self.config().delete_after(&node.name_any());
        let mut observations = self.observations.lock().unwrap_or_else(PoisonError::into_inner);
        match after {
            None => {
                observations.forget(node);
                false
            }
            Some(after) => observations.not_ready_for(node, wall, now).is_some_and(|time| time >= after),
        }
    }

    /// Returns true if the machine is listed as shut down.
    pub(crate) fn is_shut_down(&self, node: &Node) -> bool {
        self.config().is_shut_down(&node.name_any())
    }
}

/// Times since which listed nodes were observed not ready.
#[derive(Debug, Default)]
struct NotReadyObservations(HashMap<String, NotReadyObservation>);

#[derive(Debug, PartialEq)]
struct NotReadyObservation {
    /// UID of the Node, and since when it is not ready by its condition: a node that was ready in between has another time.
    not_ready: (Option<String>, Timestamp),
    first: Instant,
}

impl NotReadyObservations {
    fn forget(&mut self, node: &Node) {
        self.0.remove(&node.name_any());
    }

    /// Returns the shorter of both times; `None` if the node is ready, or if it is not known since when it is not.
    fn not_ready_for(&mut self, node: &Node, wall: Timestamp, now: Instant) -> Option<Duration> {
        let Some(since) = not_ready_since(node) else {
            self.forget(node);
            return None;
        };
        let not_ready = (node.uid(), since);
        let observation = self
            .0
            .entry(node.name_any())
            .or_insert_with(|| NotReadyObservation { not_ready: not_ready.clone(), first: now });
        if observation.not_ready != not_ready {
            *observation = NotReadyObservation { not_ready, first: now };
        }
        let by_condition = Duration::try_from(wall.duration_since(since)).unwrap_or_default();
        Some(by_condition.min(now.saturating_duration_since(observation.first)))
    }
}

fn not_ready_since(node: &Node) -> Option<Timestamp> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let is_ready = |condition: &&NodeCondition| condition.type_ == "Ready";
    let ready = conditions.iter().find(is_ready).filter(|condition| condition.status != "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}
