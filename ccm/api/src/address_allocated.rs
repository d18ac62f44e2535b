//! Reasons of the condition [`CONDITION_ADDRESS_ALLOCATED`](crate::CONDITION_ADDRESS_ALLOCATED) on a Service.
//!
//! `True`: the Service has the addresses it asks for, or some of them. `False`: it has none that it asks for.

/// `True`: it has every address it asks for, and each was announced.
pub const ALLOCATED: &str = "Allocated";
/// `True`: it has addresses of which one or more do not work yet.
pub const NOT_ANNOUNCED: &str = "NotAnnounced";
/// `True`: it keeps an address that no pool holds any more.
pub const ADDRESS_OUTSIDE_POOLS: &str = "AddressOutsidePools";
/// `True`: it keeps an address that the pool which it names had when it was given, and has no more.
pub const ADDRESS_IN_OTHER_POOL: &str = "AddressInOtherPool";
/// `True`: it prefers both families, and no pool can give the second one.
pub const FAMILY_MISSING: &str = "FamilyMissing";
/// `False`: no pool that it may use has an address left, or there is no pool.
pub const NO_FREE_ADDRESS: &str = "NoFreeAddress";
/// `False`: the pool it names does not exist.
pub const NO_SUCH_POOL: &str = "NoSuchPool";
/// `False`: a field or annotation of it is malformed or contradicts another.
pub const INVALID_REQUEST: &str = "InvalidRequest";
/// `False`: the address it names is held by another Service or station.
pub const ADDRESS_IN_USE: &str = "AddressInUse";
/// `False`: the Service whose address it is to share does not let it.
pub const SHARING_REFUSED: &str = "SharingRefused";
/// `False`: it may not use the pool it names, or any.
pub const POOL_NOT_ALLOWED: &str = "PoolNotAllowed";
