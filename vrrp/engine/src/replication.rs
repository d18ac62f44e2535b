//! The thread `windlass-connections`: replicates the connections of VIPs to the nodes that may take over.
//!
//! ```text
//! kernel ──events, lists──► ServedConnections ──table──► Session ──datagrams──► peer
//! kernel ◄──replicas────── KernelReplicas ◄──changes── Session ◄──datagrams── peer
//! ```
//!
//! The protocol between nodes, and its reasons: [`windlass_vrrp::replication`]. An entry of a replica is in the kernel of a Backup
//! like one of its own, with both translations: when the Backup becomes Active, packets find it there, and nothing is left to do.
//! Only what a peer forwards to a backend on this very node has to be replaced then ([`KernelReplicas::take_over`]).
//!
//! Little here is urgent: a connection that is replicated late is missing after a takeover, as all would be without. So it has no
//! real-time scheduling, and a takeover waits for it only where there is something to replace, for a tenth of a second more than it
//! does anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use windlass_kernel::clock;
use windlass_kernel::connections::{Tracking, TrackingError};
use windlass_kernel::poll::poll;
use windlass_vrrp::Time;
use windlass_vrrp::replication::{Change, Connection, Epoch};

use crate::handle::SharedState;
use crate::options::ConnectionReplication;
use crate::rate_limit::RateLimiter;
use crate::status::ReplicationStatus;
use crate::supervisor::Helper;

mod backends;
mod budget;
mod kernel_replicas;
mod plan;
mod routers;
mod served;
mod session;
#[cfg(test)]
mod tests;
mod trouble;
mod udp;

use kernel_replicas::KernelReplicas;
use plan::{Ends, ReplicatedRouter, SharingPlan, plan};
use routers::{Interfaces, Router, say_unblocked, settled, waited_for};
use served::ServedConnections;
use session::Session;
use trouble::Trouble;
use udp::UdpSockets;
pub(crate) use udp::draw;

/// Time between two looks at the kernel's events: one event by itself wakes no thread.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two looks where nothing is served.
const IDLE: Duration = Duration::from_secs(1);
/// Time for which the connections of a VIP are still replicated after this node has released it: until its next Active does it.
const AFTERWARDS: Duration = Duration::from_secs(10);
/// Time from one renewal of all replicas to the next: a third of their lifetime in the kernel.
const RENEWAL: Duration = Duration::from_secs(200);
/// Time for which all other work rests while a takeover waits for replicas. An event that the takeover needs wakes the thread.
const TAKEOVER_PAUSE: Duration = Duration::from_millis(10);
/// Replicas that are renewed together, and time until the next of them.
const RENEWED_AT_ONCE: usize = 1024;
const RENEWAL_PAUSE: Duration = Duration::from_millis(50);
/// Time between two looks whether the kernel has room for replicas for which it had none.
const ROOM_LOOK: Duration = Duration::from_secs(5);
/// Time between two looks how full the kernel's table is, while there are peers.
const USAGE_LOOK: Duration = Duration::from_secs(1);
/// Replicas that a look gives up at most, of each peer: the rest is for the next one.
const GIVEN_UP_AT_ONCE: usize = 1 << 16;

/// The thread's body; returns when the engine stops. Its entries in the kernel stay there until they expire.
pub(crate) fn run(shared: &SharedState, settings: ConnectionReplication, helper: &Helper) {
    let mut replication = Replication::new(settings);
    let mut interfaces = Interfaces::default();
    loop {
        helper.begin_round();
        shared.connections_waker().drain();
        if shared.is_stopping() {
            return;
        }
        let now = clock::now();
        let routers = interfaces.routers(&shared.handles(), shared.passing.trails().as_deref(), now);
        // First: what is taken over is announced when its connections are there.
        let settled = settled(&routers, now);
        replication.take_over(&waited_for(&settled, &shared.forwarded()), now);
        if say_unblocked(&settled) {
            shared.wake_neighbour();
        }
        let due = replication.round(routers, now);
        let status = replication.status(clock::now());
        if *shared.replication_status() != status {
            shared.set_replication_status(status);
        }
        helper.end_round();
        wait(shared, &replication.sockets, due.map(|due| due.since(clock::now())));
    }
}

