//! Kernel interface of VRRP on Linux: sockets, clocks and netlink. It knows no threads and decides nothing.
//!
//! | module | speaks to |
//! |---|---|
//! | [`netlink`], [`interfaces`] | route netlink: interfaces, addresses, routes and rules |
//! | [`netfilter`], [`forward_policy`] | nf_tables |
//! | [`connections`] | connection tracking |
//! | [`sockets`] | raw and packet sockets of an interface, with their filters |
//! | [`tcp`] | outgoing TCP connections of routing protocols |
//! | [`bfd`] | UDP sockets of BFD |
//! | [`clock`], [`poll`], [`receive_buffer`], [`sys`] | system calls |
//!
//! All of it acts in the network namespace of the thread that opens a socket.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod bfd;
pub mod clock;
pub mod connections;
pub mod forward_policy;
pub mod interfaces;
mod kernel;
pub mod mark_mask;
pub mod netfilter;
pub mod netlink;
pub mod poll;
pub mod port;
pub mod receive_buffer;
pub mod sockets;
pub mod sys;
pub mod tag;
pub mod tcp;

#[cfg(test)]
extern crate self as windlass_kernel;
#[cfg(test)]
#[path = "../tests/lab/mod.rs"]
#[allow(dead_code, reason = "made for tests of the engine too")]
mod lab;

pub use kernel::{connection_tracking, nf_tables};
