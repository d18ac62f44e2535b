//! Authentication of adverts for LANs with untrusted hosts. Off unless configured.
//!
//! The format is that of keepalived 2.4.2 and later (`auth_hmac`) and of the Internet-Draft
//! `draft-cassen-vrrp-auth-hmac`: 28 bytes after the message, the same for both address families.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   Type (1)    |    Key id     |         Reserved (0)          |
//! +---------------+---------------+-------------------------------+
//! |              Seconds since the Unix epoch, UTC                |
//! +-------------------------------+-------------------------------+
//! |   1/65536 s                   |            Counter            |
//! +-------------------------------+-------------------------------+
//! |          HMAC-SHA256, the first 128 bits (16 bytes)           |
//! ```
//!
//! The HMAC covers, in this order:
//! 1. a pseudo header of 20 bytes: address family (4 or 6), VRRP version, VRID, 0, and the source address, with zeros
//!    after it up to 16 bytes: neither another router nor another virtual router can use the trailer;
//! 2. the message with a checksum of 0, because for IPv6 the kernel writes it after signing;
//! 3. the trailer with an HMAC of 0.
//!
//! The checksum of an IPv4 message does not cover the trailer; that of an IPv6 message does, as it does the whole payload.
//!
//! Seconds, fraction and counter are one 64-bit sequence, compared as serial numbers (RFC 1982). A receiver takes an
//! advert if its time is within the window around the own clock and its sequence is above the last one taken from that
//! source. So clocks must agree to within the window, but an advert says nothing about them that must be trusted.
//!
//! | type | does |
//! |---|---|
//! | [`Key`], [`Keyring`] | secrets: one signs, all verify, so that keys can be changed one node at a time |
//! | [`Authenticator`] | the driver's interface: signs and admits the adverts of one virtual router |
//! | [`Signer`], [`Verifier`] | its two halves |
//! | [`Seal`], [`SealedData`] | a trailer for other messages ([`crate::replication`]) with the same keys |

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::time::{Duration, SystemTime};

use crate::units::Interval;

mod authenticator;
mod key;
mod seal;
mod sequence;
mod signer;
#[cfg(test)]
mod tests;
mod trailer;
mod verifier;

pub use authenticator::{Authentication, Authenticator};
pub use key::{InvalidKey, Key, KeyId, Keyring};
pub use seal::{SEAL_LENGTH, Seal, SealedData};
pub use signer::Signer;
pub use trailer::{SignedData, TRAILER_LENGTH, Trailer};
pub use verifier::{VerifiedAdvert, Verifier};

/// Strictness of a router's authentication. To introduce it on running routers without an outage, set `ReceiveOnly` on all of them,
/// then `Permissive` on all, then `Enforce` on all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "the draft has three modes")]
pub enum AuthMode {
    /// Signs; refuses what is not signed.
    #[default]
    Enforce,
    /// Signs; takes adverts without a trailer, refuses a trailer that does not hold.
    Permissive,
    /// Does not sign; takes adverts without a trailer, refuses a trailer that does not hold.
    ReceiveOnly,
}

impl AuthMode {
    /// Returns true if the router signs its own adverts.
    pub fn signs(self) -> bool {
        match self {
            Self::Enforce | Self::Permissive => true,
            Self::ReceiveOnly => false,
        }
    }

    /// Returns true if adverts without a trailer are refused.
    pub fn requires(self) -> bool {
        match self {
            Self::Enforce => true,
            Self::Permissive | Self::ReceiveOnly => false,
        }
    }
}

/// Test by which a replayed advert is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the draft has two modes")]
pub enum AntiReplay {
    /// Its time must be within the window around the own clock, and its sequence must grow. Clocks must agree.
    Window(Window),
    /// Its sequence must grow. For nodes whose clocks differ; adverts that a router sent while this one did not listen can be
    /// replayed to it.
    Monotonic,
}

/// Most that clocks may differ: 1 to 300 seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Window(u16);

/// A number of seconds that is no window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("window of {0} s is out of range: use 1 to 300 s")]
pub struct InvalidWindow(pub u64);

impl Window {
    /// The window of `seconds`, 1 to 300.
    pub fn from_seconds(seconds: u64) -> Result<Self, InvalidWindow> {
        match u16::try_from(seconds) {
            Ok(seconds @ 1..=300) => Ok(Self(seconds)),
            Ok(_) | Err(_) => Err(InvalidWindow(seconds)),
        }
    }

    /// The default for a router of this interval: three intervals, 5 s at least and 300 s at most.
    pub fn for_interval(interval: Interval) -> Self {
        let seconds = (u32::from(interval.centiseconds()) * 3).div_ceil(100).clamp(5, 300);
        Self(u16::try_from(seconds).unwrap_or(300))
    }

    /// In seconds.
    pub fn seconds(self) -> u16 {
        self.0
    }
}

/// An instant of the node's wall clock (UTC), as time since the Unix epoch. Not to be mixed with [`crate::Time`], which
/// never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WallTime(Duration);

impl WallTime {
    /// The instant this long after the Unix epoch.
    pub const fn since_epoch(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<SystemTime> for WallTime {
    /// The epoch itself for a clock that is before it.
    fn from(time: SystemTime) -> Self {
        Self(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }
}

/// Reason to refuse an advert.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// No trailer, and the mode is [`AuthMode::Enforce`].
    #[error(
        "not signed, and mode enforce takes no such advert: set mode permissive until every router signs"
    )]
    Missing,
    /// Another type than 1, or reserved bits in use.
    #[error("trailer of type {kind} with reserved bits {reserved:#06x}: type 1 and 0 expected")]
    Malformed {
        /// Its type.
        kind: u8,
        /// Its reserved field.
        reserved: u16,
    },
    /// Signed by a key that the keyring lacks.
    #[error("signed by key {0}, which this router does not have: give all routers the same keys")]
    UnknownKey(u8),
    /// Its time is outside the window.
    #[error("stamped {skew} s from this clock, {window} s allowed: synchronise the clocks")]
    Stale {
        /// Seconds its time is ahead of the own clock; negative if behind.
        skew: i32,
        /// Seconds allowed.
        window: u16,
    },
    /// The HMAC does not fit: forged, altered, or another secret under the same key id.
    #[error("wrong HMAC: forged, or key {0} is not the same on all routers")]
    InvalidHmac(KeyId),
    /// Its sequence is not above the last one taken from this source.
    #[error("replayed: its sequence {sequence:#018x} is not above {last:#018x}")]
    Replay {
        /// Its sequence.
        sequence: u64,
        /// The last one taken.
        last: u64,
    },
}

impl AuthError {
    /// Labels of all reasons, in the order of [`AuthError::index`].
    pub const LABELS: [&'static str; 6] = [
        "auth_missing",
        "auth_malformed",
        "auth_unknown_key",
        "auth_stale",
        "auth_invalid_hmac",
        "auth_replay",
    ];

    /// Position of the reason in [`AuthError::LABELS`], for tables of counters.
    pub fn index(self) -> usize {
        match self {
            Self::Missing => 0,
            Self::Malformed { .. } => 1,
            Self::UnknownKey(_) => 2,
            Self::Stale { .. } => 3,
            Self::InvalidHmac(_) => 4,
            Self::Replay { .. } => 5,
        }
    }

    /// Short name of the reason, for metrics.
    pub fn label(self) -> &'static str {
        Self::LABELS.get(self.index()).copied().unwrap_or_default()
    }
}
