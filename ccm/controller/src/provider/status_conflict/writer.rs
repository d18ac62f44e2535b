//! The writer of the addresses in a Service's status, as the API server records it (`metadata.managedFields`). Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use windlass_api::CONDITION_ADDRESS_ALLOCATED;

#[cfg(test)]
mod tests;

/// The other controller that wrote the addresses last, as far as they are still what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Writer {
    /// The name that it gives itself, if it does.
    pub(super) name: Option<String>,
    /// Time of its last write.
    pub(super) time: Option<Timestamp>,
}

impl Writer {
    /// Returns the last other writer; `None`: none is recorded, or only ourselves. An overwritten field is recorded for the new writer
    /// alone.
    pub(super) fn of(managed: &[ManagedFieldsEntry]) -> Option<Self> {
        let wrote = |entry: &&ManagedFieldsEntry| {
            has(entry, "/f:status/f:loadBalancer") && !has(entry, &our_condition())
        };
        let last = managed.iter().filter(wrote).max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
        let name = last.manager.clone().filter(|name| !name.is_empty() && name != "unknown");
        Some(Self { name, time: last.time.as_ref().map(|time| time.0) })
    }
}

/// Returns the path of our condition in managed fields. Only Windlass writes it: its writer is Windlass, whatever its name.
fn our_condition() -> String {
    let type_ = CONDITION_ADDRESS_ALLOCATED.replace('/', "~1");
    format!("/f:status/f:conditions/k:{{\"type\":\"{type_}\"}}")
}

fn has(entry: &ManagedFieldsEntry, pointer: &str) -> bool {
    entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(pointer).is_some())
}
