//! Talking to the kernel's packet filter and its connection tracking by netlink.

pub mod attributes;
pub mod chain;
pub mod contents;
pub mod element;
pub mod expression;
pub mod failure;
pub mod fingerprint;
pub mod marks;
pub mod message;
pub mod monitor;
pub mod packet;
mod socket;
pub mod table;

pub(crate) use socket::NetfilterSocket;