fn wait(shared: &SharedState, sockets: &UdpSockets, limit: Option<Duration>) {
    let mut descriptors = vec![PollFd::new(shared.connections_waker().as_fd(), PollFlags::POLLIN)];
    descriptors.extend(sockets.descriptors().map(|socket| PollFd::new(socket, PollFlags::POLLIN)));
    poll(&mut descriptors, limit, "connections of peers");
}

/// The thread's state.
struct Replication {
    /// Wall clock at the start: no sender's life counts as older than that, though the clock be set back.
    start: u64,
    sockets: UdpSockets,
    sessions: BTreeMap<Ends, Session>,
    /// Opened when there is something to share.
    tracking: Option<Tracking>,
    served: ServedConnections,
    kernel: KernelReplicas,
    /// Routers that the plan was made of.
    routers: Vec<Router>,
    plan: SharingPlan,
    /// Times until which the connections of VIPs are still replicated that this node has released.
    afterwards: BTreeMap<IpAddr, Time>,
    /// Trouble with inserting and removing replicas in the kernel. While there is some, nothing is acknowledged to peers: they
    /// would take for known what the kernel does not have.
    putting: Trouble,
    /// Trouble with replacing connections at a takeover.
    taking_over: Trouble,
    /// Trouble with following what this node serves. While there is some, peers are informed that this node lags behind.
    following: Trouble,
    next_look: Time,
    /// Time of the next look whether the kernel has room again.
    room_look: Time,
    /// Number of replicas for which there is room, and time of the next look.
    budget: usize,
    usage_look: Time,
    /// Replicas that were not taken, or were given up, for lack of room.
    roomless: u64,
    reports: RateLimiter<()>,
}

impl Replication {
    fn new(settings: ConnectionReplication) -> Self {
        let sockets = UdpSockets::new(settings.port);
        Self {
            start: clock::wall_nanos(),
            sockets,
            sessions: BTreeMap::new(),
            tracking: None,
            served: ServedConnections::new(),
            kernel: KernelReplicas::default(),
            routers: Vec::new(),
            plan: SharingPlan::default(),
            afterwards: BTreeMap::new(),
            putting: Trouble::default(),
            taking_over: Trouble::default(),
            following: Trouble::default(),
            next_look: Time::default(),
            room_look: Time::default(),
            budget: budget::MOST,
            usage_look: Time::default(),
            roomless: 0,
            reports: RateLimiter::new(),
        }
    }

    /// Inserts the replicas that waited for a takeover of these VIPs into the kernel. A refused one is tried again immediately.
    fn take_over(&mut self, vips: &BTreeSet<IpAddr>, now: Time) {
        let kernel = &mut self.kernel;
        let outcome = if vips.is_empty() {
            Ok(())
        } else {
            with(&mut self.tracking, |tracking| kernel.take_over(vips, tracking))
        };
        let what_follows = "connections that peers forwarded to backends on this node are not taken over";
        self.taking_over.note(&outcome, what_follows, now);
    }

