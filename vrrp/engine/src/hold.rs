//! The thread `windlass-hold`: binds VIPs to interfaces for virtual routers that hold them by address or vmac.

#![allow(dead_code, reason = "the thread comes next")]

mod address;
mod bindings;
mod orders;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd;

use crate::duty::Roster;
use crate::event::Sink;
use crate::inbox::Inbox;

/// What the thread is told at the start.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Whether to install the guard.
    pub(crate) guard: bool,
    /// Name of its table.
    pub(crate) table: String,
    /// Whether the process has CAP_NET_ADMIN.
    pub(crate) net_admin: bool,
}

/// The thread's body; returns when the roster stops.
pub(crate) fn run(roster: &Roster, _inbox: &Inbox, _events: &Sink, _settings: &Settings) {
    while !roster.is_stopping() {
        let mut waited = [PollFd::new(roster.hold_bell().as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut waited, PollTimeout::NONE);
        roster.hold_bell().hush();
    }
}
