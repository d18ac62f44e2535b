//! One interface: demultiplexes adverts to its routers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use windlass_vrrp::wire::{self, Datagram, Rejection};
use windlass_vrrp::{Family, Time, Verdict, Vrid};

use crate::census::Sightings;
use crate::config::RouterConfig;
use crate::duty::Duty;
use crate::event::Event;
use crate::links::LinkState;
use crate::sockets::{LinkSockets, Room, Tally, VridSet, is_empty, source_obstacle};
use crate::status::{LinkStatus, RouterStatus};

use super::instance::{Instance, Outside};

/// Most packets read in one round: a flood must not keep the timers waiting.
const ADVERTS_A_ROUND: usize = 1024;

/// A router on its interface.
pub(super) type Id = (Family, Vrid);

/// What the thread has beside its links.
pub(super) struct Context<'a> {
    pub(super) now: Time,
    /// Whether addresses may be put on interfaces.
    pub(super) net_admin: bool,
    pub(super) events: &'a mut Vec<Event>,
    pub(super) ring: &'a mut bool,
}

impl Context<'_> {
    fn outside<'b>(&'b mut self, sockets: Option<&'b LinkSockets>) -> Outside<'b> {
        Outside { sockets, events: self.events, ring: self.ring, now: self.now }
    }
}

pub(super) struct Link {
    name: String,
    /// `None` until the watcher has told.
    state: Option<LinkState>,
    routers: BTreeMap<Id, Instance>,
    strangers: Sightings<wire::Sighting>,
    /// Of the sockets there are, or were last.
    tally: Arc<Tally>,
}

