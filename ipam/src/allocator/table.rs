//! A map from addresses, compact for IPv4.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Values by address. Keys are numbers: half the size of an `IpAddr`, or less, and compared at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table<T> {
    v4: BTreeMap<u32, T>,
    v6: BTreeMap<u128, T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { v4: BTreeMap::new(), v6: BTreeMap::new() }
    }
}

impl<T> Table<T> {
    pub(super) fn get(&self, address: IpAddr) -> Option<&T> {
        match address {
            IpAddr::V4(v4) => self.v4.get(&v4.to_bits()),
            IpAddr::V6(v6) => self.v6.get(&v6.to_bits()),
        }
    }

    pub(super) fn get_mut(&mut self, address: IpAddr) -> Option<&mut T> {
        match address {
            IpAddr::V4(v4) => self.v4.get_mut(&v4.to_bits()),
            IpAddr::V6(v6) => self.v6.get_mut(&v6.to_bits()),
        }
    }

    pub(super) fn insert(&mut self, address: IpAddr, value: T) -> Option<T> {
        match address {
            IpAddr::V4(v4) => self.v4.insert(v4.to_bits(), value),
            IpAddr::V6(v6) => self.v6.insert(v6.to_bits(), value),
        }
    }

    pub(super) fn remove(&mut self, address: IpAddr) -> Option<T> {
        match address {
            IpAddr::V4(v4) => self.v4.remove(&v4.to_bits()),
            IpAddr::V6(v6) => self.v6.remove(&v6.to_bits()),
        }
    }

    /// IPv4 first, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IpAddr, &T)> {
        let v4 = self.v4.iter().map(|(bits, value)| (Ipv4Addr::from_bits(*bits).into(), value));
        v4.chain(self.v6.iter().map(|(bits, value)| (Ipv6Addr::from_bits(*bits).into(), value)))
    }
}
