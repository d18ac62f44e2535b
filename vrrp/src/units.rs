//! Quantities of the protocol as types whose every value is legal.

use std::fmt;
use std::num::NonZeroU8;
use std::ops::Add;
use std::time::Duration;

#[cfg(test)]
mod tests;
mod version;

pub use version::{Family, InvalidVersions, Version, Versions};

/// Virtual router identifier, 1 to 255, unique per LAN and address family (RFC 9568 §5.2.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Vrid(NonZeroU8);

/// A number that is no VRID.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("VRID {0} is out of range: use 1 to 255")]
pub struct InvalidVrid(pub u32);

impl Vrid {
    /// The lowest.
    pub const MIN: Self = Self(NonZeroU8::MIN);

    /// The VRID `value`, refused if 0.
    pub fn new(value: u8) -> Result<Self, InvalidVrid> {
        NonZeroU8::new(value).map(Self).ok_or(InvalidVrid(u32::from(value)))
    }

    /// The number, 1 to 255.
    pub fn get(self) -> u8 {
        self.0.get()
    }
}

impl TryFrom<u8> for Vrid {
    type Error = InvalidVrid;
    fn try_from(value: u8) -> Result<Self, InvalidVrid> {
        Self::new(value)
    }
}

impl TryFrom<u32> for Vrid {
    type Error = InvalidVrid;
    fn try_from(value: u32) -> Result<Self, InvalidVrid> {
        u8::try_from(value).map_err(|_| InvalidVrid(value)).and_then(Self::new)
    }
}

impl fmt::Display for Vrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Priority of a router that takes part, 1 to 255 (RFC 9568 §5.2.4). 0 on the wire means "I resign" and is not a
/// priority one can have: adverts carry an `Option<Priority>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority(NonZeroU8);

/// A number that is no priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("priority {0} is out of range: use 1 to 255 (0 is reserved for resigning, RFC 9568 §5.2.4)")]
pub struct InvalidPriority(pub u32);

impl Priority {
    /// Priority of the router that owns the addresses; it is Active as soon as it starts.
    pub const OWNER: Self = Self(NonZeroU8::MAX);
    /// 1.
    pub const LOWEST: Self = Self(NonZeroU8::MIN);
    /// The default of a router that does not own the addresses (RFC 9568 §6.1).
    pub const DEFAULT: Self = match NonZeroU8::new(100) {
        Some(value) => Self(value),
        None => Self::OWNER,
    };

    /// The priority `value`, refused if 0.
    pub fn new(value: u8) -> Result<Self, InvalidPriority> {
        NonZeroU8::new(value).map(Self).ok_or(InvalidPriority(u32::from(value)))
    }

    /// The number, 1 to 255.
    pub fn get(self) -> u8 {
        self.0.get()
    }
}

impl TryFrom<u8> for Priority {
    type Error = InvalidPriority;
    fn try_from(value: u8) -> Result<Self, InvalidPriority> {
        Self::new(value)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Advertisement interval: 1 to 4095 centiseconds (RFC 9568 §5.2.7, erratum 8301), or 1 to 255 s as version 2 has it (RFC
/// 3768 §5.3.7). [`Versions::check`] tests whether a version can carry it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Interval(u16);

/// A time that is no advertisement interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidInterval {
    /// Not 1 to 4095 centiseconds.
    #[error("advertisement interval of {0} centiseconds is out of range: use 1 to 4095")]
    Centiseconds(u16),
    /// Not 10 to 40950 milliseconds.
    #[error("advertisement interval of {0} ms is out of range: use 10 to 40950 ms")]
    Range(u32),
    /// Not a whole number of centiseconds.
    #[error(
        "advertisement interval of {0} ms is not a multiple of 10 ms, the protocol's unit (RFC 9568 §5.2.7)"
    )]
    Granularity(u32),
}

impl Interval {
    /// Shortest interval.
    pub const MIN: Self = Self(1);
    /// Longest interval the 12-bit field of version 3 can hold.
    pub const MAX: Self = Self(4095);
    /// The default of the RFC (RFC 9568 §6.1).
    pub const SECOND: Self = Self(100);

    /// From centiseconds, 1 to 4095.
    pub fn from_centiseconds(value: u16) -> Result<Self, InvalidInterval> {
        match value {
            1..=4095 => Ok(Self(value)),
            _ => Err(InvalidInterval::Centiseconds(value)),
        }
    }

    /// From milliseconds, 10 to 40950, a multiple of 10.
    pub fn from_millis(value: u32) -> Result<Self, InvalidInterval> {
        if !(10..=40950).contains(&value) {
            return Err(InvalidInterval::Range(value));
        }
        if !value.is_multiple_of(10) {
            return Err(InvalidInterval::Granularity(value));
        }
        u16::try_from(value / 10).map(Self).map_err(|_| InvalidInterval::Range(value))
    }

    /// From whole seconds, as version 2 encodes them; refused if 0.
    pub fn from_seconds(value: u8) -> Result<Self, InvalidInterval> {
        match value {
            0 => Err(InvalidInterval::Centiseconds(0)),
            _ => Ok(Self(u16::from(value) * 100)),
        }
    }

    /// In whole seconds, rounded down; at most 255.
    pub fn seconds(self) -> u8 {
        u8::try_from(self.0 / 100).unwrap_or(u8::MAX)
    }

    /// In centiseconds.
    pub fn centiseconds(self) -> u16 {
        self.0
    }

    /// In milliseconds.
    pub fn millis(self) -> u32 {
        u32::from(self.0) * 10
    }

    /// As a duration.
    pub fn duration(self) -> Duration {
        Duration::from_millis(u64::from(self.0) * 10)
    }

    /// Skew_Time of a router of this priority (RFC 9568 §6.1). Multiplied first and in nanoseconds: centiseconds would
    /// make it 0 at the shortest interval and lose the order in which Backups take over.
    pub fn skew(self, priority: Priority) -> Duration {
        let nanos = u64::from(self.0) * 10_000_000;
        Duration::from_nanos(256_u64.saturating_sub(priority.get().into()).saturating_mul(nanos) / 256)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.millis())
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
