//! Inputs and outputs of the state machine: adverts received, their outcomes, actions, states and their reasons.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use crate::units::{Interval, Priority, Version};

/// State of a virtual router (RFC 9568 §6.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the RFC has three states")]
pub enum State {
    /// Not taking part.
    Initialize,
    /// Watching the Active.
    Backup,
    /// Serving the addresses.
    Active,
}

impl State {
    /// `initialize`, `backup` or `active`, as RFC 8347 spells them.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Backup => "backup",
            Self::Active => "active",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reason for a change of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TransitionReason {
    /// The router was started.
    Startup,
    /// Started with priority 255: the owner of the addresses need not wait.
    Owner,
    /// Started with addresses that this node served in other virtual routers until then.
    InService,
    /// No advert within the Active_Down_Interval.
    ActiveSilent,
    /// The Active resigned (priority 0).
    ActiveResigned,
    /// The Active has a lower priority than this router, which may preempt it.
    Preempted,
    /// A peer with a better claim is Active.
    SuperiorActive {
        /// The peer.
        source: IpAddr,
        /// Its priority; equal to the own one if its address is higher.
        priority: Priority,
    },
    /// The driver did not run for so long that a peer may have taken over.
    Stalled,
    /// The router was stopped.
    Shutdown,
    /// Its interface can no longer be used.
    InterfaceLost,
}

impl fmt::Display for TransitionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Startup => f.write_str("started"),
            Self::Owner => f.write_str("started as owner of the addresses"),
            Self::InService => {
                f.write_str("started with addresses that this node served in another virtual router")
            }
            Self::ActiveSilent => f.write_str("the Active is silent"),
            Self::ActiveResigned => f.write_str("the Active resigned"),
            Self::Preempted => f.write_str("the Active has a lower priority"),
            Self::SuperiorActive { source, priority } => {
                write!(f, "{source} is Active with priority {priority}")
            }
            Self::Stalled => f.write_str("not run for so long that a peer may have taken over"),
            Self::Shutdown => f.write_str("stopped"),
            Self::InterfaceLost => f.write_str("interface lost"),
        }
    }
}

/// Something the driver must do, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a driver must not overlook an action")]
pub enum Action {
    /// Send an advert with this priority; `None` is priority 0, "I resign". And the same by unicast to the peers of
    /// [`Router::copies`](super::Router::copies).
    SendAdvert {
        /// Priority to send.
        priority: Option<Priority>,
    },
    /// The state changed. To Active: answer for the addresses from now on; from Active: stop answering immediately.
    Transition {
        /// State left.
        from: State,
        /// State entered.
        to: State,
        /// Reason for the change.
        reason: TransitionReason,
    },
    /// Send an advert by unicast to the peers of [`Router::copies`](super::Router::copies) alone: with the own priority the advert
    /// that they missed, with `None` (priority 0) the question for it. Only with
    /// [`Config::unicast_fallback`](super::Config::unicast_fallback).
    SendUnicast {
        /// Priority to send.
        priority: Option<Priority>,
    },
    /// Announce the addresses on the LAN (gratuitous ARP, unsolicited neighbour advertisements).
    Announce(Announce),
}

/// Addresses to announce, and the occasion.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a driver must not overlook an announcement")]
pub enum Announce {
    /// All addresses: this router has just become Active.
    Takeover,
    /// All addresses again: another router also thought it was Active.
    Contention,
    /// These addresses were added while Active.
    Added(BTreeSet<IpAddr>),
}

/// A valid advert of this router's VRID, as received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedAdvert {
    /// Source address of the packet.
    pub source: IpAddr,
    /// Its priority; `None` is priority 0, "I resign".
    pub priority: Option<Priority>,
    /// Its sender's advertisement interval.
    pub interval: Interval,
    /// Its version.
    pub version: Version,
    /// True if it was sent to this router alone.
    pub unicast: bool,
}

/// Outcome of an advert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a driver counts each")]
pub enum AdvertOutcome {
    /// Obeyed: it set a timer or the state.
    Obeyed,
    /// From a peer with an inferior claim; answered if this router is Active (T7, T13).
    Inferior,
    /// In version 2, with another interval than the own: ignored (R11).
    IntervalMismatch,
    /// In version 2, from a peer whose version 3 adverts arrived lately: ignored (RFC 9568 §8.4.2).
    Superseded,
    /// Priority 0 of a peer that is not the Active this router follows: by unicast the question of a peer that this router's
    /// multicast does not reach, by multicast nothing to obey.
    Asked,
    /// Not from a peer: ignored.
    NotAPeer,
    /// From this router's own address: a duplicate address or a looped packet. Ignored (T15).
    OwnAddress,
    /// This router is in Initialize.
    NotRunning,
}
