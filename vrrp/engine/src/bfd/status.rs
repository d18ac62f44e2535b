//! Status of BFD.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_bgp::bfd::{Diagnostic, State};

use crate::speaker::status::SessionId;

/// BFD as it is now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct BfdStatus {
    /// The sessions, by the BGP session of each.
    pub sessions: BTreeMap<SessionId, BfdSession>,
    /// Numbers of dropped packets by reason, those that are not 0. `filtered` are those that the kernel dropped: of no session, with a TTL
    /// that is too small, or for want of room. Read each second.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Fault and remedy, if sockets cannot be opened. Tried again each second.
    pub error: Option<String>,
}

/// A BFD session as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BfdSession {
    /// Its state.
    pub state: State,
    /// Reason of its last change to Down.
    pub diagnostic: Diagnostic,
    /// State that the peer last reported.
    pub remote_state: State,
    /// Reason of the peer's last change to Down.
    pub remote_diagnostic: Diagnostic,
    /// Interval at which packets are sent, before jitter; `None` if the peer wants none.
    pub transmit_interval: Option<Duration>,
    /// Silence after which the peer is found dead.
    pub detection_time: Duration,
    /// Number of times that it went from Up to Down.
    pub flaps: u64,
}
