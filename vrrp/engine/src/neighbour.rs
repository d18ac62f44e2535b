//! The thread `windlass-neighbour`: sends and answers ARP and neighbour discovery about VIPs, and receives the adverts of foreign
//! routers.
//!
//! ```text
//! RouterHandle ──► tracker: what is to be done? ──► address_probe: may it be claimed? ──► probes ──┐
//!                    │                                                                             ├─► token_bucket ─► LAN
//!                    └────────────────────► schedule: what is announced when? ──► announcements ───┘
//! LAN ──► peer_adverts: does a peer go first in another virtual router? ──► ask (address_probe)
//! LAN ──► packet: what does it say? ──► query for a VIP: reply ───────────────────────────────────────────────────────► LAN
//!                                   └──► claim to a VIP: taken (address_probe) or conflict (conflicts) ──► event
//!                                                                                     └─► defend (schedule) or ask (address_probe)
//! ```
//!
//! It compares what it did with the state in the router handles whenever it is woken, and looks at a handle again before each frame
//! that speaks for its VIPs: a Backup sends none.
//!
//! A VIP's solicited-node groups are joined while its router is configured, in Backup too. RFC 9568 §6.4.2 (T4) joins at the
//! takeover; then a switch that snoops MLD would have to learn of it before it lets a solicitation through. A Backup receives the
//! solicitations and does not answer (T16).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use windlass_kernel::clock;
use windlass_kernel::sockets::{LinkSockets, ReceiveBuffer, UnicastSocket};
use windlass_vrrp::auth::Authenticator;
use windlass_vrrp::wire::ForeignRouter;
use windlass_vrrp::{Family, Time};

use crate::config::RouterKey;
use crate::event_queue::EventSender;
use crate::faults;
use crate::handle::{Plan, RouterHandle, SharedState};
use crate::options::Pacing;
use crate::rate_limit::RateLimiter;

mod address_probe;
mod announcer;
mod arp;
mod conflicts;
mod follower;
mod frame;
mod groups;
mod listener;
mod message;
mod ndp;
mod own_macs;
mod packet;
mod peer_adverts;
mod schedule;
mod source_announcements;
#[cfg(test)]
mod tests;
pub(crate) mod token_bucket;
mod tracker;

use conflicts::Conflicts;
use groups::Groups;
use own_macs::OwnMacs;
use schedule::Schedule;
use source_announcements::SourceAnnouncements;
use token_bucket::TokenBucket;
use tracker::{RouterTracker, SocketsId};

/// Longest wait: nothing is due.
const IDLE: Duration = Duration::from_hours(1);

/// Pause between two reads of foreign adverts: a flood, of which the kernel may drop most, must not wake the thread for each of
/// them.
const FOREIGN_PAUSE: Duration = Duration::from_millis(10);

/// Pause between two questions for a VIP because a peer goes first that serves it in another virtual router, or claims to.
const PEER_QUESTIONS: Duration = Duration::from_secs(1);

/// Time in which packets arrive that were sent before their sender received a peer's announcement.
const TRANSIT_TIME: Duration = Duration::from_millis(20);

/// Identifies a router handle while it is kept: its address in memory.
type HandleId = usize;

/// The routers by address, whatever their state, so that a takeover has nothing to build.
type RoutersByAddress = BTreeSet<(SocketsId, IpAddr, HandleId)>;

/// The routers on this interface that have this address.
fn routers_of(
    by_address: &RoutersByAddress,
    link: SocketsId,
    address: IpAddr,
) -> impl Iterator<Item = HandleId> + '_ {
    let all = (link, address, HandleId::MIN)..=(link, address, HandleId::MAX);
    by_address.range(all).map(|(_, _, id)| *id)
}

/// A router's handle and what was done for it.
struct FollowedRouter {
    handle: Arc<RouterHandle>,
    plan: Arc<Plan>,
    tracker: RouterTracker,
    /// Time until which its takeover is not followed: the hold thread prepares for it.
    waits_until: Option<Time>,
    /// Receives queries that are sent to its virtual router MAC address.
    unicast: Option<Arc<UnicastSocket>>,
    /// Admits adverts of its peers that come in virtual routers which this node does not run.
    authenticator: Authenticator,
}

