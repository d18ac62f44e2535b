//! Replication of an Active's established connections to its Backups, which insert them into their own kernel's connection tracking
//! before they take over. `docs/dev/replication.md` has the format on the wire.
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
//!     │   n: SnapshotEnd                     │  removes what was not named; in sync
//!     ├─────────────────────────────────────►│
//!     │   Acknowledge (up to, missing)       │
//!     │◄─────────────────────────────────────┤
//!     │   again what is missing; Update, …   │
//!     │   Alive (last, count and digest)     │  compares
//!     ├─────────────────────────────────────►│
//! ```
//!
//! # Design
//! - **One numbered stream, applied in order.** Snapshot and changes share its numbers, so that the last message wins, whatever the
//!   order of arrival. A window of [`WINDOW`] datagrams bounds what both sides keep: the sender holds them until they are
//!   acknowledged and resends those reported missing. No loss needs a snapshot, at any rate of loss, and a sender never sends more
//!   than a window to a dead peer.
//! - **The queue holds the keys of changed connections, not their states.** The last state is read from the table when the datagram
//!   is made. A full queue is dropped for a snapshot; the table itself is walked by cursor, without a copy.
//! - **A digest in each sign of life** finds what no counter would: an error on either side. It costs a snapshot then.
//! - **The receiver begins.** The sender repeats its challenge, never used before, in all that it sends, and each request spends a
//!   ticket of the sender's: a recorded datagram fits no other stream than its own, where its number is known, and a recorded request
//!   begins none. No clock is trusted for it; without a key, a host that does not see the datagrams cannot forge one.
//!
//! # Contract
//! As that of [`crate::Router`]: the time is passed with every input and never goes back; after every input, and at
//! `poll_timeout`, [`Receiver::handle_timeout`] is called and `poll_transmit` until it returns `None`. Messages are closed and
//! opened by [`Envelopes`], and datagrams taken from admitted peers only.

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
pub use wire::{MAX_DATAGRAM, MAX_MESSAGE, TooLong};

/// First bytes of every message.
pub const MAGIC: &[u8; 4] = b"WLCN";
/// Version of the protocol.
const VERSION: u8 = 1;
