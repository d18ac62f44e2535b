//! A map from addresses, compact for IPv4.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Values by address. Keys are numbers: half the size of an `IpAddr`, or less, and compared at once. Hashed: with a
/// million entries a look-up touches memory once or twice, where a tree touches it at each level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table<T> {
    v4: HashMap<u32, T>,
    v6: HashMap<u128, T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { v4: HashMap::new(), v6: HashMap::new() }
    }
}

impl<T> Table<T> {
    pub(crate) fn get(&self, address: IpAddr) -> Option<&T> {
        match address {
            IpAddr::V4(v4) => self.v4.get(&v4.to_bits()),
            IpAddr::V6(v6) => self.v6.get(&v6.to_bits()),
        }
    }

    pub(crate) fn get_mut(&mut self, address: IpAddr) -> Option<&mut T> {
        match address {
            IpAddr::V4(v4) => self.v4.get_mut(&v4.to_bits()),
            IpAddr::V6(v6) => self.v6.get_mut(&v6.to_bits()),
        }
    }

    pub(crate) fn insert(&mut self, address: IpAddr, value: T) -> Option<T> {
        match address {
            IpAddr::V4(v4) => self.v4.insert(v4.to_bits(), value),
            IpAddr::V6(v6) => self.v6.insert(v6.to_bits(), value),
        }
    }

    pub(crate) fn remove(&mut self, address: IpAddr) -> Option<T> {
        match address {
            IpAddr::V4(v4) => self.v4.remove(&v4.to_bits()),
            IpAddr::V6(v6) => self.v6.remove(&v6.to_bits()),
        }
    }

    /// In no particular order, which differs from run to run.
    pub(crate) fn unordered(&self) -> impl Iterator<Item = (IpAddr, &T)> {
        let v4 = self.v4.iter().map(|(bits, value)| (Ipv4Addr::from_bits(*bits).into(), value));
        v4.chain(self.v6.iter().map(|(bits, value)| (Ipv6Addr::from_bits(*bits).into(), value)))
    }

    /// IPv4 first, ascending. Sorts: O(n log n).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (IpAddr, &T)> {
        let mut all: Vec<_> = self.unordered().collect();
        all.sort_unstable_by_key(|(address, _)| *address);
        all.into_iter()
    }
}
