//! Lock-free state through which the timer thread directs the threads that hold and announce VIPs: a lock held by a thread of lower
//! priority would make it wait for whatever keeps that thread from running.
//!
//! Each virtual router has a [`RouterHandle`]. The timer thread writes a few atomics in it and wakes the others, which compare what they
//! did with the handle, as often as they are woken: nothing can be lost or overtake.
//!
//! ```text
//! timer thread ──takeover──► RouterHandle ◄──looks── neighbour thread: probes, clears addresses, answers, announces
//!                                  ▲ │ cleared ──► hold thread: binds cleared addresses (Address, Vmac), tells bound
//!                                  └─┴── bound ──► neighbour thread: announces what is bound
//! ```

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use ipnet::IpNet;
use nix::sys::eventfd::{EfdFlags, EventFd};
use windlass_dataplane::restriction::Restrictions;
use windlass_kernel::sockets::{LinkSockets, UnicastSocket};
use windlass_vrrp::auth::Authentication;
use windlass_vrrp::{Priority, Time};

use crate::config::{AddressConflictPolicy, Hold, RouterConfig, RouterKey};
use crate::core::predecessor::{HandedOverBy, Predecessor};
use crate::sharing::trails::Passing;
use crate::status::{ForwardingStatus, GuardStatus, ReplicationStatus};

#[cfg(test)]
mod tests;

/// Longest additional time for which a takeover waits for replicas that are to replace forwarded connections. It takes milliseconds, but a
/// busy node may leave the thread, which has ordinary priority, without a processor: without the replicas, the connections are reset.
const REPLACEMENT: Duration = Duration::from_millis(400);

/// Takeovers of all virtual routers of the process: each has a number of its own.
static TAKEOVERS: AtomicU64 = AtomicU64::new(0);

/// The state of a virtual router, shared by the threads.
#[derive(Debug)]
pub(crate) struct RouterHandle {
    pub(crate) key: RouterKey,
    /// Nanoseconds of the clock until which this node acts as Active; 0: it is not Active. The timer thread extends it with every advert;
    /// the others check it before each thing they do, so that they stop when the timer thread demotes the router, and also when the whole
    /// process was frozen and they happen to run again first.
    active_until: AtomicU64,
    /// Nanoseconds of the clock until which a router that has resigned leaves bound what is bound, for the peer that is about
    /// to take over.
    lingers_until: AtomicU64,
    /// The router's present takeover, or its last one.
    takeover: ArcSwap<Takeover>,
    /// Times another Active was heard and beaten.
    contentions: AtomicU64,
    /// The peer that was heard last.
    heard_from: ArcSwap<Option<IpAddr>>,
    /// Two adverts of that peer are missing, which is Active as far as is known.
    misses_active: AtomicBool,
    /// The takeover that the hold thread has prepared.
    prepared: AtomicU64,
    /// True if connections of peers wait for a takeover to replace others.
    blocked: AtomicBool,
    /// The takeover after which that was done.
    unblocked: AtomicU64,
    plan: ArcSwap<Plan>,
    cleared: ArcSwap<BTreeSet<IpAddr>>,
    bound: ArcSwap<BTreeSet<IpAddr>>,
    unicast: ArcSwapOption<UnicastSocket>,
    /// ARP requests and neighbour solicitations answered.
    pub(crate) replies: AtomicU64,
    /// Adverts with its VRID from others than candidates of this interface.
    pub(crate) foreign_adverts: AtomicU64,
    /// Frames the kernel refused to send.
    pub(crate) send_errors: AtomicU64,
    /// Gratuitous ARP and unsolicited neighbour advertisements sent.
    pub(crate) announcements: AtomicU64,
}

/// A takeover, published in one piece: no thread finds the number of one with the predecessor of another. It is allocated at each takeover,
/// and never for an advert.
#[derive(Debug, Default)]
struct Takeover {
    /// Number of the takeover; 0: none yet.
    number: u64,
    predecessor: Predecessor,
    handed_over_by: HandedOverBy,
    /// Time until which it waits for the hold thread; long ago if it need not.
    prepares_until: Time,
}

