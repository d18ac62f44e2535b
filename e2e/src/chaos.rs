//! Faults, each alone and many together, and their effect on clients of the LAN: answers of the Services, failed requests and
//! connections, and the number of nodes that answer for an address.
//!
//! `make soak` checks addresses in the API server; this checks them on the LAN. Faults hit n1, n2 and n3, which have agents. The only
//! backend is on n4, so that an address fails and never the pod behind it. c1 is the client, c2 the foreign host. One more Service
//! has `externalTrafficPolicy: Local`; its one pod is on n1, n2 or n3. A last one has a pod on each of them, and they share its
//! addresses.
//!
//! Left out: a stepped clock, since namespaces share the machine's; `docs/dev/benchmarks.md` lists what depends on it. A light lab has no
//! eviction of the pods of a drained or deleted node ([`Kind::LocalRollout`] moves one). It has no garbage collector and no kubelet
//! either: the faults delete the objects of a deleted Node, and write the Node again.

mod alone;
mod bound;
mod clients;
mod cluster_faults;
mod faults;
mod kind;
mod lots;
mod scene;
mod storms;

use std::time::Duration;

use serde::Serialize;

use crate::{Lab, LabBuilder};

pub use alone::alone;
pub use kind::Kind;
pub use scene::Scene;
pub use storms::storms;

/// Cost of one fault, or of one storm of faults, to two clients, one by an IPv4 and one by an IPv6 address; a row of
/// `target/bench/chaos.json`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FaultRow {
    /// The fault or faults; a fault alone hits the node that had the addresses, for some seconds.
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
