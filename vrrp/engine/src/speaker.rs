//! The thread `windlass-bgp`: announces routes to BGP peers.
//!
//! ```text
//! Engine::speak ──► desired ──► plan ──► Peering: Session (windlass-bgp) ◄──► TCP ◄──► router
//! default routes, addresses ────┘            ├──► status, events
//!                                            └◄─► Bfd: sessions to run, peers that are dead (windlass-bfd)
//! ```
//!
//! Each round compares the desired sessions with those there are, lets each read, act and write, and waits. A session whose settings or
//! addresses changed is left in order, and opened anew when it is finished; others stay as they are. No election needs this thread, and it
//! has no real-time scheduling. If it ends, its connections close and the peers withdraw the routes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use nix::poll::{PollFd, PollFlags};
use windlass_bgp::Time;
use windlass_bgp::units::Random;
use windlass_bgp::wire::{ErrorCode, Notification};
use windlass_kernel::clock;
use windlass_kernel::interfaces::{self, HostAddresses, HostRoute};
use windlass_kernel::poll::poll;

use crate::bfd::{Bfd, Detection};
use crate::event_queue::EventSender;
use crate::handle::Waker;
use crate::supervisor::Helper;

mod config;
mod connection;
mod plan;
pub(crate) mod status;

pub use config::{Endpoint, PeerConfig, Routes, Speaker};
pub use status::{SessionId, SessionStatus};

use connection::{Peering, READ};
use plan::MOST_SESSIONS;

/// Time between two looks at the host's addresses and default routes.
const LOOK: Duration = Duration::from_secs(3);
/// Time between the end of a session and the next one. A router that was just left refuses connections while it clears what it knew of this node
/// (FRR).
const CLEARING: Duration = Duration::from_millis(500);
/// Longest time that the end of the engine waits for peers to be left: two seconds for the withdrawal, one for the last message.
pub(crate) const LEAVING: Duration = Duration::from_secs(4);

/// State that the engine's handle and the thread share.
pub(crate) struct Speaking {
    orders: Mutex<Orders>,
    waker: Waker,
    status: ArcSwap<Vec<SessionStatus>>,
}

/// Orders of the engine's user.
#[derive(Clone, Default)]
struct Orders {
    speaker: Arc<Speaker>,
    is_stopping: bool,
}

impl Speaking {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { orders: Mutex::default(), waker: Waker::new()?, status: ArcSwap::default() })
    }

    pub(crate) fn speak(&self, speaker: Speaker) {
        self.order(|orders| orders.speaker = Arc::new(speaker));
    }

    /// Leaves all peers, then ends the thread.
    pub(crate) fn stop(&self) {
        self.order(|orders| orders.is_stopping = true);
    }

    pub(crate) fn status(&self) -> Arc<Vec<SessionStatus>> {
        self.status.load_full()
    }

    /// There is no session any more.
    pub(crate) fn withdraw_status(&self) {
        self.status.store(Arc::default());
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.waker.wake();
    }

    /// The thread's body; returns when the engine stops and all peers are left.
    pub(crate) fn run(&self, events: &EventSender, bfd: &Bfd, helper: &Helper) {
        let mut driver = Driver::new(events.clone());
        let mut buffer = vec![0; READ];
        loop {
            helper.begin_round();
            self.waker.drain();
            let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner).clone();
            driver.end_dead(&bfd.take_dead(), now());
            driver.round(&orders, &mut buffer, now());
            bfd.follow(driver.detections());
            self.publish(&driver);
            if orders.is_stopping && driver.peerings.is_empty() {
                return;
            }
            helper.end_round();
            self.wait(&driver, bfd);
        }
    }

    fn publish(&self, driver: &Driver) {
        let status: Vec<SessionStatus> = driver.peerings.values().map(Peering::status).collect();
        if **self.status.load() != status {
            self.status.store(Arc::new(status));
        }
    }

    fn wait(&self, driver: &Driver, bfd: &Bfd) {
        let now = now();
        let mut descriptors = vec![
            PollFd::new(self.waker.as_fd(), PollFlags::POLLIN),
            PollFd::new(bfd.news(), PollFlags::POLLIN),
        ];
        descriptors.extend(driver.peerings.values().filter_map(Peering::descriptor));
        let due = driver.peerings.values().filter_map(|peering| peering.due(now)).min();
        let due = due.into_iter().chain(driver.next_look).chain(driver.open_from).min();
        poll(&mut descriptors, due.map(|due| due.since(now)), "BGP peers");
    }
}

/// The clock as the sessions read it.
fn now() -> Time {
    Time::from_nanos(clock::now().nanos())
}

