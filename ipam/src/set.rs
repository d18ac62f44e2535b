//! A set of addresses of both families, with the arithmetic that pools need.

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

use crate::family::number;
use crate::runs::Runs;
use crate::{AddressRange, Family};

/// Any number of addresses, kept as ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressSet {
    v4: Runs,
    v6: Runs,
}

impl AddressSet {
    pub(crate) const fn runs(&self, family: Family) -> &Runs {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    const fn runs_mut(&mut self, family: Family) -> &mut Runs {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// Adds the addresses of `range`.
    pub fn insert(&mut self, range: AddressRange) {
        self.runs_mut(range.family()).insert(number(range.first()), number(range.last()));
    }

    /// Takes the addresses of `range` out.
    pub fn remove(&mut self, range: AddressRange) {
        self.runs_mut(range.family()).remove(number(range.first()), number(range.last()));
    }

    /// Adds one address.
    pub fn insert_address(&mut self, address: IpAddr) {
        self.insert(AddressRange::single(address));
    }

    /// Takes one address out.
    pub fn remove_address(&mut self, address: IpAddr) {
        self.remove(AddressRange::single(address));
    }

    /// Returns true if it holds `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.runs(Family::of(address)).contains(number(address))
    }

    /// Adds every address of `other`.
    pub fn extend(&mut self, other: &Self) {
        for family in Family::ALL {
            for (first, last) in other.runs(family).iter() {
                self.runs_mut(family).insert(first, last);
            }
        }
    }

    /// Takes every address of `other` out.
    pub fn subtract(&mut self, other: &Self) {
        for family in Family::ALL {
            for (first, last) in other.runs(family).iter() {
                self.runs_mut(family).remove(first, last);
            }
        }
    }

    /// The addresses that both hold.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for family in Family::ALL {
            for (first, last) in other.runs(family).iter() {
                for (first, last) in self.runs(family).within(first, last) {
                    both.runs_mut(family).insert(first, last);
                }
            }
        }
        both
    }

    /// Addresses of the set that lie in `range`.
    #[must_use]
    pub fn within(&self, range: AddressRange) -> Self {
        let mut part = Self::default();
        let family = range.family();
        for (first, last) in self.runs(family).within(number(range.first()), number(range.last())) {
            part.runs_mut(family).insert(first, last);
        }
        part
    }

    /// Addresses of the set that are of `family`.
    #[must_use]
    pub fn of(&self, family: Family) -> Self {
        let mut part = Self::default();
        part.runs_mut(family).clone_from(self.runs(family));
        part
    }

    /// Number of its addresses of `family`.
    pub const fn count(&self, family: Family) -> u128 {
        self.runs(family).count()
    }

    /// Returns true if it holds no address.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Its addresses as the fewest CIDRs, IPv4 first, in ascending order.
    pub fn cidrs(&self) -> impl Iterator<Item = IpNet> {
        self.ranges()
            .filter_map(|(first, last)| match (first, last) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    Some(IpSubnets::V4(Ipv4Subnets::new(first, last, 0)))
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    Some(IpSubnets::V6(Ipv6Subnets::new(first, last, 0)))
                }
                // Both ends of a range are of one family.
                (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
            })
            .flatten()
    }

    /// Its addresses as the fewest ranges, IPv4 first, in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        Family::ALL.into_iter().flat_map(|family| {
            self.runs(family).iter().map(move |(first, last)| (family.address(first), family.address(last)))
        })
    }
}

impl FromIterator<AddressRange> for AddressSet {
    fn from_iter<I: IntoIterator<Item = AddressRange>>(ranges: I) -> Self {
        let mut set = Self::default();
        for range in ranges {
            set.insert(range);
        }
        set
    }
}

impl FromIterator<IpAddr> for AddressSet {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Self {
        addresses.into_iter().map(AddressRange::single).collect()
    }
}

impl fmt::Display for AddressSet {
    /// `192.0.2.1, 192.0.2.10-192.0.2.20`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}
