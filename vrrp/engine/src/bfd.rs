//! The thread `windlass-bfd`: detects dead BGP peers (RFC 5880 to 5883), and lets them detect that this node is dead.
//!
//! ```text
//! speaker (windlass-bgp) ──► detections ──► Driver: Session ◄──► UDP ◄──► router
//!    ▲                                        └──► status, events
//!    └────────────── dead peers ◄─────────────┘
//! ```
//!
//! Packets that are late cost sessions, so the thread has real-time scheduling, below that of the threads that elect. The kernel's filter
//! drops what is no peer's. If the thread ends it takes its sessions down as an administrator does: BGP sessions stay here, and at peers that
//! obey RFC 5882 §3.2.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use nix::poll::{PollFd, PollFlags};
use windlass_bgp::Time;
use windlass_kernel::clock;
use windlass_kernel::poll::poll;

use crate::event_queue::EventSender;
use crate::handle::Waker;
use crate::speaker::status::SessionId;
use crate::supervisor::Helper;

mod config;
mod driver;
mod session;
mod status;

pub use config::{BfdConfig, BfdPath, InvalidBfdConfig};
pub use status::{BfdSession, BfdStatus};

use driver::Driver;

/// Pause after a round that read all that it may: other threads get the processor in a flood of forged packets.
const PAUSE: Duration = Duration::from_millis(1);

/// Session that there is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Detection {
    pub(crate) config: BfdConfig,
    /// Own address.
    pub(crate) own: IpAddr,
    /// Index of the interface that the session is bound to.
    pub(crate) interface: Option<u32>,
    /// Time since which the BGP session is Established.
    pub(crate) established_at: Option<Time>,
}

/// Sessions by the BGP session of each.
type Detections = BTreeMap<SessionId, Detection>;

/// State that the BGP speaker, the engine's handle and the thread share.
pub(crate) struct Bfd {
    orders: Mutex<Orders>,
    waker: Waker,
    /// Peers found dead that the speaker has not taken yet.
    dead: Mutex<BTreeSet<SessionId>>,
    news: Waker,
    status: ArcSwap<BfdStatus>,
}

#[derive(Clone, Default)]
struct Orders {
    detections: Arc<Detections>,
    is_stopping: bool,
}

impl Bfd {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            orders: Mutex::default(),
            waker: Waker::new()?,
            dead: Mutex::default(),
            news: Waker::new()?,
            status: ArcSwap::default(),
        })
    }

    /// Sets the sessions.
    pub(crate) fn follow(&self, detections: Detections) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if *orders.detections != detections {
            orders.detections = Arc::new(detections);
            self.waker.wake();
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).is_stopping = true;
        self.waker.wake();
    }

    /// Returns the peers that were found dead since the last call.
    pub(crate) fn take_dead(&self) -> BTreeSet<SessionId> {
        self.news.drain();
        std::mem::take(&mut *self.dead.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The descriptor that is readable when [`Self::take_dead`] has something to return.
    pub(crate) fn news(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    pub(crate) fn status(&self) -> Arc<BfdStatus> {
        self.status.load_full()
    }

    /// There is no session any more.
    pub(crate) fn withdraw_status(&self) {
        self.status.store(Arc::default());
    }

    /// The thread's body; returns when the engine stops.
    pub(crate) fn run(&self, events: &EventSender, helper: &Helper) {
        let mut driver = Driver::new(events.clone());
        loop {
            helper.begin_round();
            self.waker.drain();
            let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if orders.is_stopping {
                return;
            }
            let is_full = driver.round(&orders.detections, now());
            self.publish(&mut driver);
            helper.end_round();
            self.wait(&driver, is_full);
        }
    }

    /// Passes on what the round found.
    fn publish(&self, driver: &mut Driver) {
        if !driver.dead.is_empty() {
            self.dead.lock().unwrap_or_else(PoisonError::into_inner).append(&mut driver.dead);
            self.news.wake();
        }
        if let Some(status) = driver.new_status(&self.status.load()) {
            self.status.store(Arc::new(status));
        }
    }

    fn wait(&self, driver: &Driver, is_full: bool) {
        let due = driver.due().map(|due| due.since(now()));
        let waker = PollFd::new(self.waker.as_fd(), PollFlags::POLLIN);
        if is_full {
            poll(&mut [waker], Some(due.unwrap_or(PAUSE).min(PAUSE)), "BFD");
            return;
        }
        let mut descriptors = vec![waker];
        descriptors.extend(driver.descriptors().map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN)));
        poll(&mut descriptors, due, "BFD");
    }
}

/// The clock as the sessions read it.
fn now() -> Time {
    Time::from_nanos(clock::now().nanos())
}
