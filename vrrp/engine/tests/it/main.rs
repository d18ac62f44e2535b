//! The engine on real network namespaces. Needs root: see [`lab::require_root`].

mod arp;
mod elections;
mod frozen;
mod hostile;
mod interfaces;
mod lab;
