//! Connections to VIPs in the kernel's connection tracking: read, followed, and put there on behalf of another node.
//!
//! What is read of one is its [`Connection`]: client, VIP, backend and the source address that the backend sees. An entry that another
//! kernel makes of it translates packets as the first one did, so that the connection goes on there.
//!
//! # Which connections
//! Those that the kernel translates to a backend (destination NAT), that it takes for lasting (`ASSURED`: for TCP the handshake is
//! over, a UDP flow has gone on both ways for more than two seconds), and of TCP those on which something may still be said:
//! ESTABLISHED, and FIN_WAIT and CLOSE_WAIT, in which one side has ended and the other may go on for hours. After both have ended
//! (LAST_ACK, TIME_WAIT, CLOSE) nothing is lost by forgetting. Of the default zone only: others belong to whoever made them.
//!
//! # What an entry is made of
//! - The reply tuple *as it is before NAT*, and both translations as attributes: with the translated reply tuple the kernel takes the
//!   entry, shows it, and translates nothing.
//! - The source translation always, also where it changes nothing: left out, the kernel chooses another port where that one is taken,
//!   and says nothing.
//! - TCP as ESTABLISHED and both directions liberal, as the kernel itself does with a connection that it meets midway: it has not seen
//!   the window scales, and would take a fast transfer for invalid after some 64 KiB.
//! - A lifetime. Each packet sets it to the kernel's own limit for such a connection.
//!
//! # What following needs
//! The kernel tells of an entry only if somebody listened, or a rule set the entry's mask of events, when it was made
//! (`nf_conntrack_events=2`, the default of Linux 6): [`Events`] must be open before entries are inserted whose end is to be told, and
//! of what was there before it was opened no end is told. A list from time to time tells the rest: connections that time out too.
//!
//! A TCP connection is five events, and each costs the kernel 2 µs, wanted or not, if anybody listens. The guard's table leaves two of
//! them where connections are replicated (`Guarded::replicated`, chain `events`): the handshake is over
//! (`assured`), and one side has ended, [`Event::Closing`], which sets a label, and that is an event. Without those rules (a kernel without
//! labels) all is told alike, for twice the price.

mod aging;
mod entry;
mod error;
mod event;
mod events;
mod filter;
mod forget;
mod insert;
pub mod listing;
mod request;
mod tracking;
mod validity;

pub use aging::{Aging, AgingLimits};
pub use error::TrackingError;
pub use event::Event;
pub use events::Events;
pub use insert::{Blocking, Inserted};
pub use tracking::SHARE;
pub use tracking::{Tracking, Usage, kernel_lifetime};
pub use validity::InvalidConnection;
pub use windlass_vrrp::replication::{Connection, ConnectionKey, Transport};