impl Link {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            state: None,
            routers: BTreeMap::new(),
            strangers: Sightings::new(),
            tally: Arc::default(),
        }
    }

    /// Earliest deadline of its routers.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.routers.values().filter_map(Instance::deadline).min()
    }

    pub(super) fn sockets(&self) -> Option<&Arc<LinkSockets>> {
        usable(self.state.as_ref())
    }

    /// Nobody wants it and nothing runs on it.
    pub(super) fn is_forgotten(&self) -> bool {
        self.routers.is_empty() && matches!(self.state, Some(LinkState::Unwanted))
    }

    /// Runs exactly these routers.
    pub(super) fn apply(&mut self, mut desired: BTreeMap<Id, RouterConfig>, context: &mut Context<'_>) {
        let (name, state) = (&self.name, self.state.as_ref());
        let net_admin = context.net_admin;
        let mut out = context.outside(usable(state).map(Arc::as_ref));
        self.routers.retain(|id, instance| {
            let Some(config) = desired.remove(id) else {
                instance.resign(&mut out);
                return false;
            };
            // Nothing may be sent from a source that is not there: the obstacle first.
            if let Some(Err(obstacle)) = readiness(name, state, &config) {
                instance.face(Err(obstacle), &mut out);
            }
            instance.reconfigure(config, &mut out);
            if let Some(unfit) = instance.unfit(net_admin) {
                instance.face(Err(unfit), &mut out);
            }
            true
        });
        self.routers.extend(desired.into_iter().map(|(id, config)| (id, Instance::new(config))));
        *context.ring = true;
        self.divide();
        self.face(context);
    }

    pub(super) fn change_state(&mut self, state: LinkState, context: &mut Context<'_>) {
        let previous = self.state.replace(state);
        // New sockets: the old ones lead nowhere, and what peers know of the old link-layer address is void.
        if let (Some(old), Some(new)) = (usable(previous.as_ref()), usable(self.state.as_ref()))
            && !Arc::ptr_eq(old, new)
        {
            let replaced = format!("interface {} was replaced or got another link-layer address", self.name);
            let mut out = context.outside(None);
            for instance in self.routers.values_mut() {
                instance.face(Err(replaced.clone()), &mut out);
            }
        }
        if let Some(sockets) = usable(self.state.as_ref())
            && !Arc::ptr_eq(&sockets.tally, &self.tally)
        {
            sockets.tally.inherit(&self.tally);
            self.tally = Arc::clone(&sockets.tally);
        }
        self.divide();
        self.face(context);
    }

    /// The hold thread has met an obstacle, or overcome it.
    pub(super) fn obstruct(&mut self, id: Id, obstacle: Option<String>, context: &mut Context<'_>) {
        if let Some(instance) = self.routers.get_mut(&id) {
            instance.obstruct(obstacle);
            self.face(context);
        }
    }

    /// Has the kernel sort adverts by the routers there are.
    fn divide(&self) {
        let Some(sockets) = usable(self.state.as_ref()) else { return };
        for family in [Family::V4, Family::V6] {
            let own: VridSet =
                self.routers.keys().filter(|(of, _)| *of == family).map(|(_, vrid)| *vrid).collect();
            if let Ok(raw) = sockets.family(family)
                && let Err(error) = raw.divide(family, &own)
            {
                tracing::error!(interface = self.name, %family, %error, "cannot filter adverts");
            }
        }
    }

    /// Starts and stops routers according to what the interface can do.
    fn face(&mut self, context: &mut Context<'_>) {
        let (name, state) = (&self.name, self.state.as_ref());
        let net_admin = context.net_admin;
        let mut out = context.outside(usable(state).map(Arc::as_ref));
        for instance in self.routers.values_mut() {
            let readiness = match instance.unfit(net_admin) {
                Some(unfit) => Some(Err(unfit)),
                None => readiness(name, state, instance.config()),
            };
            instance.equip(usable(state));
            if let Some(readiness) = readiness {
                instance.face(readiness, &mut out);
            }
        }
    }

    pub(super) fn handle_timeouts(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let mut out = context.outside(usable(self.state.as_ref()).map(Arc::as_ref));
        for instance in self.routers.values_mut().filter(|i| i.deadline().is_some_and(|due| due <= now)) {
            instance.handle_timeout(&mut out);
        }
    }

    /// Reads what adverts there are.
    pub(super) fn receive_adverts(&mut self, room: &mut Room, context: &mut Context<'_>) {
        let Some(sockets) = self.sockets().cloned() else { return };
        for raw in sockets.families() {
            for _ in 0..ADVERTS_A_ROUND {
                match raw.adverts.receive(room) {
                    Ok(Ok(datagram)) => self.handle_datagram(&sockets, &datagram, context),
                    Ok(Err(rejection)) => sockets.tally.reject(rejection),
                    Err(error) if is_empty(&error) => break,
                    // Another error (as: the interface went down) is taken from the socket by reading it.
                    Err(_) => {}
                }
            }
        }
    }

    fn handle_datagram(&mut self, sockets: &LinkSockets, datagram: &Datagram<'_>, context: &mut Context<'_>) {
        let family = Family::of(datagram.source);
        let routers = &self.routers;
        let stranger =
            match wire::parse(datagram, |vrid| routers.get(&(family, vrid)).map(Instance::expectation)) {
                Ok(packet) => {
                    let mut out = context.outside(Some(sockets));
                    let instance = self.routers.get_mut(&(family, packet.vrid));
                    instance.map(|i| i.handle_advert(&packet, &mut out)) == Some(Verdict::Stranger)
                }
                Err(rejection) => {
                    sockets.tally.reject(rejection);
                    matches!(
                        rejection,
                        Rejection::UnknownVrid(_) | Rejection::Version(_) | Rejection::Length { .. }
                    )
                }
            };
        let Some(sighting) = wire::sighting(datagram).filter(|_| stranger) else { return };
        sockets.tally.stranger();
        if self.strangers.note(sighting, context.now) {
            context.events.push(Event::stranger(&self.name, sighting));
        }
    }

    pub(super) fn duties(&self) -> impl Iterator<Item = Arc<Duty>> + '_ {
        self.routers.values().map(|instance| Arc::clone(instance.duty()))
    }

    pub(super) fn router_statuses(&self) -> impl Iterator<Item = RouterStatus> + '_ {
        self.routers.values().map(Instance::status)
    }

    pub(super) fn status(&self) -> LinkStatus {
        let counted = Rejection::LABELS.into_iter().zip(self.tally.rejected());
        LinkStatus {
            interface: self.name.clone(),
            error: match &self.state {
                None | Some(LinkState::Usable { .. } | LinkState::Unwanted) => None,
                Some(LinkState::Unusable(reason)) => Some(reason.clone()),
            },
            rejected: counted.filter(|(_, count)| *count > 0).collect(),
            strangers: self.tally.strangers(),
        }
    }
}

/// Whether this router can run, or why not; `None` while that is not known.
fn readiness(name: &str, state: Option<&LinkState>, config: &RouterConfig) -> Option<Result<(), String>> {
    match state? {
        LinkState::Usable { addresses, sockets } => {
            if let Some(obstacle) = source_obstacle(name, config.source, addresses) {
                return Some(Err(obstacle));
            }
            if let Err(reason) = sockets.family(config.family()) {
                return Some(Err(reason.to_owned()));
            }
            config.group().map_or(Some(Ok(())), |group: IpAddr| sockets.hears(group))
        }
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
