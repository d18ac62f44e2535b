//! One round of the thread: what is wanted, what is there, what is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use windlass_dataplane::guard::UnknownConnections;
use windlass_dataplane::restriction::Restrictions;
use windlass_kernel::clock;
use windlass_kernel::netlink::{NetlinkError, RouteSocket};
use windlass_vrrp::Time;

use super::Settings;
use super::address::Addresses;
use super::arrivals::Arrivals;
use super::background::Background;
use super::bindings::Binding;
use super::forgotten::Forgotten;
use super::guard_keeper::GuardKeeper;
use super::moves::{self, Forwarding, Moves};
use super::netlink::{KernelChanges, NetlinkSockets};
use super::report::{HoldState, Report};
use super::request::BindingRequest;
use super::vmac::{DeviceError, Devices};
use crate::config::RouterKey;
use crate::core::predecessor::HandedOverBy;
use crate::event_queue::EventSender;
use crate::handle::SharedState;
use crate::inbox::Inbox;
use crate::status::{ForwardingStatus, GuardStatus};

/// Pause after netlink failed.
const RETRY: Duration = Duration::from_millis(100);

/// Reason why nothing is restricted without a guard.
const NO_GUARD: &str = "the guard is switched off: start the engine with `Options::guard`";

/// Reason why no connection is forwarded unless that was requested.
const NO_FORWARDING: &str = "connections are not forwarded: start the engine with `Options::connection_forwarding` and \
                             `Options::guard`, and with CAP_NET_ADMIN";

/// Maximum time for which the end waits until connections that were forwarded are forgotten.
const LAST_FORGETTING: Duration = Duration::from_millis(500);

/// Time for which forgetting waits for a takeover, and then again.
const PAUSE: Duration = Duration::from_millis(10);

/// The thread's state.
pub(super) struct Holder<'a> {
    net_admin: bool,
    /// Opened when the first router binds addresses.
    netlink: Option<NetlinkSockets>,
    addresses: Addresses,
    devices: Devices,
    guard_keeper: Option<GuardKeeper>,
    moves: Option<Moves>,
    /// VIPs that came from other nodes, whether connections are forwarded or not.
    arrivals: Arrivals,
    /// Time from which on the kernel may be made to forget connections.
    forgets_from: Time,
    /// Has it forget them.
    forgetting: Background<Forgotten, ()>,
    /// Packets to forward, as last passed to the guard.
    forwarding: Forwarding,
    report: Report<'a>,
}

/// Outcome of a round.
pub(super) struct Round {
    /// True if the bound addresses have changed.
    pub(super) changed: bool,
    /// Netlink failed: the round is to be repeated.
    pub(super) failed: bool,
    /// There is more to do than one round does.
    pub(super) more: bool,
}

impl<'a> Holder<'a> {
    pub(super) fn new(
        settings: &Settings,
        shared: &Arc<SharedState>,
        inbox: &'a Inbox,
        events: &'a EventSender,
    ) -> Self {
        let addresses = Addresses::new(settings.tag.get());
        let devices = Devices::new(settings.tag.get());
        let report = Report::new(inbox, events);
        let marks = settings.connection_forwarding.map(|forwarding| forwarding.marks).unwrap_or_default();
        let guard_keeper = settings.guard.then(|| {
            let (table, awake) = (settings.table.clone(), settings.guard_timeout);
            GuardKeeper::new(table, awake, marks, shared, &settings.comparing, clock::now())
        });
        let forwarding = settings.connection_forwarding.filter(|_| settings.guard && settings.net_admin);
        let moves = forwarding.map(|forwarding| Moves::new(forwarding, settings.tag.get()));
        Self {
            net_admin: settings.net_admin,
            netlink: None,
            addresses,
            devices,
            guard_keeper,
            moves,
            arrivals: Arrivals::default(),
            forgets_from: Time::default(),
            forgetting: Background::new(&settings.forgetting, shared, Forgotten::forget),
            forwarding: Forwarding::default(),
            report,
        }
    }

