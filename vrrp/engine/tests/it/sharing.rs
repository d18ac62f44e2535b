//! Addresses that three nodes serve together: who gets a packet.

mod alive;
mod changes;
mod filters;
mod packets;
mod scene;
mod spread;
mod trails;