/// The thread's state.
struct Neighbour<'a> {
    shared: &'a SharedState,
    events: &'a EventSender,
    followed: BTreeMap<HandleId, FollowedRouter>,
    by_address: RoutersByAddress,
    /// The routers by VRID.
    by_vrid: BTreeMap<(SocketsId, Family, u8), Arc<RouterHandle>>,
    schedule: Schedule<HandleId>,
    token_bucket: TokenBucket,
    conflicts: Conflicts<HandleId>,
    groups: BTreeMap<SocketsId, Groups>,
    source_announcements: SourceAnnouncements,
    own_macs: OwnMacs,
    foreign_reports: RateLimiter<(String, ForeignRouter)>,
    /// Limits the questions for VIPs because a peer goes first, which may not have answered.
    peer_questions: RateLimiter<(RouterKey, IpAddr)>,
    /// Time until which all packets of other hosts were read.
    read_until: Time,
    /// Time until which their queries and claims are not read, so that a flood leaves other work half of a processor.
    answer_due: Time,
    /// Time until which foreign adverts are not read.
    foreign_due: Time,
    buffer: ReceiveBuffer,
}

/// The thread's body; returns when the engine stops.
pub(crate) fn run(
    shared: &SharedState,
    events: &EventSender,
    pacing: Pacing,
    foreign_router_period: Duration,
) {
    let mut neighbour = Neighbour {
        shared,
        events,
        followed: BTreeMap::new(),
        by_address: BTreeSet::new(),
        by_vrid: BTreeMap::new(),
        schedule: Schedule::new(),
        token_bucket: TokenBucket::new(NonZeroU32::new(pacing.frames_per_second).unwrap_or(NonZeroU32::MIN)),
        conflicts: Conflicts::new(),
        groups: BTreeMap::new(),
        source_announcements: SourceAnnouncements::default(),
        own_macs: OwnMacs::default(),
        foreign_reports: RateLimiter::with_period(foreign_router_period),
        peer_questions: RateLimiter::with_period(PEER_QUESTIONS),
        read_until: Time::default(),
        answer_due: Time::default(),
        foreign_due: Time::default(),
        buffer: ReceiveBuffer::new(),
    };
    let mut wait_time = Duration::ZERO;
    while !shared.is_stopping() {
        faults::round();
        let links = shared.links();
        if neighbour.wait(&links, wait_time) {
            // Drained before looking: what changes from here on wakes again.
            shared.neighbour_waker().drain();
            neighbour.follow_all();
        }
        neighbour.end_waits();
        neighbour.announce();
        neighbour.answer_all(&links);
        neighbour.receive_foreign_adverts(&links);
        neighbour.answer_unicast();
        neighbour.settle_conflicts();
        let busy = neighbour.join_groups();
        let now = clock::now();
        wait_time =
            if busy { Duration::ZERO } else { neighbour.deadline(now).map_or(IDLE, |due| due.since(now)) };
    }
}

impl Neighbour<'_> {
    /// Waits for a frame, the waker or the next deadline. Returns true if it was the waker.
    fn wait(&self, links: &[Arc<LinkSockets>], wait_time: Duration) -> bool {
        let now = clock::now();
        let (hears_hosts, hears_routers) = (self.answer_due <= now, self.foreign_due <= now);
        let mut descriptors = vec![PollFd::new(self.shared.neighbour_waker().as_fd(), PollFlags::POLLIN)];
        for link in links {
            let hosts = link.neighbour.readable().into_iter().filter(|_| hears_hosts);
            descriptors.extend(hosts.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            let foreign = link.families().filter(|_| hears_routers);
            descriptors.extend(foreign.map(|raw| PollFd::new(raw.foreign.as_fd(), PollFlags::POLLIN)));
        }
        let unicast = self.followed.values().filter_map(|followed| followed.unicast.as_ref());
        descriptors.extend(unicast.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)));
        match ppoll(&mut descriptors, Some(TimeSpec::from(wait_time)), None) {
            Ok(_) => descriptors[0].any().unwrap_or(true),
            // A signal, or memory is lacking: looking once too often does no harm.
            Err(_) => true,
        }
    }

    /// Returns the time at which there is something to do without a wake-up.
    fn deadline(&self, now: Time) -> Option<Time> {
        let probes = self.followed.values().filter_map(|followed| followed.tracker.deadline());
        let waits = self.followed.values().filter_map(|followed| followed.waits_until);
        let frames = probes.chain(self.schedule.deadline()).min();
        // What is due waits for its turn.
        let frames = frames.map(|due| due.max(self.token_bucket.next(now)));
        let reads = [self.answer_due, self.foreign_due].into_iter().filter(|due| *due > now);
        let frames = frames.into_iter().chain(waits);
        frames.chain(self.conflicts.deadline()).chain(self.groups_deadline()).chain(reads).min()
    }
}

/// Identifies an interface's sockets.
fn id_of(link: &Arc<LinkSockets>) -> SocketsId {
    link.serial
}
