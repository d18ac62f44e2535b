//! Faults, each alone and many at once, and what a client of the LAN sees of them: whether the Services answer, and how many nodes
//! say that they have an address.
//!
//! `make soak` looks at what the cluster says of addresses; this looks at the LAN. n1, n2 and n3 have agents and are what faults
//! befall; the only backend is on n4, so that what fails is an address and never the pod behind it; c1 is the client, c2 the
//! stranger.
//!
//! Left out: a stepped clock. Namespaces share the machine's, and the engine counts by the monotonic one.

mod alone;
mod bound;
mod faults;
mod scene;
mod storms;

use std::time::Duration;

use serde::Serialize;

use crate::{Lab, LabBuilder};

pub use alone::alone;
pub use storms::storms;

/// What one fault cost a client; a row of `target/bench/chaos.json`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FaultRow {
    /// What was done to the node that had the address, for some seconds.
    pub fault: &'static str,
    /// That of the address: `IPv4` or `IPv6`.
    pub family: &'static str,
    /// The longest time between two answers to a client that asks each 2 ms.
    pub outage_ms: u64,
    /// The most nodes that answered one question for an address.
    pub max_answering: usize,
    /// The longest time in which more than one did.
    pub doubled_ms: u64,
    /// Requests on connections of their own, 50 a second, and those without an answer.
    pub requests: u64,
    /// See `requests`.
    pub failed: u64,
    /// Connections that were kept, and those that ended.
    pub connections: u64,
    /// See `connections`.
    pub broken: u64,
}

/// What came of storms from one seed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StormRow {
    /// What all of it followed from.
    pub seed: u64,
    /// How long the storms are to last, or, at the end, all has lasted.
    pub seconds: u64,
    /// Storms, each with a calm after it.
    pub storms: u64,
    /// Faults that were begun and ended.
    pub faults: u64,
    /// The most nodes that answered one question for an address.
    pub max_answering: usize,
    /// The longest time in which more than one did, those that a partition excuses included.
    pub doubled_ms: u64,
    /// The longest time that a calm took to come.
    pub calm_ms: u64,
}

/// The lab it takes; `seconds` is how long storms are to last.
pub fn lab(seconds: u64) -> LabBuilder {
    let limit = Duration::from_secs(4 * seconds) + Duration::from_mins(10);
    Lab::builder().nodes(4).client("c1").client("c2").light().limit(limit)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
