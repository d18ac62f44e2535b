//! Why no address was given.

use std::fmt;
use std::net::IpAddr;

use crate::Family;

/// Why no address was given; what to change is said with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AllocateError {
    /// No pool that may be used has a free address of the family.
    #[error("no free {family} address{}", why(.considered))]
    Exhausted {
        /// The family asked for.
        family: Family,
        /// Every pool looked at, and why it gave none.
        considered: Vec<Refused>,
    },
    /// The pool asked for does not exist.
    #[error("pool {pool:?} does not exist: {}", known_pools(.known))]
    UnknownPool {
        /// The pool asked for.
        pool: String,
        /// The pools there are.
        known: Vec<String>,
    },
    /// The address asked for is in no pool.
    #[error("address {address} is in no pool: ask for another, or add it to a pool ({})", known_pools(.known))]
    InNoPool {
        /// The address asked for.
        address: IpAddr,
        /// The pools there are.
        known: Vec<String>,
    },
    /// The address asked for is not in the pool asked for.
    #[error("address {address} is not in pool {pool:?} ({range}): ask for another address or another pool")]
    NotInPool {
        /// The address asked for.
        address: IpAddr,
        /// The pool asked for.
        pool: String,
        /// The addresses of that pool.
        range: String,
    },
    /// The address asked for is held by another owner.
    #[error("address {address} is held by another Service: ask for another address, or free this one")]
    Taken {
        /// The address asked for.
        address: IpAddr,
    },
    /// The address asked for is not of the family asked for.
    #[error("address {address} is not an {family} address: ask for one of the Service's own family")]
    WrongFamily {
        /// The address asked for.
        address: IpAddr,
        /// The family asked for.
        family: Family,
    },
}

/// A pool that gave no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub pool: String,
    /// Why it gave none.
    pub why: Refusal,
}

/// Why a pool gave no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It has no address of the family.
    OtherFamily,
    /// It is for owners that name it.
    NotAutoAssign,
    /// All its addresses are in use.
    Full {
        /// How many there are.
        total: u128,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherFamily => f.write_str("has none of that family"),
            Self::NotAutoAssign => f.write_str("is only for Services that name it"),
            Self::Full { total: 1 } => f.write_str("its one address is in use"),
            Self::Full { total } => write!(f, "all {total} addresses are in use"),
        }
    }
}

fn why(considered: &[Refused]) -> String {
    if considered.is_empty() {
        return ": there is no pool; create an IPPool".to_owned();
    }
    let pools: Vec<_> =
        considered.iter().map(|Refused { pool, why }| format!("pool {pool:?}: {why}")).collect();
    format!("; {}: free an address or add some to a pool", pools.join("; "))
}

fn known_pools(known: &[String]) -> String {
    if known.is_empty() { "there is no pool".to_owned() } else { format!("there are {}", known.join(", ")) }
}
