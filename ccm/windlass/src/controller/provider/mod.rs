//! The contract of a cloud provider: what the service controller is answered for each Service.
//!
//! In: a Service to be served or to be parted from what it has. Out: its status and condition ([`outcome`], [`rejection`]), and
//! the calls that make an address its own ([`claim`]) or take it from it ([`release`]); [`upkeep`] sees to what nobody asks for. [`status_conflict`] says what becomes of a
//! status that another controller writes, too.

pub(crate) mod claim;
pub(crate) mod load_balancer;
pub(crate) mod outcome;
pub(crate) mod rejection;
pub(crate) mod release;
pub(crate) mod status_conflict;
pub(crate) mod upkeep;
