//! BGP-4 speaker that announces routes and takes none (RFC 4271), for IPv4 and IPv6 unicast: without clock, randomness or I/O.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | [`Asn`], [`HoldTime`], [`Prefix`], [`RouterId`], [`Time`]: values that can only be legal |
//! | [`wire`] | messages as bytes: the peer's are judged by their form, ours are packed into as few as possible |
//! | [`rib`] | routes that a peer is to have and has been sent: the difference becomes messages |
//! | [`session`] | the session with one peer: inputs take `now`, outputs are values |
//! | [`bfd`] | detection of a dead peer or path within milliseconds |

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, clippy::indexing_slicing))]

pub mod bfd;
pub mod rib;
pub mod session;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
pub mod units;
pub mod wire;

pub use session::{Config, Event, Session, State};
pub use units::{Asn, Family, HoldTime, Prefix, RouterId, Time};
