//! The thread `windlass-hold`: binds VIPs to interfaces for virtual routers that hold them by address, and to devices of
//! their own for those that hold them by virtual MAC address ([`vmac`]).
//!
//! It compares the router handles with what it did: when it is woken, when the kernel reports a change, and when a lifetime is to be
//! renewed. Right before each request that binds it checks that the router is still Active.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use windlass_kernel::clock;
use windlass_kernel::poll::poll;
use windlass_kernel::tag::AddressTag;

use crate::event::Event;
use crate::event_queue::EventSender;
use crate::handle::SharedState;
use crate::inbox::Inbox;
use crate::options::ConnectionForwarding;
use crate::supervisor::Helper;

mod address;
mod arrivals;
pub(crate) mod background;
mod bindings;
mod foreign_addresses;
mod forgotten;
mod guard_keeper;
mod holder;
mod messages;
mod moves;
mod netlink;
mod pause;
mod refusals;
mod report;
mod request;
mod vmac;

use background::Job;
use holder::Holder;
use request::BindingRequest;

/// Factor of the rest after a round. A round with thousands of addresses takes time, and the kernel reports each by itself, IPv6 ones long
/// after the request. So the kernel's reports wait for this many times as long as the round took; the waker does not.
const REST: u32 = 3;
/// Longest time for which the kernel's reports wait.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// Settings of the thread.
#[derive(Debug)]
pub(crate) struct Settings {
    /// True if the guard is to be installed.
    pub(crate) guard: bool,
    /// Name of its table.
    pub(crate) table: String,
    /// See [`Options::guard_timeout`](crate::Options::guard_timeout).
    pub(crate) guard_timeout: Duration,
    /// Settings for forwarding connections of VIPs that were handed over; `None`: they are not forwarded.
    pub(crate) connection_forwarding: Option<ConnectionForwarding>,
    /// True if the process has CAP_NET_ADMIN.
    pub(crate) net_admin: bool,
    /// Mark of the engine's addresses.
    pub(crate) tag: AddressTag,
    /// Jobs of the helper thread that removes closed connections.
    pub(crate) forgetting: Sender<Job>,
    /// Jobs of the helper thread that compares the guard's sets.
    pub(crate) comparing: Sender<Job>,
}

/// The thread's body; returns when the engine stops.
pub(crate) fn run(
    shared: &Arc<SharedState>,
    inbox: &Inbox,
    events: &EventSender,
    settings: &Settings,
    helper: &Helper,
) {
    let mut holder = Holder::new(settings, shared, inbox, events);
    holder.sweep();
    loop {
        helper.begin_round();
        let begun = clock::now();
        shared.hold_waker().drain();
        let stopping = shared.is_stopping();
        let mut requests = if stopping { Vec::new() } else { requests(shared) };
        let restrictions = shared.restrictions();
        // First: what was handed over is announced when its connections find their way.
        if holder.prepare(&requests, &restrictions, shared) {
            shared.wake_neighbour();
            shared.wake_connections();
        }
        let mut round = holder.round(&mut requests);
        while stopping && round.more {
            round = holder.round(&mut requests);
        }
        if round.changed {
            shared.wake_neighbour();
        }
        if stopping {
            return holder.end();
        }
        publish_guard_status(&holder, shared, events);
        holder.after_binding(&requests, &restrictions);
        publish_guard_status(&holder, shared, events);
        let rest = if round.more {
            Duration::ZERO
        } else {
            clock::now().since(begun).saturating_mul(REST).min(LONGEST_REST)
        };
        helper.end_round();
        wait(shared, &holder, holder.wait_time(&round), rest);
    }
}

/// Publishes the status of forwarding and of the guard, if they have changed.
fn publish_guard_status(holder: &Holder<'_>, shared: &SharedState, events: &EventSender) {
    let forwarding = holder.forwarding_status();
    if *shared.forwarding_status() != forwarding {
        shared.set_forwarding_status(forwarding);
    }
    let status = holder.guard_status();
    if *shared.guard_status() != status {
        shared.set_guard_status(status);
        events.send(Event::GuardChanged);
    }
}

fn requests(shared: &SharedState) -> Vec<BindingRequest> {
    shared.handles().iter().map(|handle| BindingRequest::of(Arc::clone(handle))).collect()
}

/// Waits for the waker, after `rest` also for reports of the kernel, or until there is something to do without either.
fn wait(shared: &SharedState, holder: &Holder<'_>, wait_time: Option<Duration>, rest: Duration) {
    let wake_helpers = PollFd::new(shared.hold_waker().as_fd(), PollFlags::POLLIN);
    let what = "something to hold";
    let rest = wait_time.map_or(rest, |wait_time| rest.min(wait_time));
    if poll(&mut [wake_helpers.clone()], Some(rest), what) {
        return;
    }
    let mut descriptors = vec![wake_helpers];
    descriptors.extend(holder.monitor_fd().map(|monitor| PollFd::new(monitor, PollFlags::POLLIN)));
    poll(&mut descriptors, wait_time.map(|wait_time| wait_time.saturating_sub(rest)), what);
}
