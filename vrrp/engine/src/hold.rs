//! The thread `windlass-hold`: binds VIPs to interfaces for virtual routers that hold them by address, and to devices of
//! their own for those that hold them by virtual MAC address ([`vmac`]).
//!
//! It compares what the duties say with what it did, at each ring, at each change that the kernel tells of, and when a
//! lifetime is to be renewed. Right before each order that binds it looks whether the duty still holds.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::delivery::Sink;
use crate::duty::Roster;
use crate::inbox::Inbox;
use crate::tag::AddressTag;

mod address;
mod bindings;
mod claim;
mod guarding;
mod holder;
mod kernel;
mod occupants;
mod orders;
mod report;
mod vmac;

use claim::Claim;
use holder::Holder;

/// Shortest pause between two rounds without cause: renewals that are due soon after one another go together.
const BREATH: Duration = Duration::from_millis(50);

/// What the thread is told at the start.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Whether to install the guard.
    pub(crate) guard: bool,
    /// Name of its table.
    pub(crate) table: String,
    /// Whether the process has CAP_NET_ADMIN.
    pub(crate) net_admin: bool,
    /// Mark of the engine's addresses.
    pub(crate) tag: AddressTag,
}

/// The thread's body; returns when the roster stops.
pub(crate) fn run(roster: &Roster, inbox: &Inbox, events: &Sink, settings: &Settings) {
    let mut holder = Holder::new(settings, inbox, events);
    holder.sweep();
    loop {
        roster.hold_bell().hush();
        let stopping = roster.is_stopping();
        let mut claims = if stopping { Vec::new() } else { claims(roster) };
        let mut round = holder.round(&mut claims);
        while stopping && round.more {
            round = holder.round(&mut claims);
        }
        if round.news {
            roster.ring_neighbour();
        }
        if stopping {
            return holder.end();
        }
        holder.afterwards(&claims);
        wait(roster, &holder, holder.patience(&round));
    }
}

fn claims(roster: &Roster) -> Vec<Claim> {
    roster.duties().iter().map(|duty| Claim::of(Arc::clone(duty))).collect()
}

/// Waits for a ring, a change told by the kernel, or until there is something to do without either.
fn wait(roster: &Roster, holder: &Holder<'_>, patience: Option<Duration>) {
    let mut descriptors = vec![PollFd::new(roster.hold_bell().as_fd(), PollFlags::POLLIN)];
    descriptors.extend(holder.hearing().map(|monitor| PollFd::new(monitor, PollFlags::POLLIN)));
    match ppoll(&mut descriptors, patience.map(|patience| TimeSpec::from(patience.max(BREATH))), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        // Only memory can lack: a pause is better than a spin.
        Err(error) => {
            tracing::error!(%error, "cannot wait for something to hold");
            std::thread::sleep(BREATH);
        }
    }
}
