//! One virtual router: its state machine and what its actions do.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use windlass_vrrp::wire::{self, AddressList, Advert, Checksum, Expectation, Packet, Path};
use windlass_vrrp::{Action, Announce, Heard, Router, State, Time, Verdict, Version};

use crate::announce::{Announcer, Tenure, Via};
use crate::config::{RouterConfig, RouterKey};
use crate::event::Event;
use crate::sockets::LinkSockets;
use crate::status::{RouterCounters, RouterStatus};

/// What carrying out actions needs.
pub(super) struct Outside<'a> {
    /// `None`: the interface cannot be used, nothing is sent.
    pub(super) sockets: Option<&'a Arc<LinkSockets>>,
    pub(super) announcer: &'a Announcer,
    pub(super) events: &'a mut Vec<Event>,
    pub(super) now: Time,
}

pub(super) struct Instance {
    key: RouterKey,
    config: RouterConfig,
    router: Router,
    /// Why it cannot run.
    error: Option<String>,
    pub(super) counters: RouterCounters,
    expectation: Expectation,
    /// Ready-made datagrams: nothing is built when an advert is due.
    advert: Vec<u8>,
    resignation: Vec<u8>,
    addresses: Arc<[Ipv4Addr]>,
    tenure: Arc<Tenure>,
}

impl Instance {
    pub(super) fn new(config: RouterConfig) -> Self {
        let mut instance = Self {
            key: config.key(),
            router: Router::new(config.vrid, config.machine()),
            error: None,
            counters: RouterCounters::default(),
            expectation: expectation(&config),
            advert: Vec::new(),
            resignation: Vec::new(),
            addresses: Arc::default(),
            tenure: Arc::default(),
            config,
        };
        instance.prepare();
        instance
    }

    pub(super) fn config(&self) -> &RouterConfig {
        &self.config
    }