    /// Does the work that is due. Returns the time of the next look at the latest, `None` where there is none until the routers
    /// change.
    fn round(&mut self, routers: Vec<Router>, now: Time) -> Option<Time> {
        // Nothing is looked at each time of which there may be thousands.
        let is_planned =
            self.routers.iter().eq(&routers) && self.afterwards.values().all(|until| now < *until);
        let mut changes = if is_planned { Vec::new() } else { self.plan(routers, now) };
        if self.routers.iter().any(|router| router.waits(now)) {
            self.postpone(now + TAKEOVER_PAUSE);
        }
        changes.extend(self.make_room(now));
        changes.extend(self.hear(now));
        let sessions = &self.sessions;
        self.kernel.note(changes, |key| sessions.values().find_map(|session| session.replica(key)));
        if self.putting.is_due(now) {
            let outcome = self.put(now);
            self.putting.note(&outcome, "connections of peers are not put into the kernel for now", now);
        }
        if self.putting.error().is_some() && self.kernel.limit() {
            self.sessions.values_mut().for_each(|session| session.renew_from_the_beginning(now));
        }
        if self.kernel.take_news_of_blocked() || !is_planned {
            for router in &self.routers {
                router.handle.set_blocked(self.kernel.blocks(&router.plan.addresses));
            }
        }
        if self.sessions.is_empty() {
            self.tracking = None;
            self.served = ServedConnections::new();
            self.following = Trouble::default();
        } else if self.next_look <= now && self.following.is_due(now) {
            self.next_look = now + if self.served.is_following() { LOOK } else { IDLE };
            let outcome = self.look(now);
            self.following.note(&outcome, "connections are not replicated to peers for now", now);
        }
        self.transmit(now);
        self.due(now)
    }

    /// Postpones what may take long: lists of what the node serves, and renewals.
    fn postpone(&mut self, until: Time) {
        self.next_look = self.next_look.max(until);
        for session in self.sessions.values_mut() {
            session.renewal_due = session.renewal_due.max(until);
        }
    }

    /// Shares from now on what follows from these virtual routers. Returns the changes for the kernel.
    fn plan(&mut self, routers: Vec<Router>, now: Time) -> Vec<Change> {
        let replicated: Vec<ReplicatedRouter> = routers.iter().filter_map(Router::replicated).collect();
        self.routers = routers;
        let plan = self.linger(plan(&replicated), now);
        let changes = self.follow(&plan, now);
        if !plan.active.is_subset(&self.plan.active) {
            // Replicas are this node's own now: the kernel is to give them that lifetime, soon, and others get them.
            self.sessions.values_mut().for_each(|session| session.extend_from_the_beginning(now));
            self.served.list_anew();
            self.next_look = now;
        }
        self.kernel.serve(&plan.active);
        self.plan = plan;
        changes
    }

    /// Checks how full the kernel's table is, and gives up replicas, the oldest first, if there are more than there is room for.
    fn make_room(&mut self, now: Time) -> Vec<Change> {
        if self.sessions.is_empty() || now < self.usage_look || self.putting.error().is_some() {
            return Vec::new();
        }
        self.usage_look = now + USAGE_LOOK;
        let held: Vec<usize> = self.sessions.values().map(|session| session.replicas().len()).collect();
        let total: usize = held.iter().sum();
        let mut found = self.budget;
        let outcome = with(&mut self.tracking, |tracking| {
            found = budget::budget(tracking.usage()?, total);
            Ok(())
        });
        self.putting.note(&outcome, "connections of peers are not put into the kernel for now", now);
        self.budget = found;
        let excess = budget::excess(self.budget, &held);
        let changes: Vec<Change> = self
            .sessions
            .values_mut()
            .zip(excess)
            .filter(|(_, excess)| *excess > 0)
            .flat_map(|(session, excess)| session.give_up(excess.min(GIVEN_UP_AT_ONCE)))
            .collect();
        if !changes.is_empty() {
            self.roomless = self.roomless.saturating_add(changes.len() as u64);
            if self.reports.permits((), now) {
                tracing::warn!(
                    given_up = changes.len(),
                    left = total.saturating_sub(changes.len()),
                    room = self.budget,
                    "removed connections of peers, the oldest first: the table has no room for them beside \
                     this node's own. Raise net.netfilter.nf_conntrack_max; logged once a minute"
                );
            }
        }
        changes
    }

