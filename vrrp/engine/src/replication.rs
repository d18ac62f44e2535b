//! The thread `windlass-connections`: has the nodes that may take over know the connections of VIPs before they do.
//!
//! ```text
//! kernel ──events, lists──► ServedConnections ──table──► Session ──datagrams──► peer
//! kernel ◄──replicas────── KernelReplicas ◄──changes── Session ◄──datagrams── peer
//! ```
//!
//! What is said between nodes, and why so: [`windlass_vrrp::replication`]. An entry of a replica is in the kernel of a Backup like one
//! of its own, with both translations: when the Backup becomes Active, packets find it there, and nobody has to do anything. Only what a
//! peer forwards to a backend on this very node has to be replaced then ([`KernelReplicas::take_over`]).
//!
//! Little here is urgent: what is told late is missing after a takeover, as all would be without. So it has no real-time
//! scheduling, and a takeover waits for it only where there is something to replace, for a tenth of a second at most.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use windlass_vrrp::Time;
use windlass_vrrp::replication::{Change, Connection, Epoch};

use crate::clock;
use crate::config::Hold;
use crate::connections::{Tracking, TrackingError};
use crate::handle::{RouterHandle, SharedState};
use crate::options::ConnectionReplication;
use crate::status::ReplicationStatus;

mod backends;
mod kernel_replicas;
mod plan;
mod served;
mod session;
mod udp;

use kernel_replicas::KernelReplicas;
use plan::{Ends, ReplicatedRouter, SharingPlan, plan};
use served::ServedConnections;
use session::Session;
use udp::UdpSockets;

/// Time between two looks at what the kernel tells: one event by itself wakes nobody.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two looks where nothing is served.
const IDLE: Duration = Duration::from_secs(1);
/// How long the connections of a VIP are told on after this node has let go of it: until its next Active tells them.
const AFTERWARDS: Duration = Duration::from_secs(10);
/// Time from one renewal of all replicas to the next: a third of what the kernel remembers them for.
const RENEWAL: Duration = Duration::from_secs(200);
/// Replicas that are renewed at once, and time until the next of them.
const RENEWED_AT_ONCE: usize = 1024;
const RENEWAL_PAUSE: Duration = Duration::from_millis(50);
/// Time until the next try after the kernel refused.
const RETRY: Duration = Duration::from_secs(5);

/// The thread's body; returns when the engine stops. What it put into the kernel stays there until it expires.
pub(crate) fn run(shared: &SharedState, settings: ConnectionReplication) {
    let mut replication = Replication::new(settings);
    loop {
        shared.connections_waker().drain();
        if shared.is_stopping() {
            return;
        }
        let now = clock::now();
        let handles = shared.handles();
        // The takeover before whether there is one: what comes in between is for the next round.
        let takeovers: Vec<u64> = handles.iter().map(|handle| handle.takeover().0).collect();
        let active: Vec<bool> = handles.iter().map(|handle| handle.is_active(now)).collect();
        let routers: Vec<ReplicatedRouter> =
            handles.iter().zip(&active).filter_map(|(handle, active)| router(handle, *active)).collect();
        // First: what is taken over is announced when its connections are there. Whether the former Active lives, so that they are
        // forwarded to it, the hold thread finds out.
        let settled: Vec<(&Arc<RouterHandle>, u64)> = handles
            .iter()
            .zip(takeovers)
            .zip(active)
            .filter(|((handle, takeover), active)| *active && handle.is_prepared(*takeover, now))
            .map(|(settled, _)| settled)
            .collect();
        replication.take_over(&settled, &shared.forwarded());
        if settled.iter().fold(false, |waits, (handle, takeover)| waits | handle.set_unblocked(*takeover)) {
            shared.wake_neighbour();
        }
        let due = replication.round(&routers, now);
        for handle in handles.iter() {
            handle.set_blocked(replication.kernel.blocks(&handle.plan().addresses));
        }
        let status = replication.status(clock::now());
        if *shared.replication_status() != status {
            shared.set_replication_status(status);
        }
        wait(shared, &replication.sockets, due.since(clock::now()));
    }
}

/// A virtual router, if its connections can be replicated.
fn router(handle: &RouterHandle, active: bool) -> Option<ReplicatedRouter> {
    let plan = handle.plan();
    let link = plan.link.as_ref().filter(|_| plan.hold == Hold::Respond)?;
    Some(ReplicatedRouter {
        vips: Arc::clone(&plan.addresses),
        active,
        source: plan.standing.source(),
        interface: link.index,
        peers: plan.standing.peers().clone(),
        replicas: Arc::clone(&plan.replicas),
        keys: plan.standing.authentication.as_ref().map(|one| (one.keyring.clone(), one.mode)),
    })
}

