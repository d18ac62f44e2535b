//! The provider's condition on a Service. Pure.
//!
//! Conditions are merged by type (`patchMergeKey` of `ServiceStatus.conditions`), so a patch that names one leaves those
//! of others alone.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use crate::conditions::{DesiredCondition, find};
use crate::text::shortened;

/// The API server refuses longer messages of conditions (bytes).
const MAX_MESSAGE: usize = 32_768;

/// The provider's condition as a job is to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceCondition {
    pub(crate) type_: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl ServiceCondition {
    fn desired(&self) -> DesiredCondition<'_> {
        let message = shortened(&self.message, MAX_MESSAGE).to_owned();
        DesiredCondition {
            type_: self.type_,
            holds: self.holds,
            reason: self.reason,
            message,
            generation: None,
        }
    }

    /// Returns true if the condition is `True` on the Service, and this one is `False`.
    pub(crate) fn contradicts(&self, service: &Service) -> bool {
        !self.holds && shown(service, self.type_).is_some_and(|condition| condition.status == "True")
    }

    /// Writes the condition; `None` if the Service shows it already.
    pub(crate) fn patch(&self, service: &Service, now: Timestamp) -> Option<Value> {
        let (desired, before) = (self.desired(), shown(service, self.type_));
        if before.is_some_and(|shown| desired.is_same(shown)) {
            return None;
        }
        Some(json!({ "status": { "conditions": [desired.updating(before, now)] } }))
    }
}

/// Removes the condition of this type; `None` if the Service shows none.
pub(crate) fn remove(service: &Service, type_: &str) -> Option<Value> {
    shown(service, type_)
        .map(|_| json!({ "status": { "conditions": [{ "type": type_, "$patch": "delete" }] } }))
}

fn shown<'a>(service: &'a Service, type_: &str) -> Option<&'a Condition> {
    find(service.status.as_ref()?.conditions.as_ref()?, type_)
}
