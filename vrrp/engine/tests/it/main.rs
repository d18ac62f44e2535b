//! The engine on real network namespaces. Needs root: see [`lab::require_root`].
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "allowed in tests; these helpers are tests' bodies too"
)]

mod announce;
mod arp;
mod authentication;
mod balance;
mod body;
mod capabilities;
mod churn;
mod conflicts;
mod connections;
mod documents;
mod elections;
mod events;
mod example;
mod families;
mod filtered;
mod flood;
mod flooder;
mod forwarding;
mod frozen;
mod guard;
mod hearing;
mod hold_address;
mod hold_guard;
mod hold_vmac;
mod hostile;
mod interfaces;
mod interop;
mod lab;
mod lab6;
mod link_changes;
mod moves;
mod ndp;
mod other_marks;
mod overlay;
mod probe;
mod recognised;
mod renumbering;
mod replication;
mod scale;
mod sharing;
mod speaker;
mod splits;
mod transports;
mod versions;
