//! The machines behind the nodes.
//!
//! In: Nodes, what their agents report, and what the admin lists in `--cloud-config`. Out: addresses, labels, and whether a
//! machine still exists, for the node controllers; and what of the reports is believed ([`reports`]), for all who read them. Only the
//! file's reader changes the [`inventory`].

pub(crate) mod cloud_config;
pub(crate) mod instances;
pub(crate) mod inventory;
pub(crate) mod report_condition;
pub(crate) mod reports;
pub(crate) mod taken_addresses;
