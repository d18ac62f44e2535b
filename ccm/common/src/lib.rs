//! Code that the programs of Windlass share: the words that controller and agents exchange by the cluster's objects, and small helpers.
//!
//! It may know the custom resources, the library of cloud providers, and the units of addresses and of VRRP. It never knows the controller,
//! a node's program or the engine.
//!
//! | module | concept |
//! |---|---|
//! | [`bridges`] | bridges of containers and virtual machines, and interfaces of pods |
//! | [`failures`] | the sentences of `NodeNetwork.spec.failedChecks` |
//! | [`host_pod`] | pods of ours on the host's network, and their image |
//! | [`http`], [`probe`] | health and metrics of a program on a node, and the client that asks for them |
//! | [`label_selector`] | label selectors as the allocator has them |
//! | [`listing`] | lists in messages |
//! | [`priorities`] | the meaning of VRRP priorities |
//! | [`samples`] | metrics that are read when they are asked for |
//! | [`strict`] | writes in which the API server accepts no unknown field |
//! | [`wildcard`] | names with `*` |

pub mod bridges;
pub mod failures;
pub mod host_pod;
pub mod http;
pub mod label_selector;
pub mod listing;
pub mod priorities;
pub mod probe;
pub mod samples;
pub mod strict;
pub mod wildcard;
