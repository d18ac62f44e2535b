//! Numbers in names and comments are those of the scenario catalogue, service-contract §4.1 and §4.2.

mod classes;
mod condition;
mod condition_writes;
mod controller;
mod diff;
mod endings;
mod failures;
mod fan_out;
mod faults;
mod jobs;
mod memory;
mod node_updates;
mod nodes;
mod patch;
mod policy;
mod rig;
mod select;
mod vanishing;
