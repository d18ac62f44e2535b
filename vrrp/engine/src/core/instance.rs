//! One virtual router: its state machine and what its actions do.

#![cfg_attr(not(test), expect(clippy::arithmetic_side_effects, reason = "counts of 64 bits, one at a time"))]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_kernel::clock;
use windlass_kernel::sockets::LinkSockets;
use windlass_vrrp::wire::ExpectedAdvert;
use windlass_vrrp::{Action, Announce, Priority, Router, State, Time, TransitionReason};

use crate::config::{Hold, RouterConfig, RouterKey};
use crate::event::Event;
use crate::handle::{Plan, RouterHandle};
use crate::status::{RouterCounters, RouterStatus};

use super::deadlines::TimerId;
use super::fault_reports::FaultReports;
use super::heard_adverts::HeardAdverts;
use super::heard_peers::HeardPeers;
use super::holding_plan::{plan, unproven};
use super::peer_authentication::PeerAuthentication;
use super::predecessor::{HandedOverBy, PredecessorTracker};
use super::prepared::{self, PreparedAdverts};
use super::recognised::RecognisedPeers;
use crate::host_claim::{ClaimedByAnother, HostClaim};
use crate::vrid_claim;

mod hearing;

pub(super) use hearing::Refusal;

/// Time in which a peer binds the VIPs after a resignation: bound addresses stay until a peer has announced them, for at most an interval
/// (the longest skew time) and this.
const HAND_OVER: Duration = Duration::from_millis(100);

/// Longest time that a VIP which a peer hands over is not announced because the connections that the peer still has find no way
/// to it yet: a millisecond or so, unless the machine is busy. The peer's kernel serves it meanwhile.
const PREPARATION: Duration = Duration::from_secs(1);
/// Likewise if the peer stopped sending, as its kernel may be dead.
const PREPARATION_AFTER_SILENCE: Duration = Duration::from_millis(100);

/// Resources that carrying out actions needs.
pub(super) struct InstanceContext<'a> {
    /// `None`: the interface cannot be used, nothing is sent.
    pub(super) sockets: Option<&'a LinkSockets>,
    pub(super) events: &'a mut Vec<Event>,
    /// The handle has changed: the helper threads are to be woken at the end of the round.
    pub(super) wake_helpers: &'a mut bool,
    pub(super) now: Time,
}

pub(super) struct Instance {
    key: RouterKey,
    config: RouterConfig,
    router: Router,
    /// Reason why it cannot run.
    error: Option<String>,
    /// Reason why its VIPs cannot be held, from the hold thread.
    hold_error: Option<String>,
    counters: RouterCounters,
    fault_reports: FaultReports,
    /// VIPs that the interface has, as reported.
    on_interface: Vec<IpAddr>,
    expected_advert: ExpectedAdvert,
    prepared: PreparedAdverts,
    peer_authentication: PeerAuthentication,
    /// Sockets and MTU that [`Self::prepared`] was built for.
    prepared_for: Option<(Arc<LinkSockets>, usize)>,
    handle: Arc<RouterHandle>,
    predecessor: PredecessorTracker,
    /// Peer that gets a unicast copy of the next advert, in turn.
    in_turn: Option<IpAddr>,
    /// Between whom multicast does not pass, as reported.
    without_multicast: BTreeSet<IpAddr>,
    heard: HeardAdverts,
    /// The peers that were named; those of the configuration are these and the recognised ones.
    named: BTreeSet<IpAddr>,
    recognised: RecognisedPeers,
    /// VIPs of the router that the Active did not list, while this node was not Active itself.
    unlisted: BTreeSet<IpAddr>,
    /// Its addresses are in service on this node: it need not wait when it starts, which is now or never.
    in_service: bool,
    /// Addresses that it got while this node served them in other routers.
    added_in_service: BTreeSet<IpAddr>,
    /// Its VRID, which is no other process', or is; not known before it is to run.
    claim: Option<Result<HostClaim, ClaimedByAnother>>,
    /// Its timer.
    timer_id: TimerId,
}

