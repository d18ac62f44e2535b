//! Reasons why no address was given.

use std::fmt;
use std::net::IpAddr;

use super::Counts;
use crate::{Family, Incompatible, Pool, QuarantineCause, Quarantined};

/// Reason why no address was given, with the remedy in its message. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError<O> {
    /// No pool that may be used has enough free addresses of the family.
    #[error("{}{}{}", shortage(*.family, *.wanted), why(.considered), not_joined(.sharing_conflicts))]
    NoFreeAddress {
        /// The family asked for.
        family: Family,
        /// Addresses of it that are wanted besides those that could be had by keeping, reclaiming and joining.
        wanted: usize,
        /// Every pool, in the order of the search, with its reason.
        considered: Vec<PoolRefusal>,
        /// Addresses with the same sharing key that could not be joined, the lowest first.
        sharing_conflicts: Vec<SharingConflict<O>>,
    },
    /// The pool asked for does not exist.
    #[error("pool {pool:?} does not exist: {}", known_pools(.known))]
    NoSuchPool {
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
    /// The address asked for does not belong to the pool asked for.
    #[error(
        "address {address} is not in pool {pool:?} ({range}): ask for another address or another pool{}",
        belongs(.belongs_to.as_deref())
    )]
    NotInPool {
        /// The address asked for.
        address: IpAddr,
        /// The pool asked for.
        pool: String,
        /// The addresses of that pool.
        range: String,
        /// The pool it belongs to.
        belongs_to: Option<String>,
    },
    /// The address asked for is in a pool that does not give it to this Service.
    #[error("address {address} cannot be given: {refusal}")]
    PoolRefuses {
        /// The address asked for.
        address: IpAddr,
        /// Its pool, with the reason.
        refusal: Box<PoolRefusal>,
    },
    /// The address asked for is never given.
    #[error("address {address} of pool {pool:?} is reserved and never given: ask for another address")]
    Reserved {
        /// The address asked for.
        address: IpAddr,
        /// Its pool.
        pool: String,
    },
    /// The address asked for is held by another, and this Service asks for no sharing.
    #[error(
        "address {address} is held by Service {holder}: ask for another address, free this one, or give both Services \
         one sharing key"
    )]
    Taken {
        /// The address asked for.
        address: IpAddr,
        /// Its first holder.
        holder: O,
    },
    /// The address asked for is held by another, and cannot be shared with it.
    #[error("address {address} cannot be shared with Service {holder}: {why}")]
    SharingRefused {
        /// The address asked for.
        address: IpAddr,
        /// The holder that prevents it.
        holder: O,
        /// Reason.
        why: Incompatible,
    },
    /// The address asked for is kept back from this owner.
    #[error("address {address} cannot be given for now: {}", kept_back(.quarantined))]
    Quarantined {
        /// The address asked for.
        address: IpAddr,
        /// Its quarantine: the cause and the end.
        quarantined: Quarantined<O>,
    },
    /// The address asked for is of a family that is not asked for.
    #[error("address {address} is not an {} address: ask for one of the Service's own family", either(.families))]
    WrongFamily {
        /// The address asked for.
        address: IpAddr,
        /// The families asked for.
        families: Vec<Family>,
    },
    /// The families are required, and addresses are named of one only.
    #[error("no {family} address is named, and the Service requires both families: name one of each")]
    FamilyNotNamed {
        /// The family without an address.
        family: Family,
    },
    /// An address is named twice.
    #[error("address {address} is named twice: name it once")]
    NamedTwice {
        /// The address.
        address: IpAddr,
    },
    /// No address is asked for.
    #[error("0 addresses are asked for: ask for 1 or more")]
    NothingWanted,
}

/// A pool that gave no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRefusal {
    /// Its name.
    pub pool: String,
    /// Reason why it gave none.
    pub why: RefusalReason,
    /// Namespaces or labels that may use it, in words, if it does not admit this owner.
    pub admits: Option<String>,
    /// Its counts for the family asked for; zero without a family.
    pub counts: Counts,
}