    /// Receives from peers, and handles the absence of their messages. Returns the changes for the kernel.
    fn hear(&mut self, now: Time) -> Vec<Change> {
        let mut changes = Vec::new();
        self.sockets.open(self.plan.peers.keys(), now);
        let peers = self.sessions.len();
        let mut total: usize = self.sessions.values().map(|session| session.replicas().len()).sum();
        for (ends, datagram) in self.sockets.receive(&self.plan) {
            let Some(session) = self.sessions.get_mut(&ends) else { continue };
            let (held, untaken) = (session.replicas().len(), session.untaken());
            session.set_room(budget::room(self.budget, peers, total, held));
            changes.extend(session.receive(&datagram, now));
            total = total.saturating_sub(held).saturating_add(session.replicas().len());
            self.roomless = self.roomless.saturating_add(session.untaken().saturating_sub(untaken));
        }
        for session in self.sessions.values_mut() {
            changes.extend(session.handle_timeout(now));
        }
        changes
    }

    /// Adds VIPs that were released a moment ago: else peers would remove the replicas before the next Active sends them.
    fn linger(&mut self, mut plan: SharingPlan, now: Time) -> SharingPlan {
        for vip in self.plan.followed.difference(&plan.followed) {
            self.afterwards.entry(*vip).or_insert(now + AFTERWARDS);
        }
        self.afterwards.retain(|vip, until| now < *until && !plan.followed.contains(vip));
        for (ends, peer) in &mut plan.peers {
            let Some(before) = self.plan.peers.get(ends).filter(|_| peer.is_replica) else { continue };
            let told_on = before.told.iter().filter(|vip| self.afterwards.contains_key(vip));
            peer.told.extend(told_on.filter(|vip| peer.believed.contains(vip)));
        }
        plan
    }

    /// Begins and ends sessions as planned. Returns the changes for the kernel.
    fn follow(&mut self, plan: &SharingPlan, now: Time) -> Vec<Change> {
        let mut changes = Vec::new();
        for ends in plan.peers.keys() {
            if !self.sessions.contains_key(ends) {
                self.sessions.insert(*ends, Session::new(*ends, draw(), now));
            }
        }
        self.served.set_segments(plan.peers.keys().map(|ends| ends.interface).collect());
        let start = self.start;
        let epoch = || Epoch { start: start.max(clock::wall_nanos()), random: draw() };
        // The table still has the connections whose end they are to be sent.
        for (ends, session) in &mut self.sessions {
            let nothing = plan::PeerPlan::default();
            let peer = plan.peers.get(ends).unwrap_or(&nothing);
            changes.extend(session.follow(peer, &plan.active, self.served.table(), epoch, now));
        }
        self.sessions.retain(|ends, _| plan.peers.contains_key(ends));
        let served = plan.followed.iter().chain(self.afterwards.keys()).copied().collect();
        self.served.set_vips(&served);
        changes
    }

    /// Carries out the peers' changes in the kernel, and renews their earlier replicas, some at a time.
    fn put(&mut self, now: Time) -> Result<(), TrackingError> {
        self.look_for_room(now)?;
        let (kernel, active) = (&mut self.kernel, &self.plan.active);
        if kernel.owes() {
            with(&mut self.tracking, |tracking| kernel.settle(active, tracking))?;
        }
        for session in self.sessions.values_mut().filter(|session| session.renewal_due <= now) {
            let is_due = |vip: &IpAddr| session.extends || !active.contains(vip);
            let vips: BTreeSet<IpAddr> = session.replicas().vips().filter(is_due).collect();
            let some: Vec<Connection> =
                session.replicas().after(session.renewed.as_ref(), &vips).take(RENEWED_AT_ONCE).collect();
            let (last, pause) = (
                some.last().map(|connection| connection.key),
                if some.is_empty() { RENEWAL } else { RENEWAL_PAUSE },
            );
            let is_own = |connection: &Connection| active.contains(&connection.key.vip.ip());
            let (own, replicas): (Vec<Connection>, Vec<Connection>) = some.into_iter().partition(is_own);
            // Its own once: from then on their packets, or the lack of them, decide on their lifetime.
            with(&mut self.tracking, |tracking| {
                kernel.renew(&replicas, tracking)?;
                kernel.extend(&own, tracking)
            })?;
            session.extends &= last.is_some();
            (session.renewed, session.renewal_due) = (last, now + pause);
        }
        Ok(())
    }

