//! Allocation of addresses to Services.
//!
//! In: pools, Services, their namespaces and the objects that claim addresses. Out: the ledger of holders, waiting Services, the
//! request of a Service, and the status of pools. [`allocation_state`] owns what is known; its [`ledger`] is changed by what objects and
//! statuses show ([`ownership`], [`rebuild`]) and by allocation ([`assign`]). Nothing here calls the API server.

pub(crate) mod allocation_state;
mod assign;
pub(crate) mod condition;
pub(crate) mod external;
mod foreign_services;
pub(crate) mod ledger;
pub(crate) mod ownership;
pub(crate) mod pools;
mod rebuild;
pub(crate) mod request;
pub(crate) mod settings;
mod source_budget;
mod source_elements;
mod sources;
pub(crate) mod traffic;
mod waiting;
