//! Faults, each alone and many at once, and what clients of the LAN see of them: whether the Services answer, what becomes of requests
//! and connections, and how many nodes say that they have an address.
//!
//! `make soak` looks at what the cluster says of addresses; this looks at the LAN. n1, n2 and n3 have agents and are what faults
//! befall; the only backend is on n4, so that what fails is an address and never the pod behind it; c1 is the client, c2 the
//! stranger. Beside it is a Service with `externalTrafficPolicy: Local`, whose one pod is on n1, n2 or n3.
//!
//! Left out: a stepped clock. Namespaces share the machine's; what depends on it is in `docs/benchmarks.md`. And what a light lab has
//! nobody for: nothing evicts the pods of a node that is drained or deleted ([`Kind::LocalRollout`] moves one), and what goes with a
//! Node, and that it is written again, is done by hand, as the garbage collector and a kubelet do it.

mod alone;
mod bound;
mod clients;
mod cluster_faults;
mod faults;
mod kind;
mod scene;
mod storms;

use std::time::Duration;

use serde::Serialize;

use crate::{Lab, LabBuilder};

pub use alone::alone;
pub use kind::Kind;
pub use scene::Scene;
pub use storms::storms;

/// What one fault, or one storm of them, cost two clients, one by an IPv4 and one by an IPv6 address; a row of
/// `target/bench/chaos.json`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FaultRow {
    /// What was done; alone, to the node that had the addresses, for some seconds.
    pub fault: String,
    /// The longest time between two answers to a client that asks each 2 ms.
    pub outage_ms: u64,
    /// The most nodes that answered one question for an address.
    pub max_answering: usize,
    /// The longest time in which more than one did, those that a partition excuses included.
    pub doubled_ms: u64,
    /// The longest time until all was in order again.
    pub calm_ms: u64,
    /// Requests on connections of their own, 50 a second of each client, and those without an answer.
    pub requests: u64,
    /// See `requests`.
    pub failed: u64,
    /// Connections that were kept, and those that ended.
    pub connections: u64,
    /// See `connections`.
    pub broken: u64,
}

/// The lab it takes; `seconds` is how long storms are to last.
pub fn lab(seconds: u64) -> LabBuilder {
    let limit = Duration::from_secs(4 * seconds) + Duration::from_mins(10);
    Lab::builder().nodes(4).client("c1").client("c2").light().limit(limit)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
