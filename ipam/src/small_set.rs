//! A few addresses.

use std::net::IpAddr;

/// At least one address, ascending; nearly always one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SmallSet {
    One(IpAddr),
    /// Two or more.
    Several(Vec<IpAddr>),
}

impl SmallSet {
    pub(crate) fn as_slice(&self) -> &[IpAddr] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(all) => all,
        }
    }

    /// Adds `address`, if it is not in it.
    pub(crate) fn insert(&mut self, address: IpAddr) {
        let Err(place) = self.as_slice().binary_search(&address) else { return };
        match self {
            Self::One(one) => *self = Self::Several(vec![(*one).min(address), (*one).max(address)]),
            Self::Several(all) => all.insert(place, address),
        }
    }

    /// The same without `address`; `None`: there is no other.
    pub(crate) fn without(&self, address: IpAddr) -> Option<Self> {
        let others = || self.as_slice().iter().copied().filter(|one| *one != address);
        let mut first_two = others().take(2);
        match (first_two.next(), first_two.next()) {
            (None, _) => None,
            (Some(last), None) => Some(Self::One(last)),
            (Some(_), Some(_)) => Some(Self::Several(others().collect())),
        }
    }
}