/// Plan of what to hold. Replaced when the configuration or the interface changes.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) addresses: Arc<[IpAddr]>,
    pub(crate) hold: Hold,
    pub(crate) accept: bool,
    pub(crate) probe: Option<Duration>,
    /// Addresses that no peer is known to have claimed, whichever node was Active.
    pub(crate) unproven: Arc<BTreeSet<IpAddr>>,
    /// Addresses that are claimed although another host has them.
    pub(crate) forced: Arc<BTreeSet<IpAddr>>,
    /// Addresses that were added when this node served them in other virtual routers: they are no strangers'.
    pub(crate) in_service: Arc<BTreeSet<IpAddr>>,
    /// Reaction to another host that claims an address as well.
    pub(crate) address_conflict: AddressConflictPolicy,
    /// Source of its adverts if they go to each peer by itself: its peers' adverts come to it in turn.
    pub(crate) unicast_source: Option<IpAddr>,
    /// True if packets that kube-proxy would masquerade get the VIP as their source.
    pub(crate) vip_as_source: bool,
    /// Networks of backends that do not get it.
    pub(crate) astray: Arc<BTreeSet<IpNet>>,
    /// The peers that are to know its connections while this node is Active.
    pub(crate) replicas: Arc<BTreeSet<IpAddr>>,
    /// True if connections that began elsewhere are forwarded to where they began.
    pub(crate) forward_connections: bool,
    /// Standing against which adverts of its peers in another virtual router are checked.
    pub(crate) standing: Arc<Standing>,
    /// The interface's sockets; `None` while it cannot be used.
    pub(crate) link: Option<Arc<LinkSockets>>,
}

/// Standing of a router among its peers.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    priority: Priority,
    source: IpAddr,
    peers: BTreeSet<IpAddr>,
    /// True if any router that advertises one of its VIPs is a peer.
    recognise_peers: bool,
    /// Authentication that distinguishes its peers' adverts from forged ones.
    pub(crate) authentication: Option<Authentication>,
}

impl Standing {
    pub(crate) fn of(config: &RouterConfig) -> Self {
        Self {
            priority: config.priority,
            source: config.source,
            peers: config.peers.clone(),
            recognise_peers: config.recognise_peers,
            authentication: config.authentication.clone(),
        }
    }

    /// This node's address in it.
    pub(crate) fn source(&self) -> IpAddr {
        self.source
    }

    /// The other candidates.
    pub(crate) fn peers(&self) -> &BTreeSet<IpAddr> {
        &self.peers
    }

    /// Returns true if this sender, which advertises one of its VIPs, is one of its peers.
    pub(crate) fn is_peer(&self, source: IpAddr) -> bool {
        self.peers.contains(&source) || self.recognise_peers && source != self.source
    }

    /// Returns true if it would lose an election to this sender (RFC 9568 §6.4.3).
    pub(crate) fn loses_to(&self, priority: Priority, source: IpAddr) -> bool {
        (priority, source) > (self.priority, self.source)
    }
}

/// A takeover as a helper thread sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ActiveState {
    /// True if this node acts as Active.
    pub(crate) active: bool,
    /// Which takeover it is; another number is another takeover.
    pub(crate) takeover: u64,
    /// Number of times that it was contested since it was created.
    pub(crate) contentions: u64,
    /// From whom it is.
    pub(crate) predecessor: Predecessor,
}

impl RouterHandle {
    pub(crate) fn new(key: RouterKey, plan: Plan) -> Self {
        Self {
            key,
            active_until: AtomicU64::new(0),
            lingers_until: AtomicU64::new(0),
            takeover: ArcSwap::default(),
            contentions: AtomicU64::new(0),
            heard_from: ArcSwap::default(),
            misses_active: AtomicBool::new(false),
            prepared: AtomicU64::new(0),
            blocked: AtomicBool::new(false),
            unblocked: AtomicU64::new(0),
            plan: ArcSwap::from_pointee(plan),
            cleared: ArcSwap::default(),
            bound: ArcSwap::default(),
            unicast: ArcSwapOption::empty(),
            replies: AtomicU64::new(0),
            foreign_adverts: AtomicU64::new(0),
            send_errors: AtomicU64::new(0),
            announcements: AtomicU64::new(0),
        }
    }

    /// The router has become Active. What was handed over waits for [`Self::set_prepared`] until `prepares_until`, so that
    /// no packet comes before its connection's node is known. Timer thread.
    pub(crate) fn take_over(
        &self,
        predecessor: Predecessor,
        handed_over_by: HandedOverBy,
        prepares_until: Option<Time>,
        until: Time,
    ) {
        let number = TAKEOVERS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let prepares_until = prepares_until.unwrap_or_default();
        self.takeover.store(Arc::new(Takeover { number, predecessor, handed_over_by, prepares_until }));
        self.active_until.store(until.nanos(), Ordering::Release);
    }