impl Instance {
    /// Creates a router that is to be started. `in_service`: this node has served all its addresses in other routers until now.
    pub(super) fn new(config: RouterConfig, timer_id: TimerId, in_service: bool) -> Self {
        let key = config.key();
        Self {
            router: Router::new(config.vrid, config.state_machine_config()),
            error: None,
            hold_error: None,
            counters: RouterCounters::default(),
            fault_reports: FaultReports::new(),
            on_interface: Vec::new(),
            expected_advert: expected_advert(&config),
            prepared: PreparedAdverts::default(),
            peer_authentication: PeerAuthentication::new(config.authentication.clone()),
            prepared_for: None,
            handle: Arc::new(RouterHandle::new(
                key.clone(),
                plan(&config, &BTreeSet::new(), &BTreeSet::new(), None),
            )),
            predecessor: PredecessorTracker::default(),
            in_turn: None,
            without_multicast: BTreeSet::new(),
            heard: HeardAdverts::default(),
            named: config.peers.clone(),
            recognised: RecognisedPeers::default(),
            unlisted: BTreeSet::new(),
            in_service,
            added_in_service: BTreeSet::new(),
            claim: None,
            timer_id,
            key,
            config,
        }
    }

    pub(super) fn config(&self) -> &RouterConfig {
        &self.config
    }

    pub(super) fn timer_id(&self) -> TimerId {
        self.timer_id
    }

    pub(super) fn handle(&self) -> &Arc<RouterHandle> {
        &self.handle
    }

    /// Returns the form that its peers' adverts have.
    pub(super) fn expected_advert(&self) -> &ExpectedAdvert {
        &self.expected_advert
    }

