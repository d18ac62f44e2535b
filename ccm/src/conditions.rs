//! Conditions as Kubernetes means them. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

#[cfg(test)]
mod tests;

/// A condition as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredCondition<'a> {
    /// Its type, as `Ready`.
    pub type_: &'a str,
    /// True if the condition holds: its `status` is `True`.
    pub holds: bool,
    /// One CamelCase word.
    pub reason: &'a str,
    /// A sentence for people.
    pub message: String,
    /// `metadata.generation` of the object that was looked at, if it is reported.
    pub generation: Option<i64>,
}

impl DesiredCondition<'_> {
    /// `status` of the condition.
    pub const fn status(&self) -> &'static str {
        if self.holds { "True" } else { "False" }
    }

    /// Returns true if `shown` has this status, reason and message already.
    pub fn is_same(&self, shown: &Condition) -> bool {
        shown.status == self.status() && shown.reason == self.reason && shown.message == self.message
    }

    /// The condition to write where `shown` is. The time of the last transition is that of the last change of `status`, not of
    /// the words.
    pub fn updating(self, shown: Option<&Condition>, now: Timestamp) -> Condition {
        let status = self.status();
        let since = shown.filter(|shown| shown.status == status);
        Condition {
            type_: self.type_.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            observed_generation: self.generation,
            last_transition_time: since.map_or(Time(now), |shown| shown.last_transition_time.clone()),
        }
    }

    /// Sets it in an object's conditions, in the place of the one of its type.
    pub fn set_in(self, conditions: &mut Vec<Condition>, now: Timestamp) {
        match conditions.iter().position(|one| one.type_ == self.type_) {
            Some(at) => conditions[at] = self.updating(Some(&conditions[at]), now),
            None => conditions.push(self.updating(None, now)),
        }
    }
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == type_)
}
