//! The sessions, their sockets, and what becomes of packets.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use windlass_bgp::Time;
use windlass_bgp::bfd::{Event as Change, Packet, Rejection, State};
use windlass_bgp::units::Random;
use windlass_kernel::bfd::{BfdReceiver, CAPACITY};
use windlass_kernel::clock;
use windlass_vrrp::Family;

use super::Detections;
use super::session::Running;
use super::status::BfdStatus;
use crate::event::Event;
use crate::event_queue::EventSender;
use crate::speaker::status::SessionId;

/// Time between two looks at the sockets: those that could not be opened, and the kernel's counts.
const LOOK: Duration = Duration::from_secs(1);
/// Room for the longest packet with authentication, and a byte.
const BUFFER: usize = 53;

/// The thread's state.
pub(super) struct Driver {
    detections: Arc<Detections>,
    sessions: BTreeMap<SessionId, Running>,
    receivers: BTreeMap<(Family, u16), BfdReceiver>,
    next_look: Time,
    /// Peers found dead that were not passed on yet.
    pub(super) dead: BTreeSet<SessionId>,
    rejected: [u64; Rejection::LABELS.len()],
    /// Packets that sockets dropped which are closed now.
    dropped_before: u64,
    /// Counts at the last look.
    dropped: BTreeMap<&'static str, u64>,
    error: Option<String>,
    random: Random,
    events: EventSender,
}

impl Driver {
    pub(super) fn new(events: EventSender) -> Self {
        Self {
            detections: Arc::default(),
            sessions: BTreeMap::new(),
            receivers: BTreeMap::new(),
            next_look: Time::default(),
            dead: BTreeSet::new(),
            rejected: [0; Rejection::LABELS.len()],
            dropped_before: 0,
            dropped: BTreeMap::new(),
            error: None,
            random: Random::new(clock::wall_nanos()),
            events,
        }
    }

