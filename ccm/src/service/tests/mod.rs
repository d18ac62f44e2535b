//! Numbers in names and comments are those of the scenario catalogue, service-contract §4.1 and §4.2.

mod classes;
mod condition;
mod controller;
mod diff;
mod endings;
mod failures;
mod fan_out;
mod memory;
mod mishaps;
mod node_updates;
mod nodes;
mod patch;
mod rig;
mod rules;
mod select;
mod state;
mod told;
mod vanishing;