    /// What its peers' adverts look like.
    pub(super) fn expectation(&self) -> &Expectation {
        &self.expectation
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

    /// Starts, stops or keeps it according to whether something is in its way.
    pub(super) fn face(&mut self, readiness: Result<(), String>, out: &mut Outside<'_>) {
        match (readiness, self.error.take()) {
            (Ok(()), None) => self.router.startup(out.now),
            (Ok(()), Some(_)) => {
                out.events.push(Event::Recovered { key: self.key.clone() });
                self.router.startup(out.now);
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

    /// Takes a new configuration.
    pub(super) fn reconfigure(&mut self, config: RouterConfig, out: &mut Outside<'_>) {
        if self.config == config {
            return;
        }
        let machine = config.machine();
        let addresses_changed = self.config.addresses != config.addresses;
        self.config = config;
        self.prepare();
        self.router.reconfigure(machine, out.now);
        self.carry_out(out);
        if addresses_changed && self.is_active() {
            self.announcer_update(out, &BTreeSet::new());
        }
    }

    pub(super) fn resign(&mut self, out: &mut Outside<'_>) {
        self.router.shutdown(out.now);
        self.carry_out(out);
    }

    pub(super) fn handle_advert(&mut self, packet: &Packet<'_>, out: &mut Outside<'_>) -> Verdict {
        let heard = Heard {
            source: packet.source,
            priority: packet.priority,
            interval: packet.interval,
            version: packet.version,
        };
        let was_active = self.is_active();
        let verdict = self.router.handle_advert(heard, out.now);
        self.count(packet, verdict, was_active);
        self.carry_out(out);
        verdict
    }

    pub(super) fn handle_timeout(&mut self, out: &mut Outside<'_>) {
        self.router.handle_timeout(out.now);
        self.carry_out(out);
    }

    pub(super) fn status(&self) -> RouterStatus {
        RouterStatus {
            key: self.key.clone(),
            state: self.router.state(),
            active: self.router.active(),
            addresses: self.config.addresses.clone(),
            counters: self.counters.clone(),
            error: self.error.clone(),
        }
    }

    fn count(&mut self, packet: &Packet<'_>, verdict: Verdict, was_active: bool) {
        let counters = &mut self.counters;
        match verdict {
            Verdict::Stranger => return counters.strangers += 1,
            Verdict::OwnAddress => return counters.own_address += 1,
            Verdict::Inferior if was_active => counters.contentions += 1,
            Verdict::IntervalMismatch => counters.interval_refused += 1,
            Verdict::Inferior | Verdict::Obeyed | Verdict::Superseded | Verdict::NotRunning => {}
        }
        counters.adverts_received += 1;
        counters.resignations_received += u64::from(packet.priority.is_none());
        counters.interval_mismatches += u64::from(packet.interval != self.config.interval);
        counters.rfc5798_checksums += u64::from(packet.checksum == Checksum::Rfc5798);
    }

    fn carry_out(&mut self, out: &mut Outside<'_>) {
        while let Some(action) = self.router.poll_action() {
            match action {
                Action::SendAdvert { priority } => self.send_advert(priority.is_none(), out),
                Action::Transition { from: _, to, reason } => {
                    match to {
                        State::Active => {
                            self.counters.became_active += 1;
                            self.extend_tenure(out.now);
                        }
                        State::Backup | State::Initialize => {
                            self.tenure.end();
                            self.tenure = Arc::default();
                            out.announcer.withdraw(&self.key);
                        }
                    }
                    out.events.push(Event::StateChanged { key: self.key.clone(), state: to, reason });
                }
                Action::Announce(Announce::Takeover) => {
                    if let Some(link) = out.sockets {
                        let via = Via { link: Arc::clone(link), tenure: Arc::clone(&self.tenure) };
                        out.announcer.takeover(self.key.clone(), via, Arc::clone(&self.addresses));
                    }
                }
                Action::Announce(Announce::Contention) => out.announcer.contention(&self.key),
                Action::Announce(Announce::Added(added)) => self.announcer_update(out, &added),
            }
        }
    }

    fn announcer_update(&self, out: &Outside<'_>, added: &BTreeSet<IpAddr>) {
        let added = added.iter().copied().filter_map(v4).collect();
        out.announcer.update(&self.key, &self.addresses, &added);
    }

    fn send_advert(&mut self, resign: bool, out: &Outside<'_>) {
        let Some(sockets) = out.sockets else { return };
        let datagram = if resign { &self.resignation } else { &self.advert };
        match sockets.send_advert(datagram) {
            Ok(()) => {
                self.counters.adverts_sent += 1;
                self.counters.resignations_sent += u64::from(resign);
            }
            Err(_) => self.counters.send_errors += 1,
        }
        if self.is_active() {
            self.extend_tenure(out.now);
        }
    }

    /// As long as no peer can have taken over: the state machine's measure for having overslept.
    fn extend_tenure(&self, now: Time) {
        let until = if self.config.peers.is_empty() {
            Time::from_nanos(u64::MAX)
        } else {
            now + self.config.interval.duration() * 3
        };
        self.tenure.extend(until);
    }

    /// Builds what is sent later.
    fn prepare(&mut self) {
        let config = &self.config;
        self.expectation = expectation(config);
        let group = config.group().unwrap_or_else(|| wire::default_group(config.family()));
        let Some(path) = Path::new(config.source, group) else { return };
        let mut advert = Advert {
            path,
            ttl: wire::TTL,
            vrid: config.vrid,
            priority: Some(config.priority),
            interval: config.interval,
            addresses: AddressList::representing(&config.addresses, config.source, AddressList::MAX),
        };
        self.advert = advert.datagram(Version::V3, config.checksum);
        advert.priority = None;
        self.resignation = advert.datagram(Version::V3, config.checksum);
        self.addresses = config.addresses.iter().copied().filter_map(v4).collect();
    }
}

fn expectation(config: &RouterConfig) -> Expectation {
    Expectation { versions: config.versions, reach: config.reach(), trailer: false }
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
