//! A named set of addresses.

use crate::{AddressRange, AddressSet};

/// Addresses to give, under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name, unique in an allocator.
    pub name: String,
    /// Its addresses.
    pub addresses: AddressSet,
    /// Whether owners that name no pool may get an address from here.
    pub auto_assign: bool,
}

impl Pool {
    /// A pool of `ranges`.
    pub fn new(
        name: impl Into<String>,
        ranges: impl IntoIterator<Item = AddressRange>,
        auto_assign: bool,
    ) -> Self {
        Self { name: name.into(), addresses: ranges.into_iter().collect(), auto_assign }
    }
}
