//! The program on each node, which runs virtual routers by `windlass-engine`. It has two front ends: [`agent`] obeys the objects of a
//! cluster; [`vip`] obeys its flags or a file, and needs no cluster.
//!
//! It may know the engine, the custom resources and `windlass-common`. It never knows the controller.
//!
//! Entry points: [`agent::run`], [`vip::run`], [`vip::manifest()`].

pub mod agent;
pub mod vip;
