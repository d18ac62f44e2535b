//! Quantities of the protocols as types whose every value is legal.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Add;
use std::time::Duration;

mod prefix;
mod random;
#[cfg(test)]
mod tests;

pub use prefix::{InvalidPrefix, Prefix};
pub use random::Random;

/// Number of an autonomous system, 1 to 4,294,967,295 but for AS_TRANS (RFC 6793 §9, RFC 7607).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Asn(u32);

/// A number that no autonomous system may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("AS {0} is reserved: use 1 to 4294967295, and not 23456 (AS_TRANS, RFC 6793)")]
pub struct InvalidAsn(pub u32);

impl Asn {
    /// AS_TRANS: stands for a number of four bytes where only two fit.
    pub const TRANS: u16 = 23456;

    /// The number `value`, refused if it is 0 or AS_TRANS.
    pub fn new(value: u32) -> Result<Self, InvalidAsn> {
        if value == 0 || value == u32::from(Self::TRANS) { Err(InvalidAsn(value)) } else { Ok(Self(value)) }
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The number in two bytes: AS_TRANS where it does not fit.
    pub fn in_two_bytes(self) -> u16 {
        u16::try_from(self.0).unwrap_or(Self::TRANS)
    }
}

impl fmt::Display for Asn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Hold time in seconds: 0 (the connection is never found dead), or 3 to 65,535 (RFC 4271 §4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HoldTime(u16);

/// A hold time of 1 s or 2 s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("hold time of {0} s is not allowed: use 0 or 3 to 65535 (RFC 4271 §4.2)")]
pub struct InvalidHoldTime(pub u16);

impl HoldTime {
    /// The hold time of `seconds`, refused if 1 or 2.
    pub fn new(seconds: u16) -> Result<Self, InvalidHoldTime> {
        match seconds {
            1 | 2 => Err(InvalidHoldTime(seconds)),
            0 | 3.. => Ok(Self(seconds)),
        }
    }

    /// In seconds.
    pub fn seconds(self) -> u16 {
        self.0
    }

    /// As a duration; `None` if the hold timer does not run.
    pub fn duration(self) -> Option<Duration> {
        (self.0 > 0).then(|| Duration::from_secs(self.0.into()))
    }
}

/// BGP Identifier: any number but 0, written as an IPv4 address (RFC 6286).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RouterId(Ipv4Addr);

/// The identifier 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("router identifier 0.0.0.0 is not allowed (RFC 6286): use an IPv4 address of the node")]
pub struct InvalidRouterId;

impl RouterId {
    /// The identifier `value`, refused if 0.
    pub fn new(value: Ipv4Addr) -> Result<Self, InvalidRouterId> {
        if value.is_unspecified() { Err(InvalidRouterId) } else { Ok(Self(value)) }
    }

    /// The identifier.
    pub fn get(self) -> Ipv4Addr {
        self.0
    }
}

impl fmt::Display for RouterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Address family; unicast routes of each are the only ones that the speaker knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both, in the order in which they are offered.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Address family identifier (RFC 4760).
    pub fn afi(self) -> u16 {
        match self {
            Self::V4 => 1,
            Self::V6 => 2,
        }
    }

    /// The family of this identifier.
    pub fn from_afi(afi: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.afi() == afi)
    }

    /// Length of an address in bits.
    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// An instant: nanoseconds since an epoch the driver chooses (the engine's is that of `CLOCK_BOOTTIME`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The instant `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}
