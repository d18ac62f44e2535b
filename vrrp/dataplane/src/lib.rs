//! Rules and routes that the kernel applies to packets for VIPs, beside kube-proxy. The crate knows no virtual routers and no threads.
//!
//! | module | contains |
//! |---|---|
//! | [`guard`] | the nftables table that refuses packets to a VIP that no Service takes, and forwards connections of the previous Active |
//! | [`restriction`] | the ports of VIPs and their permitted clients, which the guard enforces |
//! | [`sharing`] | the nftables table that sends packets for shared VIPs to the node that serves them |
//! | [`balance`] | the nftables table that balances connections to VIPs without kube-proxy |
//! | [`marked_ways`] | the routing rules and routes for packets with a mark |
//! | [`way_back`] | echo requests that show whether answers to this node's address arrive by its LAN |
//!
//! All of it acts in the network namespace of the calling thread.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod balance;
pub mod guard;
pub mod marked_ways;
pub mod restriction;
pub mod sharing;
pub mod way_back;

#[cfg(test)]
#[path = "../../kernel/tests/lab/mod.rs"]
#[allow(dead_code, reason = "made for tests of the kernel crate and of the engine too")]
mod lab;