    pub(super) fn is_active(&self) -> bool {
        match self.router.state() {
            State::Active => true,
            State::Initialize | State::Backup => false,
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.router.poll_timeout()
    }

    /// Claims its VRID on this host, so that no other process uses it, unless it has done so.
    pub(super) fn claim_vrid(&mut self, events: &mut Vec<Event>) {
        if !matches!(self.claim, Some(Ok(_))) {
            let RouterKey { interface, family, vrid } = &self.key;
            let claim = vrid_claim::claim(interface, *family, self.config.group(), *vrid);
            if let Some(intruder) = claim.as_ref().ok().and_then(HostClaim::intruder) {
                events.push(Event::ClaimIgnored { key: self.key.clone(), intruder });
            }
            self.claim = Some(claim);
        }
    }

    /// Returns true if another process of this host uses its VRID.
    pub(super) fn lacks_vrid(&self) -> bool {
        matches!(self.claim, Some(Err(ClaimedByAnother)))
    }

    /// Returns the reason why it cannot run, whatever its interface can do.
    pub(super) fn config_error(&self, net_admin: bool) -> Option<String> {
        if let Err(error) = self.config.check() {
            return Some(error.to_string());
        }
        if self.lacks_vrid() {
            return Some(format!(
                "{}: another process of this host uses this VRID here, so that peers would take either for the other: give one of \
                 them another VRID, or end the other process; tried again each second",
                self.key
            ));
        }
        let binds = match self.config.hold {
            Hold::Respond => false,
            Hold::Address | Hold::Vmac => true,
        };
        if binds && !net_admin {
            return Some(format!(
                "{}: the process lacks CAP_NET_ADMIN, which putting VIPs on an interface needs: run it as root, add the \
                 capability (Kubernetes: securityContext.capabilities.add: [NET_ADMIN]) or use the hold `respond`",
                self.key
            ));
        }
        self.hold_error.clone()
    }

    /// The hold thread cannot hold its VIPs, or can again.
    pub(super) fn set_hold_error(&mut self, hold_error: Option<String>) {
        self.hold_error = hold_error;
    }

    /// Makes it use these sockets.
    pub(super) fn use_sockets(&mut self, sockets: Option<&Arc<LinkSockets>>) {
        let same = match (&self.prepared_for, sockets) {
            (None, None) => true,
            (Some((old, mtu)), Some(new)) => Arc::ptr_eq(old, new) && *mtu == new.mtu(),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !same {
            self.prepared_for = sockets.map(|sockets| (Arc::clone(sockets), sockets.mtu()));
            self.prepare();
        }
    }

    /// Starts, stops or keeps it according to whether something is in its way.
    pub(super) fn set_readiness(&mut self, readiness: Result<(), String>, out: &mut InstanceContext<'_>) {
        match (readiness, self.error.take()) {
            (Ok(()), None) => self.start(out),
            (Ok(()), Some(_)) => {
                out.events.push(Event::Recovered { key: self.key.clone() });
                self.start(out);
            }
            (Err(error), previous) => {
                self.in_service = false;
                self.router.interrupt();
                self.carry_out(out);
                if previous.as_ref() != Some(&error) {
                    out.events.push(Event::Failed { key: self.key.clone(), error: error.clone() });
                }
                self.error = Some(error);
            }
        }
        self.carry_out(out);
    }

    /// Reports VIPs among the interface's own addresses: its node answers for them in every state.
    pub(super) fn report_own_addresses(&mut self, interface: &[IpAddr], events: &mut Vec<Event>) {
        let answers = match self.config.hold {
            Hold::Respond => self.config.priority != Priority::OWNER,
            // Refused by the hold thread.
            Hold::Address | Hold::Vmac => false,
        };
        let is_vip = |address: &&IpAddr| answers && self.config.addresses.contains(*address);
        let found: Vec<IpAddr> = interface.iter().filter(is_vip).copied().collect();
        let new = found.iter().filter(|address| !self.on_interface.contains(address));
        events.extend(
            new.map(|address| Event::AddressOnInterface { key: self.key.clone(), address: *address }),
        );
        self.on_interface = found;
    }

    /// Resigns if it is Active: what is in its way is not the interface, so its peers need not wait until they miss it.
    pub(super) fn step_down(&mut self, out: &mut InstanceContext<'_>) {
        self.router.shutdown(out.now);
        self.carry_out(out);
    }

    fn start(&mut self, out: &mut InstanceContext<'_>) {
        match self.router.state() {
            State::Initialize => {
                if std::mem::take(&mut self.in_service) {
                    self.predecessor = PredecessorTracker::in_service(out.now);
                    self.router.startup_in_service(out.now);
                } else {
                    self.predecessor = PredecessorTracker::started(out.now);
                    self.router.startup(out.now);
                }
            }
            State::Backup | State::Active => {}
        }
    }

    /// Applies a new configuration. `served`: the VIPs that this node serves in other routers until now.
    pub(super) fn reconfigure(
        &mut self,
        mut config: RouterConfig,
        served: &BTreeSet<IpAddr>,
        net_admin: bool,
        out: &mut InstanceContext<'_>,
    ) {
        self.named.clone_from(&config.peers);
        config.peers = self.recognised.with(&self.named, &config);
        let proven = std::mem::replace(&mut self.config.unproven, config.unproven.clone()) != config.unproven;
        if self.config == config {
            if proven {
                self.tell_unproven(out);
            }
            return;
        }
        let state_machine_config = config.state_machine_config();
        self.added_in_service.retain(|address| config.addresses.contains(address));
        if config.hold == Hold::Respond {
            let added = config.addresses.difference(&self.config.addresses);
            self.added_in_service.extend(added.filter(|address| served.contains(*address)));
        }
        let was_group = self.config.group();
        self.config = config;
        if self.claim.is_some() && was_group != self.config.group() {
            self.claim = None;
            self.claim_vrid(out.events);
        }
        // What cannot run as it is now configured stops before it says anything.
        if let Some(config_error) = self.config_error(net_admin) {
            self.step_down(out);
            self.set_readiness(Err(config_error), out);
        }
        self.prepare();
        self.router.reconfigure(state_machine_config, out.now);
        self.carry_out(out);
        *out.wake_helpers = true;
    }

    /// Returns true if it serves some of these VIPs.
    pub(super) fn serves_any(&self, addresses: &BTreeSet<IpAddr>) -> bool {
        self.config.hold == Hold::Respond && !self.claimed().is_disjoint(addresses)
    }

    /// Returns true if another node has its VIPs, as of the adverts received: a node that took all away sends the priority of an owner. A
    /// node that resigned counts until another one is Active.
    fn follows(&self) -> bool {
        match self.router.state() {
            State::Backup => self.heard.tells_of_vips(),
            State::Initialize | State::Active => false,
        }
    }

    /// Returns true if another node has this VIP, as of the adverts received. `goes_on`: the router stays configured, so only the list
    /// counts.
    pub(super) fn is_elsewhere(&self, address: IpAddr, goes_on: bool) -> bool {
        let may_list =
            || !goes_on && self.heard.is_list_short(self.config.addresses.len(), self.advert_capacity());
        self.follows() && (self.heard.lists(address) || may_list())
    }

    /// Returns the number of VIPs that its adverts and its peers' can list.
    fn advert_capacity(&self) -> Option<usize> {
        let mtu = self.prepared_for.as_ref().map_or(0, |(_, mtu)| *mtu);
        let versions = self.config.versions.sent().iter();
        versions.map(|version| prepared::capacity(&self.config, *version, mtu)).min()
    }

    /// Records which of its VIPs no other node has, as of the adverts received. Returns true if they changed. A VIP that this node has
    /// itself stays its own.
    fn note_unlisted(&mut self) -> bool {
        let unlisted = match self.router.state() {
            State::Initialize | State::Backup => {
                self.heard.not_listed(&self.config.addresses, self.advert_capacity())
            }
            State::Active => return false,
        };
        std::mem::replace(&mut self.unlisted, unlisted) != self.unlisted
    }

    /// Publishes which VIPs are to be probed at a takeover.
    fn tell_unproven(&self, out: &mut InstanceContext<'_>) {
        let unproven = unproven(&self.config, &self.unlisted);
        self.handle.set_plan(Plan { unproven, ..(*self.handle.plan()).clone() });
        *out.wake_helpers = true;
    }

    /// Grows whenever peers list other VIPs than before.
    pub(super) fn lists(&self) -> u64 {
        self.heard.list_number()
    }

    /// Returns true if it has VIPs to answer for and answers for none yet.
    pub(super) fn is_taking_over(&self) -> bool {
        self.is_active() && !self.config.addresses.is_empty() && self.claimed().is_empty()
    }

    /// Returns true if no other node has its VIPs and, if this node has them, it answers for them.
    pub(super) fn has_settled(&self) -> bool {
        !self.follows() && !self.is_taking_over()
    }

    /// Takes its VIPs away. It stays Active without any, above all peers: a peer that would preempt it believes that it has them.
    pub(super) fn empty(&mut self, net_admin: bool, out: &mut InstanceContext<'_>) {
        let none = BTreeSet::new();
        let config = RouterConfig {
            priority: Priority::OWNER,
            addresses: none.clone(),
            unproven: none.clone(),
            ..self.config.clone()
        };
        self.reconfigure(config, &none, net_admin, out);
    }

    pub(super) fn resign(&mut self, out: &mut InstanceContext<'_>) {
        let may_be_followed = self.router.config().may_have_peers();
        let hands_over = match self.config.hold {
            Hold::Respond => self.config.forward_connections,
            Hold::Address | Hold::Vmac => !self.handle.bound().is_empty(),
        };
        if self.is_active() && may_be_followed && hands_over {
            self.handle.linger(out.now + self.config.interval.duration() + HAND_OVER);
        }
        self.router.shutdown(out.now);
        self.carry_out(out);
        self.handle.end_active();
    }

    /// Acts on its timer. Peers among the `heard_peers` get no unicast copy in turn.
    pub(super) fn handle_timeout(&mut self, heard_peers: &HeardPeers, out: &mut InstanceContext<'_>) {
        self.router.handle_timeout(out.now);
        let is_heard =
            |peer| self.config.group().is_some_and(|group| heard_peers.hears(peer, group, out.now));
        self.in_turn = self.router.poll_turn().filter(|peer| !is_heard(*peer));
        self.carry_out(out);
    }

    /// Reports the peers that multicast does not reach, if they changed.
    fn report_without_multicast(&mut self, out: &mut InstanceContext<'_>) {
        let now = self.router.without_multicast(out.now);
        if now.eq(self.without_multicast.iter().copied()) {
            return;
        }
        let peers: BTreeSet<IpAddr> = self.router.without_multicast(out.now).collect();
        if peers != self.without_multicast {
            self.without_multicast.clone_from(&peers);
            out.events.push(Event::WithoutMulticast { key: self.key.clone(), peers });
        }
    }

    pub(super) fn status(&self) -> RouterStatus {
        let mut counters = self.counters.clone();
        counters.replies = self.handle.replies.load(Ordering::Relaxed);
        counters.announcements = self.handle.announcements.load(Ordering::Relaxed);
        counters.foreign_adverts += self.handle.foreign_adverts.load(Ordering::Relaxed);
        counters.send_errors += self.handle.send_errors.load(Ordering::Relaxed);
        RouterStatus {
            key: self.key.clone(),
            state: self.router.state(),
            active: self.router.active(),
            addresses: self.config.addresses.clone(),
            claimed: self.claimed(),
            without_multicast: self.without_multicast.clone(),
            lacks_vrid: self.lacks_vrid(),
            counters,
            error: self.error.clone(),
        }
    }

    /// The VIPs that it answers for now.
    pub(super) fn claimed(&self) -> BTreeSet<IpAddr> {
        if !self.is_active() {
            return BTreeSet::new();
        }
        let (cleared, bound) = (self.handle.cleared(), self.handle.bound());
        let is_claimed = |address: &&IpAddr| {
            let bound = match self.config.hold {
                Hold::Respond => true,
                Hold::Address | Hold::Vmac => bound.contains(*address),
            };
            bound && cleared.contains(*address)
        };
        self.config.addresses.iter().filter(is_claimed).copied().collect()
    }

    fn carry_out(&mut self, out: &mut InstanceContext<'_>) {
        while let Some(action) = self.router.poll_action() {
            match action {
                Action::SendAdvert { priority } => self.send_advert(priority.is_none(), out),
                Action::SendUnicast { priority } => self.send_unicast(priority.is_none(), out),
                Action::Transition { from: _, to, reason } => {
                    match to {
                        State::Active => {
                            self.counters.became_active += 1;
                            let predecessor = self.predecessor.at_takeover(self.config.probe, out.now);
                            let preempted =
                                self.heard.from().filter(|_| reason == TransitionReason::Preempted);
                            self.predecessor.took_over(preempted, self.config.interval, out.now);
                            let handed_over_by = self.handed_over_by(reason);
                            let prepares_until = match handed_over_by {
                                HandedOverBy::Peer(_) => Some(out.now + PREPARATION),
                                HandedOverBy::SilentPeer(_) => Some(out.now + PREPARATION_AFTER_SILENCE),
                                HandedOverBy::Nobody | HandedOverBy::ThisNode => None,
                            };
                            let until = self.active_until(out.now);
                            self.handle.take_over(predecessor, handed_over_by, prepares_until, until);
                        }
                        State::Initialize | State::Backup => {
                            self.added_in_service.clear();
                            self.handle.end_active();
                        }
                    }
                    *out.wake_helpers = true;
                    out.events.push(Event::StateChanged { key: self.key.clone(), state: to, reason });
                }
                Action::Announce(Announce::Contention) => {
                    self.handle.note_contention();
                    *out.wake_helpers = true;
                }
                // The handle tells of it: its takeover, its plan.
                Action::Announce(Announce::Takeover | Announce::Added(_)) => *out.wake_helpers = true,
            }
        }
        let misses = self.router.misses_active() && self.config.transport.is_on_link();
        *out.wake_helpers |= self.handle.set_misses_active(misses);
        self.report_without_multicast(out);
    }

    fn send_advert(&mut self, resign: bool, out: &mut InstanceContext<'_>) {
        let Some(sockets) = out.sockets else { return };
        let copies = self.router.copies().iter().copied().chain(self.in_turn.take());
        let sent =
            self.prepared.send(resign, copies, self.key.family, sockets, &mut self.peer_authentication);
        self.counters.adverts_sent += sent.packets;
        self.counters.resignations_sent += if resign { sent.packets } else { 0 };
        self.counters.send_errors += sent.errors;
        out.events.extend(self.fault_reports.sent(&self.key, sent.refusal.as_ref(), out.now));
        if self.handle.is_promoted() && self.is_active() {
            // This thread was held up between reading the clock and here: the others may have fallen silent.
            *out.wake_helpers |= self.handle.extend(self.active_until(out.now), clock::now);
        }
    }

    fn send_unicast(&mut self, ask: bool, out: &mut InstanceContext<'_>) {
        let Some(sockets) = out.sockets else { return };
        for peer in self.router.copies() {
            let authentication = &mut self.peer_authentication;
            let sent = self.prepared.send_to(*peer, ask, self.key.family, sockets, authentication);
            self.counters.adverts_sent += sent.packets;
            self.counters.send_errors += sent.errors;
        }
    }

    /// Returns the node that may have the connections of until now, if this router became Active for this `reason`. A node beyond a router
    /// cannot be sent a packet for a VIP.
    fn handed_over_by(&self, reason: TransitionReason) -> HandedOverBy {
        let was_fit = self.heard.priority().is_none_or(|priority| priority >= self.config.fit_from);
        let forwards = self.config.transport.is_on_link() && (was_fit || self.config.forward_to_unfit);
        let peer = self.heard.from().filter(|_| forwards);
        match (reason, peer) {
            (TransitionReason::ActiveResigned | TransitionReason::Preempted, Some(peer)) => {
                HandedOverBy::Peer(peer)
            }
            (TransitionReason::ActiveSilent, Some(peer)) => HandedOverBy::SilentPeer(peer),
            (TransitionReason::InService, _) => HandedOverBy::ThisNode,
            _ => HandedOverBy::Nobody,
        }
    }

    /// As long as no peer can have taken over: the state machine's measure for having stalled.
    fn active_until(&self, now: Time) -> Time {
        self.router.config().active_period().map_or(Time::from_nanos(u64::MAX), |sure| now + sure)
    }

    /// Builds the adverts that are sent later, and publishes the plan of what is to be held.
    fn prepare(&mut self) {
        self.expected_advert = expected_advert(&self.config);
        self.note_unlisted();
        let sockets = self.prepared_for.as_ref().map(|(sockets, _)| sockets);
        self.peer_authentication.reconfigure(self.config.authentication.clone());
        self.prepared = match sockets {
            Some(sockets) if self.config.check().is_ok() => PreparedAdverts::new(&self.config, sockets),
            Some(_) | None => PreparedAdverts::default(),
        };
        self.handle.set_plan(plan(&self.config, &self.unlisted, &self.added_in_service, sockets));
    }
}

fn expected_advert(config: &RouterConfig) -> ExpectedAdvert {
    ExpectedAdvert {
        versions: config.versions,
        addressing: config.addressing(),
        trailer: config.authentication.is_some(),
    }
}
