//! BGP-4 speaker that announces routes and takes none (RFC 4271), for IPv4 and IPv6 unicast: without clock, randomness or I/O.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | [`Asn`], [`HoldTime`], [`Prefix`], [`RouterId`], [`Time`]: values that can only be legal |
//! | [`wire`] | messages as bytes: the peer's are judged by their form, ours are packed into as few as possible |
//! | [`rib`] | routes that a peer is to have and has been sent: the difference becomes messages |
//! | [`session`] | the session with one peer: inputs take `now`, outputs are values |
//! | [`bfd`] | detection of a dead peer or path within milliseconds |
//!
//! # Example
//! A driver connects, and a router answers. The bytes here are an OPEN of AS 64500 and a KEEPALIVE:
//!
//! ```
//! use std::sync::Arc;
//!
//! use windlass_bgp::session::{ExpectedAs, NextHops};
//! use windlass_bgp::units::Random;
//! use windlass_bgp::wire::Attributes;
//! use windlass_bgp::{Asn, Config, Event, Family, HoldTime, Prefix, RouterId, Session, State, Time};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config {
//!     local_as: Asn::new(64512)?,
//!     router_id: RouterId::new("192.0.2.11".parse()?)?,
//!     expected_as: ExpectedAs::External,
//!     families: [Family::V4].into(),
//!     hold_time: HoldTime::new(30)?,
//!     keepalive: None,
//!     extended_next_hop: false,
//! };
//! let now = Time::from_nanos(0);
//! let mut session = Session::new(config, Random::new(7));
//! let vip: std::net::IpAddr = "203.0.113.10".parse()?;
//! session.set_routes([(Prefix::try_from(vip)?, Arc::new(Attributes::default()))].into());
//! session.start(now);
//! assert_eq!(session.poll_event(), Some(Event::Dial));
//!
//! // TCP has connected: the session sends its OPEN.
//! session.handle_connected(NextHops { ipv4: Some("192.0.2.11".parse()?), ipv6: None }, now);
//! let written = session.poll_transmit(now).len();
//! session.handle_transmitted(written, now);
//!
//! let mut answer = [[0xff; 16].as_slice(), &[0, 29, 1, 4, 0xfb, 0xf4, 0, 90, 192, 0, 2, 1, 0]].concat();
//! answer.extend([[0xff; 16].as_slice(), &[0, 19, 4]].concat());
//! session.handle_bytes(&answer, now);
//! assert_eq!(session.state(), State::Established);
//!
//! // A KEEPALIVE, then the route, then the End-of-RIB marker.
//! loop {
//!     let written = session.poll_transmit(now).len();
//!     if written == 0 {
//!         break;
//!     }
//!     session.handle_transmitted(written, now);
//! }
//! assert_eq!(session.sent(), 1);
//! # Ok(())
//! # }
//! ```

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
