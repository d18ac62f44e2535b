//! The load balancer provider: what the service controller calls for each Service.
//!
//! In: a Service to ensure or to clean up. Out: its status and condition ([`outcome`], [`rejection`]), and the calls that claim
//! an address ([`claim`]) or release it ([`release`]). [`upkeep`] does what no Service asks for. [`status_conflict`] handles a
//! status that another controller writes, too. [`instances`] answers the node controllers.

pub(crate) mod claim;
mod instances;
pub(crate) mod load_balancer;
pub(crate) mod node_changes;
pub(crate) mod outcome;
pub(crate) mod rejection;
pub(crate) mod release;
pub(crate) mod status_conflict;
pub(crate) mod upkeep;
pub(crate) mod vip_summary;
