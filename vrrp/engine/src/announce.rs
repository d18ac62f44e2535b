//! The thread `windlass-garp`: gratuitous ARP, paced, so that thousands of addresses delay no advert.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use windlass_vrrp::Time;

use crate::arp;
use crate::clock;
use crate::config::RouterKey;
use crate::sockets::LinkSockets;

mod schedule;

use schedule::{Next, Schedule};

/// Pause after each batch of 64 frames: at most some 60,000 frames a second, which switches' control planes bear.
const PAUSE: Duration = Duration::from_millis(1);

/// The time during which a router is Active without break. The timer thread extends it with every advert; the announcer
/// looks at it before every batch, so that it falls silent when the timer thread demotes the router, and also when the
/// whole process was frozen and it happens to be the first thread to run again.
#[derive(Debug, Default)]
pub(crate) struct Tenure {
    /// Nanoseconds of the clock; 0: over.
    valid_until: AtomicU64,
}

impl Tenure {
    /// Valid until `time`.
    pub(crate) fn extend(&self, time: Time) {
        self.valid_until.store(time.nanos(), Ordering::Release);
    }

    /// Over.
    pub(crate) fn end(&self) {
        self.valid_until.store(0, Ordering::Release);
    }

    fn holds(&self, now: Time) -> bool {
        now.nanos() < self.valid_until.load(Ordering::Acquire)
    }
}

/// What sending needs.
#[derive(Clone)]
pub(crate) struct Via {
    pub(crate) link: Arc<LinkSockets>,
    pub(crate) tenure: Arc<Tenure>,
}

struct State {
    schedule: Schedule<RouterKey, Via>,
    stop: bool,
}

/// Handle to the announcer: orders to it, and its thread's body.
pub(crate) struct Announcer {
    state: Mutex<State>,
    changed: Condvar,
}

impl Announcer {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { schedule: Schedule::new(), stop: false }), changed: Condvar::new() }
    }

    /// The router has become Active.
    pub(crate) fn takeover(&self, key: RouterKey, via: Via, addresses: Arc<[Ipv4Addr]>) {
        self.order(|schedule, now| schedule.takeover(key, via, addresses, now));
    }

    /// The router was contested and won.
    pub(crate) fn contention(&self, key: &RouterKey) {
        self.order(|schedule, now| schedule.contention(key, now));
    }

    /// The Active router's addresses are `all`, of which `added` are new.
    pub(crate) fn update(&self, key: &RouterKey, all: &Arc<[Ipv4Addr]>, added: &BTreeSet<Ipv4Addr>) {
        self.order(|schedule, now| schedule.update(key, all, added, now));
    }

    /// The router is no longer Active.
    pub(crate) fn withdraw(&self, key: &RouterKey) {
        self.order(|schedule, _| schedule.withdraw(key));
    }

    /// Ends [`Self::run`].
    pub(crate) fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.changed.notify_one();
    }

    /// The thread's body.
    pub(crate) fn run(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.stop {
            let now = clock::now();
            let patience = match state.schedule.next(now) {
                Next::Send(via, addresses) => {
                    drop(state);
                    send(&via, &addresses);
                    state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    // A full batch may have more behind it; new orders end the pause.
                    if addresses.len() < schedule::BATCH {
                        continue;
                    }
                    PAUSE
                }
                Next::Wait(due) => due.since(now),
                Next::Idle => Duration::from_hours(1),
            };
            if !state.stop {
                let waited = self.changed.wait_timeout(state, patience);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    fn order(&self, order: impl FnOnce(&mut Schedule<RouterKey, Via>, Time)) {
        order(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).schedule, clock::now());
        self.changed.notify_one();
    }
}

fn send(via: &Via, addresses: &[Ipv4Addr]) {
    for address in addresses {
        if !via.tenure.holds(clock::now()) {
            return;
        }
        for frame in arp::gratuitous(*address, via.link.mac) {
            // A frame the kernel has no room for is made up for by the repeats.
            let _ = via.link.send_arp(&frame);
        }
    }
}
