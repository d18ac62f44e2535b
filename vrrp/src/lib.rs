//! VRRPv3 (RFC 9568) for IPv4 and IPv6, and VRRPv2 (RFC 3768) for IPv4: wire format and state machine, without clock, randomness or I/O.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | [`Vrid`], [`Priority`], [`Interval`], [`Time`]: values that can only be legal |
//! | [`wire`] | adverts as bytes: parse with a reason for every refusal, emit, recognise foreign routers |
//! | [`auth`] | the optional trailer that proves an advert's origin and freshness |
//! | [`replication`] | the connections of an Active, sent to its Backups: datagrams, sender, receiver |
//! | [`router`] | one virtual router's state machine: inputs take `now`, outputs are values |
//! | `sim` | (feature `sim`) several routers on a LAN with faults, in virtual time |
//!
//! # Contract of the state machine
//! The driver of a [`Router`] passes the time with every input. It drains [`Router::poll_action`] after every input and carries the
//! actions out in that order. It calls [`Router::handle_timeout`] at [`Router::poll_timeout`], after it has delivered all adverts
//! that have arrived by then: a late reader must not mistake its own lateness for silence. Time never goes back.
//! [`Router::handle_advert`] takes valid adverts only, those that [`wire::parse`] returned.
//!
//! # Example
//! A Backup receives one advert of its Active, and then nothing any more:
//!
//! ```
//! use std::collections::BTreeSet;
//! use std::time::Duration;
//!
//! use windlass_vrrp::wire::{self, AddressList, Advert, Checksum, Datagram, ExpectedAdvert, Path, Addressing};
//! use windlass_vrrp::{Action, Config, Family, ReceivedAdvert, Interval, Priority, Router, State, Time, AdvertOutcome, Version, Versions, Vrid};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let vrid = Vrid::new(7)?;
//! let peer = "192.0.2.2".parse()?;
//! let config = Config {
//!     priority: Priority::DEFAULT,
//!     interval: Interval::SECOND,
//!     preempt: true,
//!     preempt_delay: Duration::ZERO,
//!     fit_from: Priority::LOWEST,
//!     preferred: [].into(),
//!     preempt_turn: Duration::ZERO,
//!     versions: Versions::V3,
//!     primary: "192.0.2.1".parse()?,
//!     peers: BTreeSet::from([peer]),
//!     unknown_peers: false,
//!     unicast_fallback: false,
//!     addresses: BTreeSet::from(["192.0.2.50".parse()?]),
//! };
//! let mut router = Router::new(vrid, config.clone());
//! let start = Time::from_nanos(0);
//! router.startup(start);
//! assert_eq!(router.state(), State::Backup);
//!
//! // What the peer sends, and what a driver does with a datagram that has arrived.
//! let group = wire::default_group(Family::V4);
//! let advert = Advert {
//!     path: Path::new(peer, group).ok_or("two families")?,
//!     ttl: wire::TTL,
//!     vrid,
//!     priority: Some(Priority::new(200)?),
//!     interval: Interval::SECOND,
//!     addresses: AddressList::representing(&config.addresses, peer, AddressList::MAX),
//! };
//! let bytes = advert.datagram(Version::V3, Checksum::Rfc9568);
//! let expected = ExpectedAdvert { versions: config.versions, addressing: Addressing::Multicast { group, unicast: false }, trailer: false };
//! let packet = wire::parse(&Datagram::from_ipv4(&bytes)?, |heard| (heard == vrid).then_some(&expected))?;
//! let (source, priority, interval, version) = (packet.source, packet.priority, packet.interval, packet.version);
//! let outcome = router.handle_advert(ReceivedAdvert { source, priority, interval, version, unicast: packet.unicast }, start);
//! assert_eq!(outcome, AdvertOutcome::Obeyed);
//!
//! // 3 intervals and the skew time of priority 100 later:
//! let due = router.poll_timeout().ok_or("a Backup has a timer")?;
//! assert_eq!(due.since(start), Duration::from_micros(3_609_375));
//! router.handle_timeout(due);
//! assert_eq!(router.state(), State::Active);
//! while let Some(action) = router.poll_action() {
//!     match action {
//!         Action::SendAdvert { priority } => println!("send an advert of priority {priority:?}"),
//!         Action::SendUnicast { priority } => println!("to {:?} alone: {priority:?}", router.copies()),
//!         Action::Transition { from, to, reason } => println!("{from} to {to}: {reason}"),
//!         Action::Announce(what) => println!("tell the LAN where the addresses are: {what:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod auth;
pub mod replication;
pub mod router;
#[cfg(feature = "sim")]
#[allow(clippy::arithmetic_side_effects, reason = "it makes all its numbers itself")]
pub mod sim;
pub mod units;
pub mod vrid_choice;
pub mod wire;

pub use router::{Action, AdvertOutcome, Announce, Config, ReceivedAdvert, Router, State, TransitionReason};
pub use units::{
    Family, Interval, InvalidInterval, InvalidPriority, InvalidVersions, InvalidVrid, Priority, Time,
    Version, Versions, Vrid,
};