    /// Renews all replicas once the kernel has room again for some for which it had none: the missing ones are inserted by that.
    fn look_for_room(&mut self, now: Time) -> Result<(), TrackingError> {
        if !self.kernel.is_full() || now < self.room_look {
            return Ok(());
        }
        self.room_look = now + ROOM_LOOK;
        let mut has_room = false;
        with(&mut self.tracking, |tracking| {
            has_room = tracking.has_room()?;
            Ok(())
        })?;
        if has_room {
            self.sessions.values_mut().for_each(|session| session.renew_from_the_beginning(now));
        }
        Ok(())
    }

    /// Finds out what this node serves, and passes it to the sessions.
    fn look(&mut self, now: Time) -> Result<(), TrackingError> {
        let (served, mut told) = (&mut self.served, Vec::new());
        let outcome = with(&mut self.tracking, |tracking| served.look(tracking, &mut told, now));
        self.sessions.values_mut().for_each(|session| session.tell(&told, now));
        outcome
    }

    fn transmit(&mut self, now: Time) {
        let (answers, lags) = (self.answers(), self.following.error().is_some());
        let is_full = self.kernel.is_full();
        for (ends, session) in &mut self.sessions {
            session.set_lagging(lags);
            session.set_kernel_full(is_full);
            while let Some(datagram) = session.poll_transmit(self.served.table(), answers, now) {
                self.sockets.send(*ends, &datagram);
            }
        }
    }

    /// Returns true if messages of peers are acknowledged.
    fn answers(&self) -> bool {
        self.putting.error().is_none()
    }

    fn due(&self, now: Time) -> Option<Time> {
        let look = if self.sessions.is_empty() {
            // The interface of a virtual router may come, and released VIPs linger.
            let is_wanted = self.routers.iter().any(|router| !router.plan.replicas.is_empty());
            (is_wanted || !self.afterwards.is_empty()).then(|| now + IDLE)
        } else {
            Some(self.following.retry().unwrap_or(self.next_look))
        };
        let put = self.putting.retry();
        let room = Some(self.room_look).filter(|_| put.is_none() && self.kernel.is_full());
        let sessions = self.sessions.values().flat_map(|session| {
            let renewal = Some(session.renewal_due).filter(|_| put.is_none());
            session.poll_timeout(self.answers()).into_iter().chain(renewal)
        });
        sessions.chain(put).chain(room).chain(look).min()
    }

    fn status(&self, now: Time) -> ReplicationStatus {
        let outcomes = self.kernel.outcomes();
        let trouble =
            [&self.putting, &self.taking_over, &self.following].into_iter().find_map(Trouble::error);
        ReplicationStatus {
            connections: self.served.table().len(),
            peers: self.sessions.values().map(|session| session.status(self.answers(), now)).collect(),
            table_full: outcomes.table_full.saturating_add(self.roomless),
            refused: outcomes.refused,
            error: trouble.map(str::to_owned).or_else(|| self.sockets.error()),
        }
    }
}

/// Runs `act` with the kernel's connection tracking, which is opened if it is not, and closed after an error.
fn with(
    tracking: &mut Option<Tracking>,
    act: impl FnOnce(&mut Tracking) -> Result<(), TrackingError>,
) -> Result<(), TrackingError> {
    let mut open = match tracking.take() {
        Some(open) => open,
        None => Tracking::open()?,
    };
    act(&mut open)?;
    *tracking = Some(open);
    Ok(())
}