    /// Returns the number of the takeover, and the node that handed over. Hold thread.
    pub(crate) fn takeover(&self) -> (u64, HandedOverBy) {
        let takeover = self.takeover.load();
        (takeover.number, takeover.handed_over_by)
    }

    /// Records the peer that was received last, if it is another than before. Timer thread.
    pub(crate) fn hear_from(&self, peer: IpAddr) {
        self.heard_from.store(Arc::new(Some(peer)));
    }

    /// The peer that was heard last. Hold thread.
    pub(crate) fn heard_from(&self) -> Option<IpAddr> {
        **self.heard_from.load()
    }

    /// Records whether two adverts of the Active are missing; they no longer are once it is received again or another is Active. To be
    /// called after [`Self::take_over`], so that no look finds neither. Returns true if they are newly missing. Timer thread.
    pub(crate) fn set_misses_active(&self, misses: bool) -> bool {
        misses != self.misses_active.load(Ordering::Relaxed)
            && !self.misses_active.swap(misses, Ordering::Release)
    }

    /// Returns true if two adverts of the peer received last are missing. To be called before [`Self::takeover`]. Hold thread.
    pub(crate) fn misses_active(&self) -> bool {
        self.misses_active.load(Ordering::Acquire)
    }

    /// Records that packets of connections handed over with this takeover find their way. Returns true if another thread waits for that.
    /// Hold thread.
    pub(crate) fn set_prepared(&self, takeover: u64, now: Time) -> bool {
        let waits = self.prepared.swap(takeover, Ordering::AcqRel) != takeover;
        waits && now < self.takeover.load().prepares_until
    }

    /// Returns true if they do, or no thread waits for that. Thread of connections.
    pub(crate) fn is_prepared(&self, takeover: u64, now: Time) -> bool {
        self.prepared.load(Ordering::Acquire) == takeover || now >= self.takeover.load().prepares_until
    }

    /// Returns the time until which the present takeover still waits for that, and for replicas that replace forwarded connections, which
    /// is done after it. Neighbour thread.
    pub(crate) fn prepares_until(&self, now: Time) -> Option<Time> {
        let takeover = self.takeover.load();
        let is_blocked =
            self.blocked.load(Ordering::Acquire) && self.unblocked.load(Ordering::Acquire) != takeover.number;
        let is_prepared = self.prepared.load(Ordering::Acquire) == takeover.number;
        let prepares = takeover.prepares_until;
        let until = if is_blocked { prepares + REPLACEMENT } else { prepares };
        (now < until && (is_blocked || !is_prepared)).then_some(until)
    }

