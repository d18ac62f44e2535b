//! The two address families, and addresses as numbers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both, IPv4 first.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Family of `address`.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// `number` as an address of this family. An IPv4 number above 2^32-1 cannot arise: numbers come from [`number`]
    /// or lie between two that do.
    pub(crate) fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => {
                IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).expect("an IPv4 number has 32 bits")))
            }
            Self::V6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
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

/// `address` as a number, in network order.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Which families a Service is to have addresses of, the first one first (`spec.ipFamilyPolicy`, `spec.ipFamilies`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Families {
    /// Only this one.
    Single(Family),
    /// Both if they can be had, else what can be had.
    Prefer([Family; 2]),
    /// Both or nothing.
    Require([Family; 2]),
}

impl Families {
    /// The families, in order.
    pub fn list(&self) -> &[Family] {
        match self {
            Self::Single(family) => std::slice::from_ref(family),
            Self::Prefer(both) | Self::Require(both) => both,
        }
    }

    /// Place of `family` in the order; `None` if it is not asked for.
    pub fn place(&self, family: Family) -> Option<usize> {
        self.list().iter().position(|one| *one == family)
    }
}
