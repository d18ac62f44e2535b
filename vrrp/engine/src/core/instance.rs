//! One virtual router: its state machine and what its actions do.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_vrrp::auth::AuthError;
use windlass_vrrp::wire::{Checksum, ExpectedAdvert, Packet};
use windlass_vrrp::{Action, AdvertOutcome, Announce, Priority, ReceivedAdvert, Router, State, Time};

use crate::clock;
use crate::config::{Hold, RouterConfig, RouterKey, Transport};
use crate::duty::{Duty, Plan};
use crate::event::Event;
use crate::sockets::LinkSockets;
use crate::status::{RouterCounters, RouterStatus};

use super::deadlines::Slot;
use super::grievances::Grievances;
use super::predecessor::Predecessor;
use super::prepared::Prepared;
use super::trust::Trust;

/// What is bound stays so after a resignation until a peer has announced it: at most for the longest skew time, an interval,
/// and this, in which the peer binds it.
const HAND_OVER: Duration = Duration::from_millis(100);

/// What carrying out actions needs.
pub(super) struct Outside<'a> {
    /// `None`: the interface cannot be used, nothing is sent.
    pub(super) sockets: Option<&'a LinkSockets>,
    pub(super) events: &'a mut Vec<Event>,
    /// A duty has changed: the threads that follow are to be told at the end of the round.
    pub(super) ring: &'a mut bool,
    pub(super) now: Time,
}

pub(super) struct Instance {
    key: RouterKey,
    config: RouterConfig,
    router: Router,
    /// Why it cannot run.
    error: Option<String>,
    /// Why its VIPs cannot be held, as the hold thread says.
    obstacle: Option<String>,
    counters: RouterCounters,
    grievances: Grievances,
    /// VIPs that the interface has, as told.
    on_interface: Vec<IpAddr>,
    expected_advert: ExpectedAdvert,
    prepared: Prepared,
    trust: Trust,
    /// What [`Self::prepared`] was built for.
    equipment: Option<(Arc<LinkSockets>, usize)>,
    duty: Arc<Duty>,
    predecessor: Predecessor,
    /// Its timer.
    slot: Slot,
}

impl Instance {
    pub(super) fn new(config: RouterConfig, slot: Slot) -> Self {
        let key = config.key();
        Self {
            router: Router::new(config.vrid, config.machine()),
            error: None,
            obstacle: None,
            counters: RouterCounters::default(),
            grievances: Grievances::new(),
            on_interface: Vec::new(),
            expected_advert: expected_advert(&config),
            prepared: Prepared::default(),
            trust: Trust::new(config.authentication.clone()),
            equipment: None,
            duty: Arc::new(Duty::new(key.clone(), plan(&config, None))),
            predecessor: Predecessor::default(),
            slot,
            key,
            config,
        }
    }

    pub(super) fn config(&self) -> &RouterConfig {
        &self.config
    }

    pub(super) fn slot(&self) -> Slot {
        self.slot
    }

    pub(super) fn duty(&self) -> &Arc<Duty> {
        &self.duty
    }

    /// What its peers' adverts look like.
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