/// The thread's state.
struct Driver {
    peerings: BTreeMap<SessionId, Peering>,
    speaker: Arc<Speaker>,
    host: HostAddresses,
    routes: Vec<HostRoute>,
    /// `None` while there is no peer.
    next_look: Option<Time>,
    /// Time before which no session is opened.
    open_from: Option<Time>,
    random: Random,
    events: EventSender,
}

impl Driver {
    fn new(events: EventSender) -> Self {
        Self {
            peerings: BTreeMap::new(),
            speaker: Arc::default(),
            host: HostAddresses::default(),
            routes: Vec::new(),
            next_look: None,
            open_from: None,
            random: Random::new(clock::wall_nanos()),
            events,
        }
    }

    fn round(&mut self, orders: &Orders, buffer: &mut [u8], now: Time) {
        let is_new = !Arc::ptr_eq(&self.speaker, &orders.speaker);
        let is_due = self.next_look.is_some_and(|due| due <= now);
        if is_new || is_due {
            self.speaker = Arc::clone(&orders.speaker);
            self.look(is_new, now);
        }
        let shutdown = orders.is_stopping.then(|| Notification::shutdown("windlass stops"));
        self.follow(shutdown.as_ref(), now);
        for peering in self.peerings.values_mut() {
            peering.round(&self.host, buffer, now);
        }
        let before = self.peerings.len();
        self.peerings.retain(|_, peering| !peering.is_finished());
        if self.peerings.len() < before {
            // Sessions that are to be opened anew.
            self.open_from = Some(now + CLEARING);
            self.next_look = self.open_from;
        }
    }

    /// Ends the sessions with peers that BFD has found dead.
    fn end_dead(&mut self, dead: &BTreeSet<SessionId>, now: Time) {
        for id in dead {
            if let Some(peering) = self.peerings.get_mut(id) {
                peering.bfd_down(now);
            }
        }
    }

    /// BFD sessions that there are to be. Each is AdminDown while BGP connects again, and ends after its BGP session.
    fn detections(&self) -> BTreeMap<SessionId, Detection> {
        let detection = |(id, peering): (&SessionId, &Peering)| Some((id.clone(), peering.detection()?));
        self.peerings.iter().filter_map(detection).collect()
    }

    /// Reads the host's addresses and routes. What cannot be read stays as it was.
    fn look(&mut self, is_new: bool, now: Time) {
        self.next_look = (!self.speaker.peers.is_empty()).then(|| now + LOOK);
        if self.next_look.is_none() {
            return;
        }
        let has_gateway = |peer: &PeerConfig| matches!(peer.endpoint, Endpoint::Gateway(_));
        let read = interfaces::scan().and_then(|host| {
            self.host = host;
            if self.speaker.peers.values().any(has_gateway) {
                self.routes = interfaces::routes()?;
            }
            Ok(())
        });
        if let Err(error) = read {
            tracing::warn!(%error, "cannot read the host's addresses and routes: BGP sessions stay as they are");
        }
        let beyond = plan::sessions(&self.speaker, &self.routes).1;
        if is_new && beyond > 0 {
            tracing::warn!(beyond, "more BGP sessions than {MOST_SESSIONS}: the others are not opened");
        }
    }

    /// Opens and stops sessions as desired.
    fn follow(&mut self, shutdown: Option<&Notification>, now: Time) {
        let speaker = Arc::clone(&self.speaker);
        let (mut desired, _) = plan::sessions(&speaker, &self.routes);
        if shutdown.is_some() {
            desired.clear();
        }
        let routes_of = |id: &SessionId| speaker.routes.get(&id.peer).cloned().unwrap_or_default();
        for (id, peering) in &mut self.peerings {
            match desired.remove(id) {
                None => {
                    let cease = shutdown.cloned().unwrap_or_else(|| ErrorCode::PEER_DECONFIGURED.into());
                    peering.stop(cease, now);
                }
                Some(config) if peering.is_as(config, &self.host) => {
                    peering.set_bfd(config.bfd);
                    peering.set_routes(routes_of(id));
                }
                Some(_) => peering.stop(ErrorCode::CONFIGURATION_CHANGED.into(), now),
            }
        }
        if self.open_from.is_some_and(|from| now < from) {
            return;
        }
        self.open_from = None;
        for (id, config) in desired {
            let random = Random::new(self.random.roll());
            let mut peering = Peering::new(id.clone(), config.clone(), random, self.events.clone(), now);
            peering.set_routes(routes_of(&id));
            self.peerings.insert(id, peering);
        }
    }
}
