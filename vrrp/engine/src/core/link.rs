//! One interface: demultiplexes adverts to its routers, answers ARP for them, keeps the census.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use windlass_vrrp::wire::{self, Datagram, Rejection};
use windlass_vrrp::{Time, Verdict, Vrid};

use crate::announce::Announcer;
use crate::arp::{Arp, FRAME, Mac, Response};
use crate::census::{Claims, Sightings};
use crate::config::RouterConfig;
use crate::event::Event;
use crate::links::LinkState;
use crate::sockets::{LinkSockets, is_empty, source_obstacle};
use crate::status::{LinkStatus, RouterStatus};

use super::instance::{Instance, Outside};

/// Longest advert: an IPv4 header with options and 255 addresses. A longer packet is cut and refused as truncated.
const ADVERT_BUFFER: usize = 2048;
/// Most packets read in one round: a flood must not keep the timers waiting.
const ADVERTS_A_ROUND: usize = 1024;
const ARP_A_ROUND: usize = 64;

pub(super) struct Link {
    name: String,
    /// `None` until the watcher has told.
    state: Option<LinkState>,
    routers: BTreeMap<Vrid, Instance>,
    /// The routers by address, whatever their state, so that a takeover has nothing to build.
    by_address: BTreeSet<(Ipv4Addr, Vrid)>,
    rejected: [u64; Rejection::LABELS.len()],
    strangers_heard: u64,
    strangers: Sightings<wire::Sighting>,
    claims: Claims<(Ipv4Addr, Mac)>,
}

