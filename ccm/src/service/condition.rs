//! The provider's condition on a Service. Pure.
//!
//! Conditions are merged by type (`patchMergeKey` of `ServiceStatus.conditions`), so a patch that names one leaves those
//! of others alone.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use crate::text::shortened;

/// The API server refuses longer messages of conditions (bytes).
const MAX_MESSAGE: usize = 32_768;

/// What the condition is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) type_: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Statement {
    fn status(&self) -> &'static str {
        if self.holds { "True" } else { "False" }
    }

    /// Whether the Service shows the opposite.
    pub(crate) fn is_contradicted(&self, service: &Service) -> bool {
        shown(service, self.type_).is_some_and(|condition| condition.status != self.status())
    }

    /// Writes the condition; `None` if the Service shows it already. The time of the last transition is that of the last
    /// change of `status`, not of the words.
    pub(crate) fn patch(&self, service: &Service, now: Timestamp) -> Option<Value> {
        let (status, message) = (self.status(), shortened(&self.message, MAX_MESSAGE));
        let before = shown(service, self.type_);
        let same_status = before.filter(|condition| condition.status == status);
        if same_status
            .is_some_and(|condition| condition.reason == self.reason && condition.message == message)
        {
            return None;
        }
        let condition = Condition {
            type_: self.type_.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: same_status
                .map_or(Time(now), |condition| condition.last_transition_time.clone()),
            observed_generation: None,
        };
        Some(json!({ "status": { "conditions": [condition] } }))
    }
}

/// Removes the condition of this type; `None` if the Service shows none.
pub(crate) fn remove(service: &Service, type_: &str) -> Option<Value> {
    shown(service, type_)
        .map(|_| json!({ "status": { "conditions": [{ "type": type_, "$patch": "delete" }] } }))
}

fn shown<'a>(service: &'a Service, type_: &str) -> Option<&'a Condition> {
    service.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}
