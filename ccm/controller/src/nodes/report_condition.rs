//! The condition on a Node of whose report something is not believed: an event goes by, a condition stays. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{NODE_CONDITION_REPORT_BELIEVED, node_event};

use super::reports::{Doubt, TELL_EVERY, told};

#[cfg(test)]
mod tests;

/// Reason of the condition once the report is believed again.
const BELIEVED: &str = "ReportBelieved";

/// Next step for the condition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Due {
    /// The condition is up to date, or there is none and nothing was ever doubted.
    Nothing,
    /// Write this condition.
    Write(Box<NodeCondition>),
    /// Write after this delay. The condition changed, but was written a moment ago: a node's report must not decide how often it is
    /// written.
    After(Duration),
}

/// Returns the next step for the condition of `node`, given the `doubts` about its report.
pub(crate) fn due(node: &Node, doubts: Option<&BTreeSet<Doubt>>, now: Timestamp) -> Due {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let known = conditions.into_iter().find(|one| one.type_ == NODE_CONDITION_REPORT_BELIEVED);
    let (status, reason, message) = match doubts {
        Some(doubts) => ("False", node_event::REPORT_DOUBTED, told(doubts)),
        None if known.is_none() => return Due::Nothing,
        None => ("True", BELIEVED, "Windlass uses all that its agent reports".to_owned()),
    };
    if known.is_some_and(|known| known.status == status && known.message.as_ref() == Some(&message)) {
        return Due::Nothing;
    }
    let written = known.and_then(|known| known.last_heartbeat_time.as_ref()).map(|time| time.0);
    let age = written.map(|written| now.duration_since(written));
    // A time to come is another clock's.
    if let Some(rest) = age
        .and_then(|age| TELL_EVERY.checked_sub(Duration::try_from(age).ok()?))
        .filter(|rest| !rest.is_zero())
    {
        return Due::After(rest);
    }
    let unchanged = known.filter(|known| known.status == status);
    let since = unchanged.and_then(|known| known.last_transition_time.clone());
    Due::Write(Box::new(NodeCondition {
        type_: NODE_CONDITION_REPORT_BELIEVED.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: since.or(Some(Time(now))),
    }))
}