impl PoolRefusal {
    /// Refusal of `pool` for this reason.
    pub fn new(pool: &Pool, why: RefusalReason) -> Self {
        let admits = match why {
            RefusalReason::OtherNamespace => Some(pool.policy.admitted_namespaces()),
            RefusalReason::OtherLabels => Some(pool.policy.admitted_labels()),
            RefusalReason::NotNamed
            | RefusalReason::OtherFamily
            | RefusalReason::NotAutoAssign
            | RefusalReason::Disabled
            | RefusalReason::Confined
            | RefusalReason::NamespaceLimit { .. }
            | RefusalReason::OwnerLimit { .. }
            | RefusalReason::Full
            | RefusalReason::TooFew { .. } => None,
        };
        Self { pool: pool.name.clone(), why, admits, counts: Counts::default() }
    }
}

impl fmt::Display for PoolRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, why, admits, counts } = self;
        write!(f, "pool {pool:?} {why}")?;
        if *why == RefusalReason::Full {
            write!(f, " ({})", whereabouts(*counts))?;
        }
        admits.as_ref().map_or(Ok(()), |admits| write!(f, " (only {admits})"))
    }
}

/// An address that could not be joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingConflict<O> {
    /// The address.
    pub address: IpAddr,
    /// The holder that prevents it.
    pub holder: O,
    /// Reason.
    pub why: Incompatible,
}

/// Reason why a pool gave no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// The request names another pool.
    NotNamed,
    /// It has no address of the family.
    OtherFamily,
    /// It is for owners that name it.
    NotAutoAssign,
    /// It gives nothing new.
    Disabled,
    /// It is not for this namespace.
    OtherNamespace,
    /// It is not for Services with these labels.
    OtherLabels,
    /// Another pool is for this namespace, and is to be the only source of its addresses.
    Confined,
    /// The namespace has as many addresses of the family as the pool allows, those that are kept back included.
    NamespaceLimit {
        /// Limit of the pool.
        limit: u32,
        /// Addresses that the namespace has.
        used: usize,
    },
    /// The owner has as many addresses of the family as the pool allows, those that are kept back included.
    OwnerLimit {
        /// Limit of the pool.
        limit: u32,
        /// Addresses that the owner has.
        used: usize,
    },
    /// All its addresses are in use, kept back or reserved: [`PoolRefusal::counts`].
    Full,
    /// It has fewer than are wanted, also together with the others.
    TooFew {
        /// Number of addresses that can be given.
        free: u128,
    },
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNamed => f.write_str("is not the one asked for"),
            Self::OtherFamily => f.write_str("has none of that family"),
            Self::NotAutoAssign => f.write_str("is only for Services that name it"),
            Self::Disabled => f.write_str("is disabled"),
            Self::OtherNamespace => f.write_str("is not for Services of this namespace"),
            Self::OtherLabels => f.write_str("is not for Services with these labels"),
            Self::Confined => f.write_str("is not for Services that have a pool of their own"),
            Self::NamespaceLimit { limit, used } => write!(
                f,
                "gives the Services of a namespace {limit} of a family at most, and those of this one have \
                 {used}, including quarantined ones"
            ),
            Self::OwnerLimit { limit, used } => write!(
                f,
                "gives a Service {limit} of a family at most, and this one has {used}, including quarantined \
                 ones"
            ),
            Self::Full => f.write_str("has no free address"),
            Self::TooFew { free } => write!(f, "has only {free} free"),
        }
    }
}

/// Returns a description of the use of a pool's addresses, none of which is free.
fn whereabouts(counts: Counts) -> String {
    let used = if counts.quarantined == 0 { "in use" } else { "in use or kept back" };
    let returning = counts.returning();
    match (counts.total, returning) {
        (1, 0) => "its one is reserved".to_owned(),
        (1, _) => format!("its one is {used}"),
        (total, 0) => format!("all {total} are reserved"),
        (total, _) if returning == total => format!("all {total} are {used}"),
        (total, _) => format!("{returning} of {total} are {used}, the others reserved"),
    }
}

