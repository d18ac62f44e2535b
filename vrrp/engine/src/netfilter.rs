//! Talking to the kernel's packet filter and its connection tracking by netlink.

pub(crate) mod attributes;
pub(crate) mod message;
mod socket;

pub(crate) use socket::NetfilterSocket;
