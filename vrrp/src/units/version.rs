//! Address families and protocol versions.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::{Interval, Priority, Vrid};

/// Address family of a virtual router. Routers of one VRID and different families are independent (RFC 9568 §5.2.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(clippy::exhaustive_enums, reason = "VRRP has two")]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Family of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bytes of an address.
    pub fn address_length(self) -> usize {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
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

impl Vrid {
    /// The virtual router MAC address: 00-00-5E-00-01-{VRID} for IPv4, 00-00-5E-00-02-{VRID} for IPv6 (RFC 9568 §7.3).
    pub fn mac(self, family: Family) -> [u8; 6] {
        let block = match family {
            Family::V4 => 0x01,
            Family::V6 => 0x02,
        };
        [0x00, 0x00, 0x5e, 0x00, block, self.get()]
    }
}

/// Version of an advert.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[expect(clippy::exhaustive_enums, reason = "VRRP has two in use")]
pub enum Version {
    /// VRRPv2 (RFC 3768): IPv4 only, intervals in whole seconds.
    V2,
    /// VRRPv3 (RFC 9568).
    V3,
}

impl Version {
    /// As on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

/// Versions that a virtual router speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "all combinations of two")]
pub enum Versions {
    /// Version 3 alone.
    #[default]
    V3,
    /// Version 2 alone (RFC 3768). IPv4 only.
    V2,
    /// Both, while a group of version 2 routers is replaced (RFC 9568 §8.4). IPv4 only.
    V2AndV3,
}

/// Reason for which these versions cannot serve a virtual router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidVersions {
    /// Version 2 has no IPv6.
    #[error("VRRPv2 carries IPv4 only: use version 3 for an IPv6 virtual router")]
    Family,
    /// Version 2 counts whole seconds.
    #[error(
        "VRRPv2 needs an advertisement interval of whole seconds, {0} is none: use a multiple of 1 s, or version 3"
    )]
    Fraction(Interval),
    /// Version 3 has 12 bits of centiseconds.
    #[error(
        "VRRPv3 carries advertisement intervals up to 40950 ms, not {0}: use a shorter one, or version 2"
    )]
    TooLong(Interval),
}

impl Versions {
    /// Returns true if received adverts of this version are processed.
    pub fn accept(self, version: Version) -> bool {
        match (self, version) {
            (Self::V3 | Self::V2AndV3, Version::V3) | (Self::V2 | Self::V2AndV3, Version::V2) => true,
            (Self::V3, Version::V2) | (Self::V2, Version::V3) => false,
        }
    }

    /// The versions in which each advert is sent.
    pub fn sent(self) -> &'static [Version] {
        match self {
            Self::V3 => &[Version::V3],
            Self::V2 => &[Version::V2],
            Self::V2AndV3 => &[Version::V3, Version::V2],
        }
    }

    /// Returns an error if they cannot carry this family or interval.
    pub fn check(self, family: Family, interval: Interval) -> Result<(), InvalidVersions> {
        let speaks_v2 = self.accept(Version::V2);
        match family {
            Family::V6 if speaks_v2 => return Err(InvalidVersions::Family),
            Family::V4 | Family::V6 => {}
        }
        if speaks_v2 && !interval.centiseconds().is_multiple_of(100) {
            return Err(InvalidVersions::Fraction(interval));
        }
        if self.accept(Version::V3) && interval > Interval::MAX {
            return Err(InvalidVersions::TooLong(interval));
        }
        Ok(())
    }

    /// Skew_Time at this interval (RFC 9568 §6.1). In version 2 it does not depend on the interval (RFC 3768 §6.1).
    pub fn skew(self, interval: Interval, priority: Priority) -> Duration {
        match self {
            Self::V3 | Self::V2AndV3 => interval.skew(priority),
            Self::V2 => Interval::SECOND.skew(priority),
        }
    }

    /// Active_Down_Interval at this interval (RFC 9568 §6.1, RFC 3768 §6.1).
    pub fn active_down(self, interval: Interval, priority: Priority) -> Duration {
        interval.duration().saturating_mul(3).saturating_add(self.skew(interval, priority))
    }
}
