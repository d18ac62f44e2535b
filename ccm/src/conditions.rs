//! Conditions as Kubernetes means them. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

#[cfg(test)]
mod tests;

/// What a condition is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saying<'a> {
    /// Its type, as `Ready`.
    pub type_: &'a str,
    /// Whether that is so.
    pub holds: bool,
    /// One CamelCase word.
    pub reason: &'a str,
    /// A sentence for people.
    pub message: String,
    /// `metadata.generation` of the object that was looked at, if it is told.
    pub generation: Option<i64>,
}

impl Saying<'_> {
    /// `status` of the condition.
    pub const fn status(&self) -> &'static str {
        if self.holds { "True" } else { "False" }
    }

    /// Whether `shown` says so already, in these words.
    pub fn is_said_by(&self, shown: &Condition) -> bool {
        shown.status == self.status() && shown.reason == self.reason && shown.message == self.message
    }

    /// The condition that follows `shown`. The time of the last transition is that of the last change of `status`, not of
    /// the words.
    pub fn after(self, shown: Option<&Condition>, now: Timestamp) -> Condition {
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

    /// Says it among others of one object, in the place of the one of this type.
    pub fn put(self, conditions: &mut Vec<Condition>, now: Timestamp) {
        match conditions.iter().position(|one| one.type_ == self.type_) {
            Some(at) => conditions[at] = self.after(Some(&conditions[at]), now),
            None => conditions.push(self.after(None, now)),
        }
    }
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|one| one.type_ == type_)
}
