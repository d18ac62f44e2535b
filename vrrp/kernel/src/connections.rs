//! Connections to VIPs in the kernel's connection tracking: read, followed, and put there on behalf of another node.
//!
//! What is read of one is its [`Connection`]: client, VIP, backend and the source address that the backend sees. An entry that another
//! kernel makes of it translates packets as the first one did, so that the connection goes on there.
//!
//! # Which connections
//! - Connections that the kernel translates to a backend (destination NAT).
//! - Of these, lasting ones (`ASSURED`: the TCP handshake is complete, a UDP flow has had packets both ways for more than two seconds).
//! - Of TCP, connections on which a side may still send: ESTABLISHED, and FIN_WAIT and CLOSE_WAIT, in which one side has closed and the
//!   other may continue for hours. After both have closed (LAST_ACK, TIME_WAIT, CLOSE) nothing is lost by removing the entry.
//! - Connections of the default zone only: other zones belong to the programs that made them.
//!
//! # What an entry is made of
//! - The reply tuple *as it is before NAT*, and both translations as attributes: with the translated reply tuple the kernel takes the
//!   entry, shows it, and translates nothing.
//! - The source translation always, also where it changes nothing: without it the kernel silently chooses another port if the port is
//!   taken.
//! - TCP as ESTABLISHED and both directions liberal, as the kernel itself does with a connection that it meets midway: it has not seen
//!   the window scales, and would take a fast transfer for invalid after some 64 KiB.
//! - A lifetime. Each packet sets it to the kernel's own limit for such a connection.
//!
//! # What following needs
//! The kernel reports an entry only if a listener existed, or a rule set the entry's mask of events, when it was made
//! (`nf_conntrack_events=2`, the default of Linux 6). [`Events`] must therefore be open before entries are inserted whose end is to be
//! reported; the end of older entries is not. A periodic list finds the rest, including connections that time out.
//!
//! A TCP connection causes five events, and each costs the kernel 2 µs, used or not, if there is a listener. The guard's table leaves two
//! of them where connections are replicated (`Guarded::replicated`, chain `events`): the handshake is complete (`assured`), and one side
//! has closed, [`Event::Closing`], which sets a label, and that is an event. Without these rules (a kernel without labels) all five are
//! reported, at twice the cost.

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