    /// Why it cannot run, whatever its interface can do.
    pub(super) fn unfit(&self, net_admin: bool) -> Option<String> {
        if let Err(error) = self.config.check() {
            return Some(error.to_string());
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
        self.obstacle.clone()
    }

    /// The hold thread cannot hold its VIPs, or can again.
    pub(super) fn obstruct(&mut self, obstacle: Option<String>) {
        self.obstacle = obstacle;
    }

    /// Makes it use these sockets.
    pub(super) fn equip(&mut self, sockets: Option<&Arc<LinkSockets>>) {
        let same = match (&self.equipment, sockets) {
            (None, None) => true,
            (Some((old, mtu)), Some(new)) => Arc::ptr_eq(old, new) && *mtu == new.mtu(),
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !same {
            self.equipment = sockets.map(|sockets| (Arc::clone(sockets), sockets.mtu()));
            self.prepare();
        }
    }

    /// Starts, stops or keeps it according to whether something is in its way.
    pub(super) fn face(&mut self, readiness: Result<(), String>, out: &mut Outside<'_>) {
        match (readiness, self.error.take()) {
            (Ok(()), None) => self.start(out),
            (Ok(()), Some(_)) => {
                out.events.push(Event::Recovered { key: self.key.clone() });
                self.start(out);
            }
            (Err(obstacle), previous) => {
                self.router.interrupt();
                self.carry_out(out);
                if previous.as_ref() != Some(&obstacle) {
                    out.events.push(Event::Failed { key: self.key.clone(), error: obstacle.clone() });
                }
                self.error = Some(obstacle);
            }
        }
        self.carry_out(out);
    }

    /// Tells of VIPs among the interface's own addresses: its node answers for them in every state.
    pub(super) fn compare(&mut self, interface: &[IpAddr], events: &mut Vec<Event>) {
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
    pub(super) fn step_down(&mut self, out: &mut Outside<'_>) {
        self.router.shutdown(out.now);
        self.carry_out(out);
    }

    fn start(&mut self, out: &mut Outside<'_>) {
        match self.router.state() {
            State::Initialize => {
                self.predecessor = Predecessor::awaited(out.now);
                self.router.startup(out.now);
            }
            State::Backup | State::Active => {}
        }
    }

    /// Takes a new configuration.
    pub(super) fn reconfigure(&mut self, config: RouterConfig, net_admin: bool, out: &mut Outside<'_>) {
        let proven = std::mem::replace(&mut self.config.unproven, config.unproven.clone()) != config.unproven;
        if self.config == config {
            if proven {
                self.duty
                    .set_plan(Plan { unproven: Arc::new(config.unproven), ..(*self.duty.plan()).clone() });
                *out.ring = true;
            }
            return;
        }
        let machine = config.machine();
        self.config = config;
        // What cannot run as it is now configured stops before it says anything.
        if let Some(unfit) = self.unfit(net_admin) {
            self.step_down(out);
            self.face(Err(unfit), out);
        }
        self.prepare();
        self.router.reconfigure(machine, out.now);
        self.carry_out(out);
        *out.ring = true;
    }

    pub(super) fn resign(&mut self, out: &mut Outside<'_>) {
        if self.is_active() && !self.config.peers.is_empty() && !self.duty.in_place().is_empty() {
            self.duty.linger(out.now + self.config.interval.duration() + HAND_OVER);
        }
        self.router.shutdown(out.now);
        self.carry_out(out);
        self.duty.end();
    }

    /// Does what an advert with its VRID asks for, unless it is not believed.
    pub(super) fn handle_advert(
        &mut self,
        packet: &Packet<'_>,
        out: &mut Outside<'_>,
    ) -> Result<AdvertOutcome, AuthError> {
        // Of others than the peers nothing is obeyed: no signature is worth the time.
        if self.config.peers.contains(&packet.source) {
            let believed = self.trust.admit(packet, &self.key, out.now, out.events);
            self.counters.unauthenticated += u64::from(believed.is_err());
            self.counters.unsigned += u64::from(!believed?);
        }
        let heard = ReceivedAdvert {
            source: packet.source,
            priority: packet.priority,
            interval: packet.interval,
            version: packet.version,
        };
        let was_active = self.is_active();
        let outcome = self.router.handle_advert(heard, out.now);
        if outcome == AdvertOutcome::OwnAddress {
            out.events.extend(self.grievances.own_source(&self.key, out.now));
        }
        self.count(packet, outcome, was_active, out.now);
        self.carry_out(out);
        Ok(outcome)
    }

    pub(super) fn handle_timeout(&mut self, out: &mut Outside<'_>) {
        self.router.handle_timeout(out.now);
        self.carry_out(out);
    }

    pub(super) fn status(&self) -> RouterStatus {
        let mut counters = self.counters.clone();
        counters.replies = self.duty.replies.load(Ordering::Relaxed);
        counters.announcements = self.duty.announcements.load(Ordering::Relaxed);
        counters.send_errors += self.duty.send_errors.load(Ordering::Relaxed);
        RouterStatus {
            key: self.key.clone(),
            state: self.router.state(),
            active: self.router.active(),
            addresses: self.config.addresses.clone(),
            claimed: self.claimed(),
            counters,
            error: self.error.clone(),
        }
    }

    fn claimed(&self) -> BTreeSet<IpAddr> {
        if !self.is_active() {
            return BTreeSet::new();
        }
        let (cleared, in_place) = (self.duty.cleared(), self.duty.in_place());
        let is_claimed = |address: &&IpAddr| {
            let bound = match self.config.hold {
                Hold::Respond => true,
                Hold::Address | Hold::Vmac => in_place.contains(*address),
            };
            bound && cleared.contains(*address)
        };
        self.config.addresses.iter().filter(is_claimed).copied().collect()
    }

    fn count(&mut self, packet: &Packet<'_>, outcome: AdvertOutcome, was_active: bool, now: Time) {
        let counters = &mut self.counters;
        match outcome {
            AdvertOutcome::NotAPeer => return counters.strangers += 1,
            AdvertOutcome::OwnAddress => return counters.own_address += 1,
            AdvertOutcome::Inferior if was_active => counters.contentions += 1,
            AdvertOutcome::IntervalMismatch => counters.interval_refused += 1,
            AdvertOutcome::Inferior
            | AdvertOutcome::Obeyed
            | AdvertOutcome::Superseded
            | AdvertOutcome::NotRunning => {}
        }
        self.predecessor.heard(packet.interval, now);
        counters.adverts_received += 1;
        counters.resignations_received += u64::from(packet.priority.is_none());
        counters.interval_mismatches += u64::from(packet.interval != self.config.interval);
        counters.rfc5798_checksums += u64::from(packet.checksum == Checksum::Rfc5798);
        counters.missing_link_local += u64::from(packet.lacks_link_local());
    }

    fn carry_out(&mut self, out: &mut Outside<'_>) {
        while let Some(action) = self.router.poll_action() {
            match action {
                Action::SendAdvert { priority } => self.send_advert(priority.is_none(), out),
                Action::Transition { from: _, to, reason } => {
                    match to {
                        State::Active => {
                            self.counters.became_active += 1;
                            let before = self.predecessor.before(self.config.probe, out.now);
                            self.duty.take_over(before, self.tenure(out.now));
                        }
                        State::Initialize | State::Backup => self.duty.end(),
                    }
                    *out.ring = true;
                    out.events.push(Event::StateChanged { key: self.key.clone(), state: to, reason });
                }
                Action::Announce(Announce::Contention) => {
                    self.duty.contest();
                    *out.ring = true;
                }
                // Told by the duty: its takeover, its plan.
                Action::Announce(Announce::Takeover | Announce::Added(_)) => *out.ring = true,
            }
        }
    }

    fn send_advert(&mut self, resign: bool, out: &mut Outside<'_>) {
        let Some(sockets) = out.sockets else { return };
        let sent = self.prepared.send(resign, self.key.family, sockets, &mut self.trust);
        self.counters.adverts_sent += sent.packets;
        self.counters.resignations_sent += if resign { sent.packets } else { 0 };
        self.counters.send_errors += sent.errors;
        out.events.extend(self.grievances.sent(&self.key, sent.refusal.as_ref(), out.now));
        if self.duty.is_on() && self.is_active() {
            // This thread was held up between reading the clock and here: the others may have fallen silent.
            *out.ring |= self.duty.extend(self.tenure(out.now), clock::now);
        }
    }

    /// As long as no peer can have taken over: the state machine's measure for having stalled.
    fn tenure(&self, now: Time) -> Time {
        self.router.config().active_period().map_or(Time::from_nanos(u64::MAX), |sure| now + sure)
    }

    /// Builds what is sent later, and tells what is to be held.
    fn prepare(&mut self) {
        let sockets = self.equipment.as_ref().map(|(sockets, _)| sockets);
        self.expected_advert = expected_advert(&self.config);
        self.trust.reconfigure(self.config.authentication.clone());
        self.prepared = match sockets {
            Some(sockets) if self.config.check().is_ok() => Prepared::new(&self.config, sockets),
            Some(_) | None => Prepared::default(),
        };
        self.duty.set_plan(plan(&self.config, sockets));
    }
}

fn plan(config: &RouterConfig, link: Option<&Arc<LinkSockets>>) -> Plan {
    let unicast_source = match config.transport {
        Transport::Multicast { .. } => None,
        Transport::Unicast { .. } => Some(config.source),
    };
    Plan {
        unicast_source,
        addresses: config.addresses.iter().copied().collect(),
        hold: config.hold,
        accept: config.accept,
        probe: config.probe,
        unproven: Arc::new(config.unproven.clone()),
        link: link.map(Arc::clone),
    }
}

fn expected_advert(config: &RouterConfig) -> ExpectedAdvert {
    ExpectedAdvert {
        versions: config.versions,
        addressing: config.addressing(),
        trailer: config.authentication.is_some(),
    }
}
