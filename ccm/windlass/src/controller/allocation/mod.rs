//! Which Service has which address.
//!
//! In: pools, Services, their namespaces and the objects that claim addresses. Out: the ledger, which says who holds what and who
//! waits for it, what a Service asks for, and what pools have to tell. [`ledger`] is changed by what objects and statuses show
//! ([`ownership`], [`rebuild`]) and by what is given ([`assign`]); nothing here calls the API server but the service of
//! `spec.externalIPs` ([`external`]).

pub(crate) mod assign;
pub(crate) mod condition;
pub(crate) mod external;
pub(crate) mod ledger;
pub(crate) mod ownership;
pub(crate) mod pool_metrics;
pub(crate) mod pools;
pub(crate) mod rebuild;
pub(crate) mod request;
pub(crate) mod settings;
pub(crate) mod sources;
pub(crate) mod waiting;
