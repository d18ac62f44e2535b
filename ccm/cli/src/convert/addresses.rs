//! Ranges of addresses: as MetalLB reads them, and as a `VirtualIPPool` takes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use windlass_ipam::{AddressRange, ParseRangeError};

use super::input::template;

/// Reason why a range is left out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RangeError {
    #[error(transparent)]
    Unusable(#[from] ParseRangeError),
    #[error("{0:?} is a template: render it first, for example with `helm template` or envsubst")]
    Template(String),
}

/// Addresses from `first` to `last`, of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    first: IpAddr,
    last: IpAddr,
    /// The range was written as this subnet.
    subnet: Option<IpNet>,
}

impl Range {
    /// Reads a range as MetalLB does: blanks around `-` and bits behind a prefix do not matter. An address alone, which
    /// MetalLB refuses, is a range of one.
    pub(super) fn read(text: &str) -> Result<Self, RangeError> {
        if template(text).is_some() || text.starts_with('$') {
            return Err(RangeError::Template(text.to_owned()));
        }
        let subnet = text.trim().parse::<IpNet>().ok().map(|subnet| subnet.trunc());
        let range: AddressRange =
            subnet.map_or_else(|| text.to_owned(), |subnet| subnet.to_string()).parse()?;
        Ok(Self { first: range.first(), last: range.last(), subnet })
    }

    /// The range of one address.
    pub(super) const fn of(address: IpAddr) -> Self {
        Self { first: address, last: address, subnet: None }
    }

    /// The ranges in ascending order, those that adjoin as one. Subnets stay as they are.
    pub(super) fn joined(mut ranges: Vec<Self>) -> Vec<Self> {
        ranges.sort_unstable_by_key(|range| range.first);
        let mut joined: Vec<Self> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(before)
                    if before.is_loose() && range.is_loose() && after(before.last) == Some(range.first) =>
                {
                    *before = Self { first: before.first, last: range.last, subnet: None };
                }
                Some(_) | None => joined.push(range),
            }
        }
        joined
    }

    /// True of a range that was not written as a subnet, and of a single address.
    fn is_loose(self) -> bool {
        self.subnet.is_none() || self.first == self.last
    }

    /// Returns the subnet if `text` is a subnet written with bits set behind its prefix.
    pub(super) fn subnet_of_host(text: &str) -> Option<IpNet> {
        let subnet: IpNet = text.trim().parse().ok()?;
        (subnet.addr() != subnet.network()).then(|| subnet.trunc())
    }

    /// All but the first and the last address of a subnet that has more than two.
    pub(super) fn without_ends(self) -> Self {
        match (self.subnet, after(self.first), before(self.last)) {
            (Some(_), Some(first), Some(last)) if first <= last => Self { first, last, subnet: None },
            (_, _, _) => self,
        }
    }

    pub(super) fn contains(self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Returns the parts of the range that are in none of `others`, in ascending order.
    pub(super) fn without(self, others: &[Self]) -> Vec<Self> {
        let mut left = vec![self];
        for other in others.iter().filter(|other| other.first.is_ipv4() == self.first.is_ipv4()) {
            left = left.into_iter().flat_map(|part| part.minus(*other)).collect();
        }
        left
    }

    fn minus(self, other: Self) -> Vec<Self> {
        if other.last < self.first || self.last < other.first {
            return vec![self];
        }
        let before = (self.first < other.first).then(|| before(other.first)).flatten().map(|last| Self {
            last,
            subnet: None,
            ..self
        });
        let after = (other.last < self.last).then(|| after(other.last)).flatten().map(|first| Self {
            first,
            subnet: None,
            ..self
        });
        before.into_iter().chain(after).collect()
    }

    /// As a `VirtualIPPool` takes it. `ends_usable`: its ends may not be taken for those of a subnet, which
    /// `avoidReserved` leaves out, except where they end in .0 and .255 anyway.
    pub(super) fn written(self, ends_usable: bool) -> String {
        let Self { first, last, subnet } = self;
        if first == last {
            return format!("{first}/{}", if first.is_ipv4() { 32 } else { 128 });
        }
        match subnet {
            Some(subnet) if !ends_usable || (first.is_ipv4() && subnet.prefix_len() <= 24) => {
                subnet.to_string()
            }
            Some(_) | None => format!("{first}-{last}"),
        }
    }
}

fn before(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(four) => four.to_bits().checked_sub(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(six) => six.to_bits().checked_sub(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(four) => four.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(six) => six.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

#[cfg(test)]
mod tests;