    /// Receives what had arrived at `now`, judges silence, and sends what is due. Returns true if more may have arrived.
    pub(super) fn round(&mut self, detections: &Arc<Detections>, now: Time) -> bool {
        let is_new = !Arc::ptr_eq(&self.detections, detections);
        if is_new {
            self.detections = Arc::clone(detections);
            self.follow(now);
        }
        let is_look = is_new || self.next_look <= now;
        if is_look {
            self.open(is_new);
        }
        let is_full = self.receive(now);
        for (id, running) in &mut self.sessions {
            if let Some(change) = running.look(now) {
                report(&self.events, &mut self.dead, id, change);
            }
            running.send(now);
        }
        if is_look {
            self.next_look = now + LOOK;
            self.count();
        }
        is_full
    }

    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.receivers.values().map(|receiver| receiver.as_fd())
    }

    /// Time of the next round, whatever arrives.
    pub(super) fn due(&self) -> Option<Time> {
        let look = (!self.sessions.is_empty()).then_some(self.next_look);
        self.sessions.values().filter_map(Running::due).chain(look).min()
    }

    /// Returns the status if it differs from this one. Nothing is allocated while it does not.
    pub(super) fn new_status(&self, published: &BfdStatus) -> Option<BfdStatus> {
        let BfdStatus { sessions, dropped, error } = published;
        let is_same = self.sessions.len() == sessions.len()
            && self.sessions.iter().all(|(id, running)| sessions.get(id) == Some(&running.status()))
            && (dropped, error) == (&self.dropped, &self.error);
        (!is_same).then(|| BfdStatus {
            sessions: self.sessions.iter().map(|(id, running)| (id.clone(), running.status())).collect(),
            dropped: self.dropped.clone(),
            error: self.error.clone(),
        })
    }

    /// Starts and ends sessions as desired.
    fn follow(&mut self, now: Time) {
        let desired = Arc::clone(&self.detections);
        self.sessions
            .retain(|id, running| desired.get(id).is_some_and(|detection| running.becomes(*detection, now)));
        for (id, detection) in &*desired {
            if !self.sessions.contains_key(id) {
                let running = Running::new(id, *detection, &mut self.random, now);
                self.sessions.insert(id.clone(), running);
            }
        }
        self.receivers.retain(|(family, port), receiver| {
            let is_needed = self.sessions.values().any(|running| running.place() == (*family, *port));
            if !is_needed {
                self.dropped_before = self.dropped_before.saturating_add(receiver.dropped().into());
            }
            is_needed
        });
    }

    /// Opens the sockets that are missing, and has each take the packets of its sessions.
    fn open(&mut self, is_new: bool) {
        let mut error = None;
        for (id, running) in &mut self.sessions {
            if let Err(reason) = running.open() {
                error = Some(format!("cannot send BFD packets to {id}: {reason}"));
            }
        }
        let places: BTreeSet<(Family, u16)> = self.sessions.values().map(Running::place).collect();
        for place in places {
            if !is_new && self.receivers.contains_key(&place) {
                continue;
            }
            if let Err(reason) = self.admit(place) {
                let (family, port) = place;
                error = Some(format!(
                    "cannot receive BFD packets on UDP port {port} ({family}): {reason}. If another BFD daemon runs on this node, stop it"
                ));
            }
        }
        if let Some(error) = error.as_ref().filter(|error| self.error.as_ref() != Some(error)) {
            tracing::warn!("{error}");
        }
        self.error = error;
    }

    fn admit(&mut self, place: (Family, u16)) -> io::Result<()> {
        let receiver = match self.receivers.entry(place) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(BfdReceiver::open(place.0, place.1)?),
        };
        let running = self.sessions.values().filter(|running| running.place() == place);
        receiver.admit(&running.map(Running::admitted).collect::<Vec<_>>())
    }

    /// Reads the sockets, each for [`CAPACITY`] packets. Returns true if one may have more.
    fn receive(&mut self, now: Time) -> bool {
        let mut is_full = false;
        let mut buffer = [0; BUFFER];
        for ((_, port), receiver) in &self.receivers {
            let mut room = CAPACITY;
            while let Some(less) = room.checked_sub(1)
                && let Ok((length, from)) = receiver.receive(&mut buffer)
            {
                room = less;
                let packet = Packet::decode(buffer.get(..length).unwrap_or_default());
                let outcome = packet.and_then(|packet| {
                    let is_peer = |running: &&mut Running| running.is_peer(&packet, from, *port);
                    let running = self.sessions.values_mut().find(is_peer);
                    let running = running.ok_or(Rejection::UnknownSession)?;
                    if let Some(change) = running.receive(&packet, now)? {
                        report(&self.events, &mut self.dead, running.id(), change);
                    }
                    Ok(())
                });
                if let Err(reason) = outcome
                    && let Some(rejected) = self.rejected.get_mut(reason.index())
                {
                    *rejected = rejected.saturating_add(1);
                }
            }
            is_full |= room == 0;
        }
        is_full
    }

    /// Reads the counts of dropped packets.
    fn count(&mut self) {
        let open = self.receivers.values().map(|receiver| u64::from(receiver.dropped()));
        let filtered = open.fold(self.dropped_before, u64::saturating_add);
        let counts = Rejection::LABELS.into_iter().zip(self.rejected).chain([("filtered", filtered)]);
        self.dropped = counts.filter(|(_, count)| *count > 0).collect();
    }
}

/// Reports a change to Up or from it. Where either side is AdminDown the peer is not dead (RFC 5882 §3.2).
fn report(events: &EventSender, dead: &mut BTreeSet<SessionId>, session: &SessionId, change: Change) {
    let Change { to, diagnostic, remote, .. } = change;
    if to == State::Up {
        tracing::info!(%session, "BFD is Up");
    } else {
        tracing::warn!(%session, %diagnostic, %remote, "BFD is {to}");
        if to == State::Down && remote != State::AdminDown {
            dead.insert(session.clone());
        }
    }
    events.send(Event::BfdChanged { session: session.clone(), change });
}
