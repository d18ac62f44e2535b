//! Requests of owners, and the plans that answer them.

use std::fmt;
use std::hash::Hash;
use std::net::IpAddr;

use crate::{Families, Family, Requester, Terms};

/// Holder of addresses.
pub trait Owner: Ord + Hash + Clone {
    /// Key that it has in common with owners that it succeeds, as a Service its namespace and name.
    type StableKey: Eq + Hash + Clone + fmt::Debug;

    /// The same for two that are one under two identities, a Service that was deleted and made again under its old name
    /// say: what is kept back for one of them is kept back for the other, too, and what the former one still holds stands
    /// against nothing that the later one asks for.
    fn stable_key(&self) -> Self::StableKey;

    /// The namespace whose limits what it has counts against.
    fn namespace(&self) -> &str;
}

/// A plain name: it succeeds no other owner.
impl Owner for &str {
    type StableKey = Self;

    fn stable_key(&self) -> Self {
        self
    }

    fn namespace(&self) -> &'static str {
        ""
    }
}

/// A plain number: it succeeds no other owner.
impl Owner for u64 {
    type StableKey = Self;

    fn stable_key(&self) -> Self {
        *self
    }

    fn namespace(&self) -> &'static str {
        ""
    }
}

/// Request of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Families asked for.
    pub families: Families,
    /// Number of addresses of each family; at least one.
    pub count: u8,
    /// Addresses asked for by name, and no others: `count` is then ignored.
    pub addresses: Vec<IpAddr>,
    /// Only from this pool, whether it is auto-assign or not.
    pub pool: Option<String>,
    /// Addresses that it is known to have (its Service's status shows them): taken before others, whatever the policies
    /// of their pools, if they can be had.
    pub preferred: Vec<IpAddr>,
    /// Properties of the owner for the selectors of the pools.
    pub requester: Requester,
    /// Use of the addresses and terms of sharing.
    pub terms: Terms,
    /// Addresses that it holds and that are in no pool may be exchanged for others.
    pub may_replace_unpooled: bool,
    /// Addresses that answer `pool` if it holds them, whichever pool has them by now: the pools became others, the request
    /// did not.
    pub given_from_pool: Vec<IpAddr>,
    /// Addresses of those that it succeeds: they come to it as what is kept back for it does.
    pub inherited: Vec<IpAddr>,
}

impl Request {
    /// Any one address of each of `families`, for a requester in `namespace` without labels that shares with no other.
    pub fn any(families: Families, namespace: &str) -> Self {
        Self {
            families,
            count: 1,
            addresses: Vec::new(),
            pool: None,
            preferred: Vec::new(),
            requester: Requester { namespace: namespace.to_owned(), ..Requester::default() },
            terms: Terms::alone(namespace),
            may_replace_unpooled: false,
            given_from_pool: Vec::new(),
            inherited: Vec::new(),
        }
    }
}

/// Addresses that an owner will get.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Every address it is to have, in the order of its families; of one family first those it has.
    pub addresses: Vec<PlannedAddress>,
    /// Addresses that it holds and that are not planned, in ascending order. They stay held until
    /// [`Allocator::release`](crate::Allocator::release).
    pub to_release: Vec<IpAddr>,
    /// Families of which it is to have more than could be had ([`Families::Prefer`] only).
    pub missing: Vec<Family>,
}

/// One address of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedAddress {
    /// The address.
    pub address: IpAddr,
    /// The pool it belongs to; `None` for one that is kept and in no pool.
    pub pool: Option<String>,
    /// Way in which the owner acquires it.
    pub how: Acquisition,
}

/// Way in which an owner acquires an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Acquisition {
    /// It holds it.
    Kept,
    /// It was free.
    New,
    /// Others hold it, and share it.
    Joined,
    /// It was kept back for it, or is held by one that it succeeds.
    Reclaimed,
    /// It was kept back for others, all of which are gone, and no other was free.
    Yielded,
}