    /// Records whether connections of peers wait for a takeover to replace others. Thread of connections.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Release);
    }

    /// Returns true if they did at the last look. Thread of connections.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Acquire)
    }

    /// Records that they have replaced the others. Returns true if another thread may wait for that. Thread of connections.
    pub(crate) fn set_unblocked(&self, takeover: u64) -> bool {
        self.unblocked.swap(takeover, Ordering::AcqRel) != takeover && self.blocked.load(Ordering::Acquire)
    }

    /// Extends the time for which it is Active. Returns true if that had lapsed meanwhile, so that another thread may have seen it lapsed
    /// and must be woken to look again. Timer thread.
    pub(crate) fn extend(&self, until: Time, clock: impl FnOnce() -> Time) -> bool {
        let before = self.active_until.swap(until.nanos(), Ordering::AcqRel);
        // Read after the exchange: who looked before it, at whatever time, is included.
        clock().nanos() >= before
    }

    /// It is no longer Active. Timer thread.
    pub(crate) fn end_active(&self) {
        self.active_until.store(0, Ordering::Release);
    }

    /// It is about to resign: what is bound stays so until then. Timer thread.
    pub(crate) fn linger(&self, until: Time) {
        self.lingers_until.store(until.nanos(), Ordering::Release);
    }

    /// A peer has taken over: what is bound stays so no longer than until then. Neighbour thread.
    pub(crate) fn limit_linger(&self, by: Time) {
        self.lingers_until.fetch_min(by.nanos(), Ordering::AcqRel);
    }

    /// Returns true if it has resigned and no peer has taken over yet.
    pub(crate) fn is_lingering(&self, now: Time) -> bool {
        !self.is_active(now) && now.nanos() < self.lingers_until.load(Ordering::Acquire)
    }

    /// It was contested and won. Timer thread.
    pub(crate) fn note_contention(&self) {
        self.contentions.fetch_add(1, Ordering::Release);
    }

    /// Returns true if it has become Active, however long ago the last advert was. Timer thread.
    pub(crate) fn is_promoted(&self) -> bool {
        self.active_until.load(Ordering::Relaxed) != 0
    }

    /// Returns true if this node may act as Active at this instant.
    pub(crate) fn is_active(&self, now: Time) -> bool {
        now.nanos() < self.active_until.load(Ordering::Acquire)
    }

    /// Returns the takeover as the timer thread has published it.
    pub(crate) fn active_state(&self, now: Time) -> ActiveState {
        let active = self.is_active(now);
        let takeover = self.takeover.load();
        ActiveState {
            active,
            takeover: takeover.number,
            contentions: self.contentions.load(Ordering::Acquire),
            predecessor: takeover.predecessor,
        }
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.plan.load_full()
    }

    pub(crate) fn set_plan(&self, plan: Plan) {
        self.plan.store(Arc::new(plan));
    }

    /// Returns the addresses that may be claimed: no other host answers for them. Set by the neighbour thread.
    pub(crate) fn cleared(&self) -> Arc<BTreeSet<IpAddr>> {
        self.cleared.load_full()
    }

    pub(crate) fn set_cleared(&self, addresses: BTreeSet<IpAddr>) {
        self.cleared.store(Arc::new(addresses));
    }

    /// Addresses that are bound. Set by the hold thread.
    pub(crate) fn bound(&self) -> Arc<BTreeSet<IpAddr>> {
        self.bound.load_full()
    }

    pub(crate) fn set_bound(&self, addresses: BTreeSet<IpAddr>) {
        self.bound.store(Arc::new(addresses));
    }

    /// Returns the socket that receives requests to the virtual router MAC address, where a device has it. Set by the hold thread.
    pub(crate) fn unicast(&self) -> Option<Arc<UnicastSocket>> {
        self.unicast.load_full()
    }

    /// Replaces that socket. Returns true if it changed.
    pub(crate) fn set_unicast(&self, socket: Option<Arc<UnicastSocket>>) -> bool {
        let new = socket.as_ref().map(Arc::as_ptr);
        self.unicast.swap(socket).as_ref().map(Arc::as_ptr) != new
    }
}

/// All router handles of the node, and the wakers of the threads that follow them.
#[derive(Debug)]
pub(crate) struct SharedState {
    handles: ArcSwap<Vec<Arc<RouterHandle>>>,
    links: ArcSwap<Vec<Arc<LinkSockets>>>,
    restrictions: ArcSwap<Restrictions>,
    guard_status: ArcSwap<GuardStatus>,
    forwarding_status: ArcSwap<ForwardingStatus>,
    replication_status: ArcSwap<ReplicationStatus>,
    forwarded: ArcSwap<BTreeSet<IpAddr>>,
    /// Nodes that may have connections of shared addresses.
    pub(crate) passing: Passing,
    stopping: AtomicBool,
    neighbour: Waker,
    hold: Waker,
    connections: Waker,
    sharing: Waker,
}