    /// Removes what an earlier engine left behind.
    pub(super) fn sweep(&mut self) {
        if !self.net_admin {
            return;
        }
        if let Some(moves) = &mut self.moves {
            moves.sweep();
        }
        let swept = RouteSocket::open()
            .and_then(|mut route| Ok((self.addresses.sweep(&mut route)?, self.devices.sweep(&mut route)?)));
        match swept {
            Ok((0, 0)) => {}
            Ok((addresses, devices)) => {
                tracing::info!(
                    addresses,
                    devices,
                    "removed VIPs that an earlier engine had left on interfaces"
                );
            }
            Err(error) => tracing::warn!(
                %error,
                "cannot look for VIPs that an earlier engine left on interfaces; they expire by themselves"
            ),
        }
    }

    /// Readable when the kernel has reported a change.
    pub(super) fn monitor_fd(&self) -> Option<BorrowedFd<'_>> {
        self.netlink.as_ref().map(AsFd::as_fd)
    }

    /// Guards the requested VIPs and installs the forwarding of connections that peers have or hand over. Returns true if another thread waits
    /// for that.
    pub(super) fn prepare(
        &mut self,
        requests: &[BindingRequest],
        restrictions: &Arc<Restrictions>,
        shared: &SharedState,
    ) -> bool {
        let now = clock::now();
        self.poll_forgetting();
        // Without a guard it is as if this node forwarded nothing.
        if self.net_admin && self.guard_keeper.is_some() {
            self.arrivals.follow(moves::served(requests), now);
            let trails = shared.passing.trails().unwrap_or_default();
            self.arrivals.follow_lots(&trails.addresses, now);
        }
        if let (Some(moves), Some(guard_keeper)) = (&mut self.moves, &mut self.guard_keeper) {
            let counted = if moves.wants_count(now) { guard_keeper.forwarded() } else { None };
            self.forwarding = moves.follow(requests, shared.passing.trails(), counted, now);
        }
        shared.passing.set_without_mark(self.without_mark(shared));
        let moved = &self.forwarding.moved;
        let forwarded = moved.iter().filter(|(_, moved)| moved.unknown == UnknownConnections::Forwarded);
        shared.set_forwarded(forwarded.map(|(vip, _)| *vip).collect());
        if let Some(guard_keeper) = &mut self.guard_keeper {
            guard_keeper.before_binding(requests, restrictions, &self.forwarding, now);
        }
        let mut waiting =
            requests.iter().filter(|request| request.handle.prepares_until(now).is_some()).peekable();
        if waiting.peek().is_some() && waiting.all(BindingRequest::is_handed_over) {
            self.forget();
        }
        let now = clock::now();
        let is_prepared = |request: &&BindingRequest| {
            let waits_for_table = request.is_handed_over() && shared.passing.are_pending(request.addresses());
            request.serves
                && !waits_for_table
                && !self.is_in_doubt(request)
                && !self.waits_for_forgetting(request, now)
        };
        let prepared = requests.iter().filter(is_prepared);
        prepared.fold(false, |waits, request| waits | request.handle.set_prepared(request.takeover, now))
    }

    /// Returns the nodes to which packets of shared addresses that this node does not know are not passed.
    fn without_mark(&self, shared: &SharedState) -> BTreeSet<IpAddr> {
        match &self.moves {
            Some(moves) => moves.without_mark().clone(),
            None => shared.passing.trails().iter().flat_map(|trails| trails.nodes()).collect(),
        }
    }

    /// Returns true if connections wait to be replaced until the peer that stopped sending is known to be dead: while it may live, they are
    /// forwarded to it, and an address that was announced then would have them reset.
    fn is_in_doubt(&self, request: &BindingRequest) -> bool {
        match request.handed_over_by {
            HandedOverBy::SilentPeer(peer) => {
                request.handle.is_blocked() && self.moves.as_ref().is_some_and(|moves| moves.doubts(peer))
            }
            HandedOverBy::Nobody | HandedOverBy::ThisNode | HandedOverBy::Peer(_) => false,
        }
    }

    /// Returns true if a peer hands it over that serves until this node announces it, and the kernel still knows closed connections to it.
    fn waits_for_forgetting(&self, request: &BindingRequest, now: Time) -> bool {
        request.is_handed_over() && self.arrivals.hold_up(request.addresses(), now)
    }

    /// Binds what the requests ask for.
    pub(super) fn round(&mut self, requests: &mut [BindingRequest]) -> Round {
        let outcome = self.settle(requests);
        if let Err(error) = &outcome {
            // What was requested may or may not have been done: the next round finds out.
            tracing::warn!(%error, "cannot put VIPs on interfaces; trying again");
            self.netlink = None;
        }
        let now = clock::now();
        let keys: BTreeSet<_> = requests.iter().map(|request| &request.handle.key).collect();
        self.report.forget(&keys);
        let mut changed = false;
        for request in requests.iter() {
            changed |= self.publish(request, now);
        }
        Round { changed, failed: outcome.is_err(), more: outcome.unwrap_or_default() }
    }

    /// Releases what is left when the last round has unbound everything.
    pub(super) fn end(self) {
        let Self { moves, mut guard_keeper, forgetting, .. } = self;
        if let Some(guard_keeper) = &mut guard_keeper {
            guard_keeper.end();
        }
        if let Some(mut moves) = moves {
            moves.end_all();
            moves.end();
            let over = moves.take_ended();
            if guard_keeper.is_some() && !over.is_empty() {
                // What is left expires.
                forgetting.finish(Forgotten::Marked(over, moves.marks()), LAST_FORGETTING);
            }
        }
    }

    /// Does the work that can wait until the other threads have been woken.
    pub(super) fn after_binding(&mut self, requests: &[BindingRequest], restrictions: &Arc<Restrictions>) {
        if let Some(guard_keeper) = &mut self.guard_keeper {
            guard_keeper.after_binding(requests, restrictions, &self.forwarding, clock::now());
        }
        let now = clock::now();
        if let Some(moves) = &mut self.moves {
            if let (Some(had_for), Some(guard_keeper)) = (moves.strays(now), &mut self.guard_keeper) {
                guard_keeper.forget_strays(&had_for);
            }
            moves.release();
        }
        // Each list of the kernel's connections walks its whole table, and takes a processor for that: no takeover waits for one.
        self.forgets_from = if requests.iter().any(|one| one.is_urgent(now)) { now + PAUSE } else { now };
        if self.forgets_from == now {
            self.forget();
        }
    }

    /// Gives the helper thread the next thing to be forgotten, if it is idle: closed connections to VIPs that came here, else connections
    /// that are forwarded no more.
    fn forget(&mut self) {
        if !self.forgetting.is_idle() {
            return;
        }
        let is_new = self.arrivals.has_new(clock::now());
        let closed = is_new.then(|| Forgotten::Closed(self.arrivals.take_new()));
        let over = || {
            let moves = self.moves.as_mut()?;
            let over = moves.take_ended();
            (!over.is_empty()).then(|| Forgotten::Marked(over, moves.marks()))
        };
        if let Some(forgotten) = closed.or_else(over) {
            self.forgetting.submit(forgotten);
        }
    }

    /// Checks whether the helper thread has finished.
    fn poll_forgetting(&mut self) {
        if self.forgetting.poll().is_some() {
            self.arrivals.forgotten();
        }
    }

    /// Returns the status of forwarding for connections of VIPs that were handed over.
    pub(super) fn forwarding_status(&self) -> ForwardingStatus {
        let off =
            || ForwardingStatus { error: Some(NO_FORWARDING.to_owned()), ..ForwardingStatus::default() };
        self.moves.as_ref().map_or_else(off, Moves::status)
    }

    /// Which restrictions are in force.
    pub(super) fn guard_status(&self) -> GuardStatus {
        let off = || GuardStatus { error: Some(NO_GUARD.to_owned()), ..GuardStatus::default() };
        self.guard_keeper.as_ref().map_or_else(off, GuardKeeper::status)
    }

    /// Returns the time until there is something to do if nothing changes; `None`: never. Renewals that are due soon after one another go
    /// together.
    pub(super) fn wait_time(&self, round: &Round) -> Option<Duration> {
        if round.failed {
            return Some(RETRY);
        }
        if round.more {
            return Some(Duration::ZERO);
        }
        let now = clock::now();
        let guard_keeper = self.guard_keeper.as_ref().map(GuardKeeper::due);
        let own = self.addresses.due(now).into_iter().chain(self.devices.due(now));
        let moves = self.moves.as_ref().and_then(|moves| moves.due(now));
        let has_more = self.arrivals.has_new(now) || self.moves.as_ref().is_some_and(Moves::has_ended);
        let forgets = (has_more && self.forgetting.is_idle()).then_some(self.forgets_from.max(now));
        let forgets = forgets.into_iter().chain(self.arrivals.due(now));
        let due = own.chain(self.report.due()).chain(guard_keeper).chain(moves).chain(forgets).min();
        let gathered = due.map(|due| due.since(now).max(self.addresses.gathering_time()));
        // A takeover waits for what is known of who fell silent.
        let answer = self.moves.as_ref().and_then(|moves| moves.answer_due(now)).map(|due| due.since(now));
        gathered.into_iter().chain(answer).min()
    }

    /// Binds and unbinds addresses and devices. Returns true if there is more to do.
    fn settle(&mut self, requests: &mut [BindingRequest]) -> Result<bool, NetlinkError> {
        let needed = requests.iter().any(BindingRequest::binds)
            || !self.addresses.is_empty()
            || !self.devices.is_empty();
        let netlink = match self.netlink.take() {
            Some(netlink) => netlink,
            None if needed => {
                let mut netlink = NetlinkSockets::open()?;
                // From here on the monitor hears of changes: nothing is missed.
                let lost = self.addresses.resync(&mut netlink.route, clock::now())?;
                self.devices.resync(&mut netlink.route)?;
                self.report_lost(&lost, requests);
                netlink
            }
            None => return Ok(false),
        };
        let netlink = self.netlink.insert(netlink);
        let kernel_changes = netlink.read_changes()?;
        let lost = Self::apply_changes(&mut self.addresses, &mut self.devices, netlink, &kernel_changes)?;
        let active = |key: &RouterKey| {
            let request = requests.iter().find(|request| request.handle.key == *key);
            request.is_some_and(|request| request.handle.is_active(clock::now()))
        };
        self.devices.prepare(requests, &active, &mut netlink.route)?;
        for request in requests.iter_mut() {
            (request.device, request.device_up) = self.devices.of(request);
        }
        let now = clock::now();
        let free = |request: &BindingRequest, binding: &Binding| {
            let parent_binding =
                request.on_parent().find(|parent_binding| parent_binding.address == binding.address);
            parent_binding.is_none_or(|parent_binding| {
                parent_binding == *binding || self.addresses.conflict(&parent_binding, now).is_none()
            })
        };
        let wanted = |request: &BindingRequest| {
            request.wanted().filter(|binding| free(request, binding)).collect::<Vec<_>>()
        };
        let wanted: BTreeMap<Binding, &BindingRequest> = requests
            .iter()
            .flat_map(|request| wanted(request).into_iter().map(move |binding| (binding, request)))
            .collect();
        let permits = |binding: &Binding| {
            wanted.get(binding).is_some_and(|request| request.handle.is_active(clock::now()))
        };
        let mut more =
            self.addresses.settle(&wanted.keys().copied().collect(), &permits, &mut netlink.route)?;
        more |= self.devices.release(&mut netlink.route)?;
        // The kernel reports what was just requested: read at once, it does not wake the thread.
        let kernel_changes = netlink.read_changes()?;
        let lost_since =
            Self::apply_changes(&mut self.addresses, &mut self.devices, netlink, &kernel_changes)?;
        self.report_lost(&lost, requests);
        self.report_lost(&lost_since, requests);
        Ok(more)
    }

    fn apply_changes(
        addresses: &mut Addresses,
        devices: &mut Devices,
        netlink: &mut NetlinkSockets,
        kernel_changes: &KernelChanges,
    ) -> Result<Vec<Binding>, NetlinkError> {
        let now = clock::now();
        if kernel_changes.lost {
            devices.resync(&mut netlink.route)?;
            return addresses.resync(&mut netlink.route, now);
        }
        kernel_changes.changes.iter().for_each(|change| devices.apply_change(change));
        Ok(kernel_changes.changes.iter().filter_map(|change| addresses.apply_change(change, now)).collect())
    }

    fn report_lost(&self, lost: &[Binding], requests: &[BindingRequest]) {
        if lost.is_empty() {
            return;
        }
        // Whatever removes one address may have removed thousands.
        let mut by_binding: BTreeMap<Binding, &BindingRequest> = BTreeMap::new();
        for request in requests {
            for binding in request.wanted() {
                by_binding.entry(binding).or_insert(request);
            }
        }
        for binding in lost {
            if let Some(request) = by_binding.get(binding) {
                self.report.lost(request, binding.address);
            }
        }
    }

    /// Publishes the bound addresses and the socket of a request. Returns true if they changed.
    fn publish(&mut self, request: &BindingRequest, now: Time) -> bool {
        if !request.binds() {
            return false;
        }
        let wanted: BTreeSet<Binding> = request.wanted().collect();
        let held = |binding: &&Binding| self.addresses.serves(binding);
        let bound: BTreeSet<_> = wanted.iter().filter(held).map(|binding| binding.address).collect();
        for (binding, parent_binding) in request.bindings().zip(request.on_parent()) {
            let conflict = self.conflict(request, &parent_binding, now);
            let reason = self.addresses.bind_error(&binding).or(conflict.as_deref());
            self.report.address(request, binding.address, reason.filter(|_| wanted.contains(&binding)));
        }
        let hold_state = self.hold_state(request, &wanted, bound.is_empty(), now);
        self.report.hold_state(&request.handle.key, hold_state, now);
        let mut changed = request.handle.set_unicast(self.devices.socket_for(request));
        if *request.handle.bound() != bound {
            changed = true;
            request.handle.set_bound(bound);
        }
        changed
    }

    /// Returns the reason why others on this node keep an address from being bound, on the router's interface or on its device.
    fn conflict(&self, request: &BindingRequest, parent_binding: &Binding, now: Time) -> Option<String> {
        let on_device = || {
            let binding = Binding { interface: request.device?, address: parent_binding.address };
            self.addresses.conflict(&binding, now)
        };
        self.addresses.conflict(parent_binding, now).or_else(on_device)
    }

    fn hold_state(
        &self,
        request: &BindingRequest,
        wanted: &BTreeSet<Binding>,
        nothing_held: bool,
        now: Time,
    ) -> HoldState {
        let conflicts: Option<Vec<String>> =
            request.on_parent().map(|parent_binding| self.conflict(request, &parent_binding, now)).collect();
        if let Some(first) = conflicts.into_iter().flatten().next() {
            return HoldState::Impossible(format!("{}: {first}", request.handle.key));
        }
        match self.devices.device_error(request) {
            Some(DeviceError::Missing(reason)) => {
                return HoldState::Impossible(format!("{}: {reason}", request.handle.key));
            }
            Some(DeviceError::Closed(reason)) => {
                return HoldState::Refused(format!("{}: {reason}", request.handle.key));
            }
            None => {}
        }
        let refusals: Option<Vec<(Binding, &str)>> = wanted
            .iter()
            .map(|binding| self.addresses.bind_error(binding).map(|reason| (*binding, reason)))
            .collect();
        match refusals.as_deref() {
            Some([(binding, reason), ..]) if nothing_held => HoldState::Refused(format!(
                "{}: {} cannot be put on the interface: {reason}",
                request.handle.key, binding.address
            )),
            Some(_) | None => HoldState::Possible,
        }
    }
}
