//! VRRPv3 (RFC 9568) for IPv4 and IPv6, and VRRPv2 (RFC 3768) for IPv4: wire format and state machine, without clock, randomness or I/O.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | [`Vrid`], [`Priority`], [`Interval`], [`Time`]: values that can only be legal |
//! | [`wire`] | adverts as bytes: parse with a reason for every refusal, emit, recognise strangers |
//! | [`auth`] | the optional trailer that proves an advert's origin and freshness |
//! | [`router`] | one virtual router's state machine: inputs take `now`, outputs are values |
//! | `sim` | (feature `sim`) several routers on a LAN with faults, in virtual time |
//!
//! # Contract of the state machine
//! Whoever drives a [`Router`] passes the time with every input, drains [`Router::poll_action`] after every input and
//! carries the actions out in that order, and calls [`Router::handle_timeout`] at [`Router::poll_timeout`], after all
//! adverts that have arrived by then were delivered: a late reader must not mistake its own lateness for silence.

pub mod auth;
pub mod router;
#[cfg(feature = "sim")]
pub mod sim;
pub mod units;
pub mod wire;

pub use router::{Action, Announce, Config, Heard, Reason, Router, State, Verdict};
pub use units::{
    Family, Interval, InvalidInterval, InvalidPriority, InvalidVrid, Priority, Time, UnfitVersions, Version,
    Versions, Vrid,
};
