//! Talking to the kernel's packet filter and its connection tracking by netlink.

pub(crate) mod attributes;
pub(crate) mod chain;
pub(crate) mod element;
pub(crate) mod expression;
pub(crate) mod fingerprint;
pub(crate) mod marks;
pub(crate) mod message;
mod socket;
pub(crate) mod table;

pub(crate) use socket::NetfilterSocket;