fn shortage(family: Family, wanted: usize) -> String {
    match wanted {
        1 => format!("no free {family} address"),
        more => format!("no {more} free {family} addresses"),
    }
}

fn why(considered: &[PoolRefusal]) -> String {
    if considered.is_empty() {
        return ": there is no pool; create a VirtualIPPool".to_owned();
    }
    let pools: Vec<_> = considered.iter().map(PoolRefusal::to_string).collect();
    format!("; {}: {}", pools.join("; "), remedy(considered))
}

/// Returns the remedy where these pools gave nothing: the smallest change that would help. Freeing an address helps only if it can be
/// given again, and admission to a pool only if it has a free one.
fn remedy(considered: &[PoolRefusal]) -> &'static str {
    let any = |is: fn(&PoolRefusal) -> bool| considered.iter().any(is);
    let offers = |is: fn(RefusalReason) -> bool| {
        considered.iter().any(|refused| is(refused.why) && refused.counts.available() > 0)
    };
    if any(|one| matches!(one.why, RefusalReason::NamespaceLimit { .. } | RefusalReason::OwnerLimit { .. })) {
        "free one that counts, or have the pool's limit raised"
    } else if any(|one| {
        matches!(one.why, RefusalReason::Full | RefusalReason::TooFew { .. }) && one.counts.returning() > 0
    }) {
        "free an address or add some to a pool"
    } else if offers(|why| matches!(why, RefusalReason::OtherNamespace | RefusalReason::OtherLabels)) {
        "give the Service or its namespace labels that a pool selects, or have a pool select it"
    } else if offers(|why| why == RefusalReason::NotAutoAssign) {
        "name one of them, or let one give to Services that name none"
    } else if offers(|why| why == RefusalReason::Disabled) {
        "enable one, or add another pool"
    } else if offers(|why| matches!(why, RefusalReason::TooFew { .. })) {
        "ask for fewer or add some to a pool"
    } else {
        "add addresses of that family to a pool"
    }
}

fn not_joined<O: fmt::Display>(sharing_conflicts: &[SharingConflict<O>]) -> String {
    let sentence = |SharingConflict { address, holder, why }: &SharingConflict<O>| {
        format!("; {address} of Service {holder} cannot be shared: {why}")
    };
    sharing_conflicts.iter().map(sentence).collect::<Vec<_>>().concat()
}

fn known_pools(known: &[String]) -> String {
    if known.is_empty() { "there is no pool".to_owned() } else { format!("there are {}", known.join(", ")) }
}

fn belongs(pool: Option<&str>) -> String {
    pool.map_or_else(String::new, |pool| format!(" (it belongs to pool {pool:?})"))
}

fn kept_back<O: fmt::Display>(quarantined: &Quarantined<O>) -> String {
    match (quarantined.reason, quarantined.former.as_slice()) {
        (QuarantineCause::Released, []) => {
            "it was released a short time ago: wait, or ask for another address".to_owned()
        }
        (QuarantineCause::Released, [former]) => format!(
            "Service {former} released it a short time ago, and its pool keeps it for that Service: wait, or \
             ask for another address"
        ),
        (QuarantineCause::Released, [former, others @ ..]) => format!(
            "Service {former} and {} more released it a short time ago, and its pool keeps it for them: \
             wait, or ask for another address",
            others.len()
        ),
        (QuarantineCause::AddressTaken, _) => {
            "another host on the LAN uses it: free it there, or ask for another address".to_owned()
        }
    }
}

fn either(families: &[Family]) -> String {
    families.iter().map(Family::to_string).collect::<Vec<_>>().join(" or ")
}
