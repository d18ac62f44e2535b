//! Machines behind the nodes.
//!
//! In: Nodes, what their agents report, and what the admin lists in `--cloud-config`. Out: for the node controllers, addresses,
//! labels, and whether a machine still exists; for all readers of the reports, their believed parts ([`reports`]). Only the file's
//! reader changes the [`inventory`].

pub(crate) mod cloud_config;
pub(crate) mod instances;
pub(crate) mod inventory;
pub(crate) mod lans;
pub(crate) mod report_condition;
pub(crate) mod reports;
pub(crate) mod taken_addresses;