impl SharedState {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            handles: ArcSwap::default(),
            links: ArcSwap::default(),
            restrictions: ArcSwap::default(),
            guard_status: ArcSwap::default(),
            forwarding_status: ArcSwap::default(),
            replication_status: ArcSwap::default(),
            forwarded: ArcSwap::default(),
            passing: Passing::default(),
            stopping: AtomicBool::new(false),
            neighbour: Waker::new()?,
            hold: Waker::new()?,
            connections: Waker::new()?,
            sharing: Waker::new()?,
        })
    }

    pub(crate) fn handles(&self) -> Arc<Vec<Arc<RouterHandle>>> {
        self.handles.load_full()
    }

    /// Replaces all router handles, and wakes.
    pub(crate) fn publish(&self, handles: Vec<Arc<RouterHandle>>) {
        self.handles.store(Arc::new(handles));
        self.wake();
    }

    /// All interfaces that can be used, with or without routers.
    pub(crate) fn links(&self) -> Arc<Vec<Arc<LinkSockets>>> {
        self.links.load_full()
    }

    /// Replaces all interfaces, and wakes.
    pub(crate) fn publish_links(&self, links: Vec<Arc<LinkSockets>>) {
        self.links.store(Arc::new(links));
        self.wake();
    }

    /// Returns the sources that may send to each port of VIPs.
    pub(crate) fn restrictions(&self) -> Arc<Restrictions> {
        self.restrictions.load_full()
    }

    /// Replaces the restrictions, and wakes the hold thread. Called by the engine's user.
    pub(crate) fn restrict(&self, restrictions: Arc<Restrictions>) {
        self.restrictions.store(restrictions);
        self.hold.wake();
    }

    /// Which restrictions are in force.
    pub(crate) fn guard_status(&self) -> Arc<GuardStatus> {
        self.guard_status.load_full()
    }

    /// Set by the hold thread.
    pub(crate) fn set_guard_status(&self, status: GuardStatus) {
        self.guard_status.store(Arc::new(status));
    }

    /// Returns the status of forwarding for connections of VIPs that were handed over.
    pub(crate) fn forwarding_status(&self) -> Arc<ForwardingStatus> {
        self.forwarding_status.load_full()
    }

    /// Set by the hold thread.
    pub(crate) fn set_forwarding_status(&self, status: ForwardingStatus) {
        self.forwarding_status.store(Arc::new(status));
    }

    /// VIPs of which unknown connections are forwarded to the node that handed them over.
    pub(crate) fn forwarded(&self) -> Arc<BTreeSet<IpAddr>> {
        self.forwarded.load_full()
    }

    /// Replaces those VIPs. Called by the hold thread, before it marks what is handed over as prepared.
    pub(crate) fn set_forwarded(&self, vips: BTreeSet<IpAddr>) {
        if **self.forwarded.load() != vips {
            self.forwarded.store(Arc::new(vips));
            self.connections.wake();
        }
    }

    /// Wakes the thread of connections alone.
    pub(crate) fn wake_connections(&self) {
        self.connections.wake();
    }

    /// Returns the status of the replication of connections.
    pub(crate) fn replication_status(&self) -> Arc<ReplicationStatus> {
        self.replication_status.load_full()
    }

    /// Set by the thread of connections.
    pub(crate) fn set_replication_status(&self, status: ReplicationStatus) {
        self.replication_status.store(Arc::new(status));
    }

    /// Nothing is replicated, for this reason: no peer knows or is known, and no takeover waits for replicas. Until the thread of connections
    /// sets it anew.
    pub(crate) fn withdraw_replication(&self, error: &str) {
        let ReplicationStatus { table_full, refused, .. } = *self.replication_status();
        let error = Some(error.to_owned());
        self.set_replication_status(ReplicationStatus {
            table_full,
            refused,
            error,
            ..ReplicationStatus::default()
        });
        self.handles().iter().for_each(|handle| handle.set_blocked(false));
        self.neighbour.wake();
    }

    /// Nothing is forwarded, for this reason, until the hold thread sets it anew.
    pub(crate) fn withdraw_forwarding(&self, error: &str) {
        let ForwardingStatus { addresses, packets, .. } = *self.forwarding_status();
        self.set_forwarding_status(ForwardingStatus { addresses, packets, error: Some(error.to_owned()) });
    }

    /// Ends the threads that follow it, after the last router has stopped.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns true if the threads are to release everything and end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Wakes all threads.
    pub(crate) fn wake(&self) {
        self.neighbour.wake();
        self.hold.wake();
        self.connections.wake();
        self.sharing.wake();
    }

    /// Wakes the neighbour thread alone.
    pub(crate) fn wake_neighbour(&self) {
        self.neighbour.wake();
    }

    /// Wakes the hold thread alone.
    pub(crate) fn wake_hold(&self) {
        self.hold.wake();
    }

    pub(crate) fn neighbour_waker(&self) -> &Waker {
        &self.neighbour
    }

    pub(crate) fn hold_waker(&self) -> &Waker {
        &self.hold
    }

    pub(crate) fn connections_waker(&self) -> &Waker {
        &self.connections
    }

    pub(crate) fn sharing_waker(&self) -> &Waker {
        &self.sharing
    }
}

/// Wakes a thread that waits for descriptors.
#[derive(Debug)]
pub(crate) struct Waker(EventFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }

    pub(crate) fn wake(&self) {
        // Fails only when the counter is at its maximum, and then the thread is woken already.
        let _ = self.0.write(1);
    }

    /// Resets it, before looking at what it was woken for.
    pub(crate) fn drain(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
