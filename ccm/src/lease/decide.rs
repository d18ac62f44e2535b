//! The decision of leader election. Pure.
//!
//! The clocks of two machines are never compared. A lease is judged by how long ago *this* process first saw it in its present form, on its
//! own monotonic clock, as client-go does: a holder is respected for the lease duration it promised, counted from the last change of the
//! record.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

/// The lease as it was read, and when it was first seen like this.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The record.
    pub spec: LeaseSpec,
    /// Time at which this process first saw this record (monotonic).
    pub at: Instant,
}

impl Observed {
    /// Records the lease as read at `now`: an unchanged record keeps the time at which it was first seen.
    pub fn next(previous: Option<&Self>, spec: LeaseSpec, now: Instant) -> Self {
        let at = previous.filter(|known| known.spec == spec).map_or(now, |known| known.at);
        Self { spec, at }
    }

    /// Returns the holder of the lease; an empty identity is no holder.
    pub fn holder(&self) -> Option<&str> {
        self.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }
}

/// Longest time that a holder is respected without a change of its record, whatever it promised. A leader by these rules gives up earlier
/// ([`super::ElectionOptions`]), and a promise of decades is a slip that must not leave a cluster without a leader.
pub(super) const LONGEST_PROMISE: Duration = Duration::from_hours(1);
/// Longest part of a holder's name that is shown, in characters.
const SHOWN: usize = 100;

/// Next action on the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// There is no Lease object: create it, held by us.
    Create,
    /// It is ours: write a new renew time.
    Renew,
    /// It has no holder, or has expired: take it.
    Acquire {
        /// `leaseTransitions` to write: one more than before.
        transitions: i32,
    },
    /// Another candidate holds it.
    Wait {
        /// Time at which the lease expires unless it is renewed.
        until: Instant,
    },
}

/// Decides for the candidate `identity` (service-contract S-61). `lease_duration` is used if the record has no duration of its holder.
pub fn decide(
    identity: &str,
    observed: Option<&Observed>,
    now: Instant,
    lease_duration: Duration,
) -> Decision {
    let Some(observed) = observed else { return Decision::Create };
    let transitions = observed.spec.lease_transitions.unwrap_or(0).saturating_add(1);
    match observed.holder() {
        None => Decision::Acquire { transitions },
        Some(holder) if holder == identity => Decision::Renew,
        Some(_) => {
            let promised = observed
                .spec
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0)
                .map_or(lease_duration, Duration::from_secs)
                .min(LONGEST_PROMISE.max(lease_duration));
            let until = observed.at + promised;
            if until <= now { Decision::Acquire { transitions } } else { Decision::Wait { until } }
        }
    }
}

/// Returns the name of a holder for logs and errors: on one line and short, whatever the lease contains.
pub(super) fn shown(holder: &str) -> String {
    let name = holder.chars().take(SHOWN).flat_map(char::escape_debug).collect::<String>();
    match holder.chars().skip(SHOWN).count() {
        0 => name,
        rest => format!("{name}… ({rest} more characters)"),
    }
}