impl Link {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            state: None,
            routers: BTreeMap::new(),
            by_address: BTreeSet::new(),
            rejected: [0; Rejection::LABELS.len()],
            strangers_heard: 0,
            strangers: Sightings::new(),
            claims: Claims::new(),
        }
    }

    /// Earliest deadline of its routers.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.routers.values().filter_map(Instance::deadline).chain(self.claims.deadline()).min()
    }

    pub(super) fn readable(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        usable(self.state.as_ref()).into_iter().flat_map(|sockets| sockets.readable())
    }

    pub(super) fn clear_errors(&self) {
        if let Some(sockets) = usable(self.state.as_ref()) {
            sockets.clear_errors();
        }
    }

    /// Nobody wants it and nothing runs on it.
    pub(super) fn is_forgotten(&self) -> bool {
        self.routers.is_empty() && matches!(self.state, Some(LinkState::Unwanted))
    }

    /// Runs exactly these routers.
    pub(super) fn apply(
        &mut self,
        mut desired: BTreeMap<Vrid, RouterConfig>,
        now: Time,
        announcer: &Announcer,
        events: &mut Vec<Event>,
    ) {
        let (name, state) = (&self.name, self.state.as_ref());
        let mut out = Outside { sockets: usable(state), announcer, events, now };
        self.routers.retain(|vrid, instance| {
            let Some(config) = desired.remove(vrid) else {
                instance.resign(&mut out);
                return false;
            };
            // Nothing may be sent from a source that is not there: the obstacle first.
            if let Some(Err(obstacle)) = readiness(name, state, config.source) {
                instance.face(Err(obstacle), &mut out);
            }
            instance.reconfigure(config, &mut out);
            true
        });
        self.routers.extend(desired.into_iter().map(|(vrid, config)| (vrid, Instance::new(config))));
        let addresses_of = |(vrid, instance): (&Vrid, &Instance)| {
            let vrid = *vrid;
            let v4 = instance.config().addresses.iter().filter_map(|address| match address {
                IpAddr::V4(address) => Some(*address),
                IpAddr::V6(_) => None,
            });
            v4.map(|address| (address, vrid)).collect::<Vec<_>>()
        };
        self.by_address = self.routers.iter().flat_map(addresses_of).collect();
        self.face(now, announcer, events);
    }

    pub(super) fn change_state(
        &mut self,
        state: LinkState,
        now: Time,
        announcer: &Announcer,
        events: &mut Vec<Event>,
    ) {
        let previous = self.state.replace(state);
        // New sockets: the old ones lead nowhere, and what peers know of the old link-layer address is void.
        if let (Some(old), Some(new)) = (usable(previous.as_ref()), usable(self.state.as_ref()))
            && !Arc::ptr_eq(old, new)
        {
            let replaced = format!("interface {} was replaced or got another link-layer address", self.name);
            let mut out = Outside { sockets: None, announcer, events, now };
            for instance in self.routers.values_mut() {
                instance.face(Err(replaced.clone()), &mut out);
            }
        }
        self.face(now, announcer, events);
    }

    /// Starts and stops routers according to what the interface can do.
    fn face(&mut self, now: Time, announcer: &Announcer, events: &mut Vec<Event>) {
        let (name, state) = (&self.name, self.state.as_ref());
        let mut out = Outside { sockets: usable(state), announcer, events, now };
        for instance in self.routers.values_mut() {
            if let Some(readiness) = readiness(name, state, instance.config().source) {
                instance.face(readiness, &mut out);
            }
        }
    }

    pub(super) fn handle_timeouts(&mut self, now: Time, announcer: &Announcer, events: &mut Vec<Event>) {
        let mut out = Outside { sockets: usable(self.state.as_ref()), announcer, events, now };
        for instance in self.routers.values_mut().filter(|i| i.deadline().is_some_and(|due| due <= now)) {
            instance.handle_timeout(&mut out);
        }
    }

    /// Reads what adverts there are.
    pub(super) fn receive_adverts(&mut self, now: Time, announcer: &Announcer, events: &mut Vec<Event>) {
        let Some(sockets) = usable(self.state.as_ref()).cloned() else { return };
        let mut buffer = [0; ADVERT_BUFFER];
        for _ in 0..ADVERTS_A_ROUND {
            match sockets.receive_advert(&mut buffer) {
                Ok(length) => {
                    let out = Outside { sockets: Some(&sockets), announcer, events, now };
                    self.handle_datagram(&buffer[..length], out);
                }
                Err(error) if is_empty(&error) => return,
                // Another error (as: the interface went down) is taken from the socket by reading it.
                Err(_) => {}
            }
        }
    }

    fn handle_datagram(&mut self, datagram: &[u8], mut out: Outside<'_>) {
        let datagram = match Datagram::from_ipv4(datagram) {
            Ok(datagram) => datagram,
            Err(rejection) => return self.rejected[rejection.index()] += 1,
        };
        let stranger = match wire::parse(&datagram, |vrid| self.routers.get(&vrid).map(Instance::expectation))
        {
            Ok(packet) => {
                let verdict = self.routers.get_mut(&packet.vrid).map(|i| i.handle_advert(&packet, &mut out));
                verdict == Some(Verdict::Stranger)
            }
            Err(rejection) => {
                self.rejected[rejection.index()] += 1;
                matches!(
                    rejection,
                    Rejection::UnknownVrid(_) | Rejection::Version(_) | Rejection::Length { .. }
                )
            }
        };
        let Some(sighting) = wire::sighting(&datagram).filter(|_| stranger) else { return };
        self.strangers_heard += 1;
        if self.strangers.note(sighting, out.now) {
            let wire::Sighting { source, vrid, version, carp, .. } = sighting;
            let interface = self.name.clone();
            out.events.push(Event::Stranger { interface, vrid, source, version, carp });
        }
    }

    /// Reads what ARP there is and answers for the addresses we are Active for.
    pub(super) fn receive_arp(&mut self, now: Time) {
        let Some(sockets) = usable(self.state.as_ref()) else { return };
        let mut buffer = [0; FRAME];
        for _ in 0..ARP_A_ROUND {
            match sockets.receive_arp(&mut buffer) {
                Ok(length) => {
                    let Some(arp) = Arp::parse(&buffer[..length]) else { continue };
                    let active = |address| active_for(&self.routers, &self.by_address, address);
                    match arp.judge(sockets.mac, |address| active(address).is_some()) {
                        Response::Nothing => {}
                        Response::Conflict(address) => self.claims.note((address, arp.sender_mac), now),
                        Response::Reply => {
                            let sent = sockets.send_arp(&arp.reply(sockets.mac));
                            if let Some(instance) = active(arp.target).and_then(|v| self.routers.get_mut(&v))
                            {
                                let counters = &mut instance.counters;
                                counters.replies += u64::from(sent.is_ok());
                                counters.send_errors += u64::from(sent.is_err());
                            }
                        }
                    }
                }
                Err(error) if is_empty(&error) => return,
                Err(_) => {}
            }
        }
    }

    /// Reports foreign claims to our addresses that have stood for a while.
    pub(super) fn report_claims(&mut self, now: Time, events: &mut Vec<Event>) {
        let (routers, by_address) = (&self.routers, &self.by_address);
        let contested = |claim: &(Ipv4Addr, Mac)| active_for(routers, by_address, claim.0).is_some();
        if self.claims.deadline().is_some_and(|due| due <= now) {
            for (address, mac) in self.claims.due(now, contested) {
                events.push(Event::AddressConflict {
                    interface: self.name.clone(),
                    address: address.into(),
                    mac,
                });
            }
        }
    }

    pub(super) fn router_statuses(&self) -> impl Iterator<Item = RouterStatus> + '_ {
        self.routers.values().map(Instance::status)
    }

    pub(super) fn status(&self) -> LinkStatus {
        let counted = Rejection::LABELS.into_iter().zip(self.rejected);
        LinkStatus {
            interface: self.name.clone(),
            error: match &self.state {
                None | Some(LinkState::Usable { .. } | LinkState::Unwanted) => None,
                Some(LinkState::Unusable(reason)) => Some(reason.clone()),
            },
            rejected: counted.filter(|(_, count)| *count > 0).collect(),
            strangers: self.strangers_heard,
        }
    }
}

/// The router that is Active for an address.
fn active_for(
    routers: &BTreeMap<Vrid, Instance>,
    by_address: &BTreeSet<(Ipv4Addr, Vrid)>,
    address: Ipv4Addr,
) -> Option<Vrid> {
    let from = (address, Vrid::MIN);
    let carriers = by_address.range(from..).take_while(|(carried, _)| *carried == address);
    carriers.map(|(_, vrid)| *vrid).find(|vrid| routers.get(vrid).is_some_and(Instance::is_active))
}

/// Whether a router with this source can run, or why not; `None` while that is not known.
fn readiness(name: &str, state: Option<&LinkState>, source: IpAddr) -> Option<Result<(), String>> {
    match state? {
        LinkState::Usable { addresses, .. } => Some(match source_obstacle(name, source, addresses) {
            None => Ok(()),
            Some(obstacle) => Err(obstacle),
        }),
        LinkState::Unusable(reason) => Some(Err(reason.clone())),
        // Wanted again a moment after it was let go: the watcher is about to say more.
        LinkState::Unwanted => None,
    }
}

fn usable(state: Option<&LinkState>) -> Option<&Arc<LinkSockets>> {
    match state? {
        LinkState::Usable { sockets, .. } => Some(sockets),
        LinkState::Unusable(_) | LinkState::Unwanted => None,
    }
}
