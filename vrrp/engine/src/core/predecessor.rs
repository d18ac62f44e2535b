//! Node from which a router takes over, and whether it can have served the addresses. If not, they may be another host's: a peer that
//! became Active a moment ago is still probing.

use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::{Interval, Time};

#[cfg(test)]
mod tests;

/// An Active is heard at least each so many halves of its interval, if it was there before: the one to come, and half of
/// one for what delays it.
const HALF_INTERVALS: u32 = 3;
/// Number of its probe times after which a peer has probed for its addresses: it may have waited for one before it.
const PROBE_TIMES: u32 = 2;

/// Kind of Active before a takeover.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Predecessor {
    /// No peer.
    #[default]
    Nobody,
    /// A peer, for so short a time that it may have been probing still.
    Recent,
    /// A peer that claimed what it was going to claim.
    Established,
}

/// Node that had the addresses until a takeover, and may still have the connections of that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum HandedOverBy {
    /// Nobody: there was no Active on this LAN.
    #[default]
    Nobody,
    /// This peer, which stopped sending: its node is dead, or only its VRRP process.
    SilentPeer(IpAddr),
    /// This peer, which resigned or was preempted.
    Peer(IpAddr),
    /// This node itself, in another virtual router.
    ThisNode,
}

/// Record of peers as Active since a router was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PredecessorTracker {
    started: Time,
    peer_active: PeerActive,
    /// The peer that was preempted, and until when it yields.
    preempted: Option<(IpAddr, Time)>,
}

/// Since when a peer has been Active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum PeerActive {
    /// None was heard.
    #[default]
    Never,
    /// The first was silent until then, for longer than an Active is.
    Since(Time),
    /// It, or this node in another router, was there when the router was started.
    BeforeStart,
}

impl PredecessorTracker {
    /// Returns the tracker of a router that is started now.
    pub(crate) fn started(now: Time) -> Self {
        Self { started: now, ..Self::default() }
    }

    /// Returns the tracker of a router whose addresses this node served in another until now: no other host has them.
    pub(crate) fn in_service(now: Time) -> Self {
        Self { started: now, peer_active: PeerActive::BeforeStart, preempted: None }
    }

    /// Records a peer's advert with this interval in it.
    pub(crate) fn heard(&mut self, interval: Interval, now: Time) {
        self.peer_active = match self.peer_active {
            PeerActive::Never
                if now.since(self.started).saturating_mul(2)
                    <= interval.duration().saturating_mul(HALF_INTERVALS) =>
            {
                PeerActive::BeforeStart
            }
            PeerActive::Never => PeerActive::Since(now),
            PeerActive::Since(_) | PeerActive::BeforeStart => return,
        };
    }

    /// Records that a router has become Active, by preempting this peer if any, which yields when it receives the first advert: sooner than
    /// after `interval`.
    pub(crate) fn took_over(&mut self, preempted: Option<IpAddr>, interval: Interval, now: Time) {
        self.preempted = preempted.map(|peer| (peer, now + interval.duration()));
    }

    /// Returns true if an advert of a lesser Active is the last one of the peer that was preempted (T12): part of each ordinary move, and
    /// no sign that two were Active.
    pub(crate) fn yields(&self, source: IpAddr, now: Time) -> bool {
        self.preempted.is_some_and(|(peer, until)| peer == source && now <= until)
    }

    /// Returns the kind of Active until now, where all nodes probe for `probe`.
    pub(crate) fn at_takeover(&self, probe: Option<Duration>, now: Time) -> Predecessor {
        match self.peer_active {
            PeerActive::Never => Predecessor::Nobody,
            PeerActive::Since(since)
                if now.since(since) < probe.unwrap_or_default().saturating_mul(PROBE_TIMES) =>
            {
                Predecessor::Recent
            }
            PeerActive::Since(_) | PeerActive::BeforeStart => Predecessor::Established,
        }
    }
}
