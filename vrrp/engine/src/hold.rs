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

use crate::clock;
use crate::delivery::Sink;
use crate::duty::Roster;
use crate::event::Event;
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
mod pause;
mod report;
mod vmac;

use claim::Claim;
use holder::Holder;

/// A round with thousands of addresses takes time, and the kernel tells of each by itself, of IPv6 ones long after the order.
/// So after a round its news must wait for this many times as long as the round took; a ring need not.
const REST: u32 = 3;
/// Longest time that the kernel's news wait.
const LONGEST_REST: Duration = Duration::from_millis(100);

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
        let begun = clock::now();
        roster.hold_bell().hush();
        let stopping = roster.is_stopping();
        let mut claims = if stopping { Vec::new() } else { claims(roster) };
        let restrictions = roster.restrictions();
        let mut round = holder.round(&mut claims, &restrictions);
        while stopping && round.more {
            round = holder.round(&mut claims, &restrictions);
        }
        if round.news {
            roster.ring_neighbour();
        }
        if stopping {
            return holder.end();
        }
        tell(&holder, roster, events);
        holder.afterwards(&claims, &restrictions);
        tell(&holder, roster, events);
        let rest =
            if round.more { Duration::ZERO } else { (clock::now().since(begun) * REST).min(LONGEST_REST) };
        wait(roster, &holder, holder.patience(&round), rest);
    }
}

/// Tells which restrictions are in force, if that has changed.
fn tell(holder: &Holder<'_>, roster: &Roster, events: &Sink) {
    let status = holder.guard_status();
    if *roster.guard_status() != status {
        roster.set_guard_status(status);
        events.tell(Event::GuardChanged);
    }
}

fn claims(roster: &Roster) -> Vec<Claim> {
    roster.duties().iter().map(|duty| Claim::of(Arc::clone(duty))).collect()
}

/// Waits for a ring, after `rest` also for what the kernel tells, or until there is something to do without either.
fn wait(roster: &Roster, holder: &Holder<'_>, patience: Option<Duration>, rest: Duration) {
    let ring = PollFd::new(roster.hold_bell().as_fd(), PollFlags::POLLIN);
    if poll(&mut [ring.clone()], Some(rest)) {
        return;
    }
    let mut descriptors = vec![ring];
    descriptors.extend(holder.hearing().map(|monitor| PollFd::new(monitor, PollFlags::POLLIN)));
    poll(&mut descriptors, patience.map(|patience| patience.saturating_sub(rest)));
}

/// Whether one of them is ready in time.
fn poll(descriptors: &mut [PollFd<'_>], limit: Option<Duration>) -> bool {
    match ppoll(descriptors, limit.map(TimeSpec::from), None) {
        Ok(ready) => ready > 0,
        Err(Errno::EINTR) => false,
        // Only memory can lack: a pause is better than a spin.
        Err(error) => {
            tracing::error!(%error, "cannot wait for something to hold");
            std::thread::sleep(LONGEST_REST);
            false
        }
    }
}
