//! The program on each node, which runs virtual routers by `windlass-engine`. It has two front ends: [`agent`] follows the objects of a
//! cluster; [`vip`] follows its flags or a file, and needs no cluster.
//!
//! It may depend on the engine, the custom resources and `windlass-common`, never on the controller.
//!
//! Entry points: [`agent::run`], [`vip::run`], [`vip::manifest()`].

pub mod agent;
pub mod vip;