fn wait(shared: &SharedState, sockets: &UdpSockets, limit: Duration) {
    let mut descriptors = vec![PollFd::new(shared.connections_waker().as_fd(), PollFlags::POLLIN)];
    descriptors.extend(sockets.descriptors().map(|socket| PollFd::new(socket, PollFlags::POLLIN)));
    match ppoll(&mut descriptors, Some(TimeSpec::from(limit)), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        // Only memory can lack: a pause is better than a spin.
        Err(error) => {
            tracing::error!(%error, "cannot wait for connections of peers");
            std::thread::sleep(LOOK);
        }
    }
}

/// The thread's state.
struct Replication {
    epoch: Epoch,
    sockets: UdpSockets,
    sessions: BTreeMap<Ends, Session>,
    /// Opened when there is something to share.
    tracking: Option<Tracking>,
    served: ServedConnections,
    kernel: KernelReplicas,
    plan: SharingPlan,
    /// Until when the connections of VIPs are told that this node has let go of.
    afterwards: BTreeMap<IpAddr, Time>,
    /// What the kernel refused, and when it is tried again.
    refused: Option<(Time, String)>,
    next_look: Time,
}

impl Replication {
    fn new(settings: ConnectionReplication) -> Self {
        let sockets = UdpSockets::new(settings.port);
        Self {
            epoch: Epoch { start: clock::wall_nanos(), random: UdpSockets::draw() },
            sockets,
            sessions: BTreeMap::new(),
            tracking: None,
            served: ServedConnections::new(),
            kernel: KernelReplicas::default(),
            plan: SharingPlan::default(),
            afterwards: BTreeMap::new(),
            refused: None,
            next_look: Time::default(),
        }
    }

    /// Puts what was blocked into the kernel, of VIPs for which this node is Active and whose former Active is sent nothing.
    fn take_over(&mut self, active: &[(&Arc<RouterHandle>, u64)], forwarded: &BTreeSet<IpAddr>) {
        let Some(tracking) = &mut self.tracking else { return };
        let vips = active.iter().flat_map(|(handle, _)| handle.plan().addresses.to_vec());
        let vips: BTreeSet<IpAddr> = vips.filter(|vip| !forwarded.contains(vip)).collect();
        if let Err(error) = self.kernel.take_over(&vips, tracking) {
            tracing::warn!(%error, "connections that peers forwarded to backends on this node were not taken over");
        }
    }

    /// Does what there is to do; when to look again at the latest.
    fn round(&mut self, routers: &[ReplicatedRouter], now: Time) -> Time {
        if let Some((retry, _)) = &self.refused
            && now < *retry
        {
            return *retry;
        }
        if let Err(error) = self.try_round(routers, now) {
            let error = error.to_string();
            if self.refused.as_ref().is_none_or(|(_, known)| *known != error) {
                tracing::warn!(error, "connections are not replicated for now; trying again");
            }
            self.tracking = None;
            self.refused = Some((now + RETRY, error));
            return now + RETRY;
        }
        self.refused = None;
        let own = if self.sessions.is_empty() { now + IDLE } else { self.next_look };
        let sessions = self.sessions.values();
        sessions
            .flat_map(|session| session.poll_timeout().into_iter().chain([session.renewal_due]))
            .fold(own, Time::min)
    }

    fn try_round(&mut self, routers: &[ReplicatedRouter], now: Time) -> Result<(), TrackingError> {
        let plan = self.linger(plan(routers), now);
        if plan.peers.is_empty() && self.sessions.is_empty() {
            self.tracking = None;
            return Ok(());
        }
        let mut tracking = match self.tracking.take() {
            Some(tracking) => tracking,
            None => Tracking::open()?,
        };
        let done = self.share(plan, &mut tracking, now);
        self.tracking = Some(tracking);
        done
    }

