//! Which established connections an Active serves, told to its Backups, so that they can put them into their own kernel's
//! connection tracking before they take over. `docs/connections.md` has the format on the wire.
//!
//! For each pair of nodes and direction there is a [`Sender`] on the one and a [`Receiver`] on the other:
//!
//! ```text
//!   Sender                                Receiver
//!     │   Alive (epoch, ticket)              │
//!     ├─────────────────────────────────────►│  draws a challenge
//!     │   Resync (epoch, ticket, challenge)  │
//!     │◄─────────────────────────────────────┤
//!     │   1: SnapshotBegin                   │
//!     │   2…: SnapshotPart, Update           │  Put, Forget
//!     │   n: SnapshotEnd                     │  forgets what was not named; in sync
//!     ├─────────────────────────────────────►│
//!     │   Acknowledge (up to, missing)       │
//!     │◄─────────────────────────────────────┤
//!     │   again what is missing; Update, …   │
//!     │   Alive (last, count and digest)     │  compares
//!     ├─────────────────────────────────────►│
//! ```
//!
//! # Why so
//! - **One numbered stream, carried out in order.** Snapshot and changes share its numbers, so that what is said last is what is
//!   true, whatever the order of arrival. A window of [`WINDOW`] datagrams bounds what both sides keep: the sender holds them until
//!   they are acknowledged and sends again those that are reported missing. No loss needs a snapshot, at any rate of loss, and a
//!   sender never sends more than a window to a peer that is dead.
//! - **What waits is which connections changed, not how.** The last state is read from the table when the datagram is made. A queue
//!   that is full is dropped for a snapshot; the table itself is walked by cursor, and copied for nobody.
//! - **A digest in each sign of life** finds what no counter would: an error on either side. It costs a snapshot then.
//! - **The receiver begins.** Its challenge, never used before, is repeated by all that the sender sends, and each request spends a
//!   ticket of the sender's: a recorded datagram fits no other stream than its own, where its number is known, and a recorded request
//!   begins none. No clock is trusted for it; without a key nobody who does not see the datagrams can make one.
//!
//! # Contract
//! As that of [`crate::Router`]: the time is passed with every input and never goes back; after every input, and at
//! `poll_timeout`, [`Receiver::handle_timeout`] is called and `poll_transmit` until it returns `None`. Messages are closed and
//! opened by [`Envelopes`], and datagrams taken from admitted peers only.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod connection;
mod decode_error;
mod entry;
mod envelope;
mod flows;
mod message;
mod number;
mod pace;
mod reader;
mod receiver;
mod sender;
mod table;
#[cfg(test)]
mod tests;
mod wire;

pub use connection::{Connection, ConnectionKey, MixedFamilies, Transport};
pub use decode_error::DecodeError;
pub use entry::Entry;
pub use envelope::{Envelopes, Refusal, Way};
pub use message::{Alive, Body, Data, Epoch, Message, Missing, Reason};
pub use receiver::{Change, Receiver, ReceiverConfig, ReceiverCounters};
pub use sender::{Sender, SenderConfig, SenderCounters, WINDOW};
pub use table::{Connections, Placed, Summary, digest};
pub use wire::{MAGIC, MAX_DATAGRAM, MAX_MESSAGE, TooLong};
