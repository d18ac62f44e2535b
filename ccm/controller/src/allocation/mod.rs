//! Allocation of addresses to Services.
//!
//! In: pools, Services, their namespaces and the objects that claim addresses. Out: the ledger of holders, waiting Services, the
//! request of a Service, and the status of pools. [`ledger`] is changed by what objects and statuses show ([`ownership`],
//! [`rebuild`]) and by allocation ([`assign`]); only [`external`], for `spec.externalIPs`, calls the API server.

pub(crate) mod assign;
pub(crate) mod condition;
pub(crate) mod external;
pub(crate) mod foreign_services;
pub(crate) mod ledger;
pub(crate) mod ownership;
pub(crate) mod pool_metrics;
pub(crate) mod pools;
pub(crate) mod rebuild;
pub(crate) mod request;
pub(crate) mod settings;
pub(crate) mod source_budget;
pub(crate) mod source_elements;
pub(crate) mod sources;
pub(crate) mod traffic;
pub(crate) mod waiting;