    /// What was let go of a moment ago is told on: who was told would forget it before the next Active has told it.
    fn linger(&mut self, mut plan: SharingPlan, now: Time) -> SharingPlan {
        for vip in self.plan.active.difference(&plan.active) {
            self.afterwards.entry(*vip).or_insert(now + AFTERWARDS);
        }
        self.afterwards.retain(|vip, until| now < *until && !plan.active.contains(vip));
        for (ends, peer) in &mut plan.peers {
            let Some(before) = self.plan.peers.get(ends).filter(|_| peer.is_replica) else { continue };
            let told_on = before.told.iter().filter(|vip| self.afterwards.contains_key(vip));
            peer.told.extend(told_on.filter(|vip| peer.believed.contains(vip)));
        }
        plan
    }

    fn share(&mut self, plan: SharingPlan, tracking: &mut Tracking, now: Time) -> Result<(), TrackingError> {
        let mut changes = self.follow(&plan, now);
        if !plan.active.is_subset(&self.plan.active) {
            // What was replicated is this node's own: it is renewed as that, soon, and told to others.
            for session in self.sessions.values_mut() {
                (session.renewed, session.renewal_due) = (None, now);
            }
            self.next_look = now;
        }
        self.plan = plan;
        for (ends, datagram) in self.sockets.receive(&self.plan) {
            if let Some(session) = self.sessions.get_mut(&ends) {
                changes.extend(session.receive(&datagram, now));
            }
        }
        for session in self.sessions.values_mut() {
            changes.extend(session.handle_timeout(now));
        }
        let sessions = &self.sessions;
        let told = |key: &_| sessions.values().find_map(|session| session.replica(key));
        self.kernel.apply(changes, told, tracking)?;
        if self.next_look <= now {
            self.next_look = now + if self.served.is_following() { LOOK } else { IDLE };
            let told = self.served.look(tracking, now)?;
            self.sessions.values_mut().for_each(|session| session.tell(&told, now));
        }
        self.renew(tracking, now)?;
        for (ends, session) in &mut self.sessions {
            while let Some(datagram) = session.poll_transmit(self.served.table(), now) {
                self.sockets.send(*ends, &datagram);
            }
        }
        Ok(())
    }

    /// Begins and ends sessions as planned; what follows for the kernel.
    fn follow(&mut self, plan: &SharingPlan, now: Time) -> Vec<Change> {
        let mut changes = Vec::new();
        for ends in plan.peers.keys() {
            if !self.sessions.contains_key(ends) {
                self.sessions.insert(*ends, Session::new(*ends, UdpSockets::draw(), now));
            }
        }
        self.sockets.open(plan.peers.keys(), now);
        self.served.set_segments(plan.peers.keys().map(|ends| ends.interface).collect());
        // The table still has what they are to be told as ended.
        for (ends, session) in &mut self.sessions {
            let nothing = plan::PeerPlan::default();
            let peer = plan.peers.get(ends).unwrap_or(&nothing);
            changes.extend(session.follow(peer, &plan.active, self.served.table(), self.epoch, now));
        }
        self.sessions.retain(|ends, _| plan.peers.contains_key(ends));
        let served = plan.active.iter().chain(self.afterwards.keys()).copied().collect();
        self.served.set_vips(&served);
        changes
    }

    /// Has the kernel remember replicas for longer, some at a time.
    fn renew(&mut self, tracking: &mut Tracking, now: Time) -> Result<(), TrackingError> {
        let active = &self.plan.active;
        for session in self.sessions.values_mut().filter(|session| session.renewal_due <= now) {
            let vips: BTreeSet<IpAddr> = session.replicas().vips().collect();
            let some: Vec<Connection> =
                session.replicas().after(session.renewed.as_ref(), &vips).take(RENEWED_AT_ONCE).collect();
            session.renewed = some.last().map(|connection| connection.key);
            session.renewal_due = now + if some.is_empty() { RENEWAL } else { RENEWAL_PAUSE };
            let is_own = |connection: &Connection| active.contains(&connection.key.vip.ip());
            let (own, replicas): (Vec<Connection>, Vec<Connection>) = some.into_iter().partition(is_own);
            self.kernel.renew(&replicas, tracking)?;
            self.kernel.extend(&own, tracking)?;
        }
        Ok(())
    }

    fn status(&self, now: Time) -> ReplicationStatus {
        let outcomes = self.kernel.outcomes();
        ReplicationStatus {
            connections: self.served.table().len(),
            peers: self.sessions.values().map(|session| session.status(now)).collect(),
            table_full: outcomes.table_full,
            refused: outcomes.refused,
            error: self.refused.as_ref().map(|(_, error)| error.clone()).or_else(|| self.sockets.error()),
        }
    }
}
