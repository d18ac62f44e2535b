//! The connections that this node serves, as its kernel reports them: kept in the table that all senders read.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use windlass_kernel::clock;
use windlass_kernel::connections::{Aging, AgingLimits, Event, Events, Tracking, TrackingError};
use windlass_vrrp::replication::{Connection, ConnectionKey, Connections, Placed};
use windlass_vrrp::{Family, Time};

use super::backends::Backends;

#[cfg(test)]
mod tests;

/// Events of one look: the rest is for the next one.
const EVENTS: usize = 50_000;

/// Change of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Added(Connection),
    Ended(ConnectionKey),
}

/// Time from one list to the next where nothing calls for one: a TCP connection may expire without an event.
const LIST_INTERVAL: Duration = Duration::from_mins(1);

/// Time between two looks whether the kernel still reports events.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time from one list to the next where more connections begin, or are reported, than are followed.
const OVERLOAD_INTERVAL: Duration = Duration::from_secs(5);

/// After a list that took `t`, the next one waits at least `LIST_FACTOR * t`: a list takes the longer the more there is.
const LIST_FACTOR: u32 = 50;

/// Most connections that are replicated, twice as many as a peer takes ([`super::budget::MOST`]): with more, no peer has all, and
/// each reports that.
const MOST: usize = 1 << 20;

/// Follows the kernel's connections.
pub(super) struct ServedConnections {
    /// Open also while nothing is served: the kernel reports nothing of entries made while no socket listened, replicas among them.
    events: Option<Events>,
    /// Time of the next look whether the kernel reports events.
    check_due: Time,
    /// True if events are of other VIPs than those that are followed.
    events_are_of_others: bool,
    aging: Aging,
    table: Connections,
    vips: BTreeSet<IpAddr>,
    backends: Backends,
    /// Time of the next list, if only to be sure.
    list_due: Time,
    /// Time of the last list, and how long it took.
    listed: Option<(Time, Duration)>,
}

impl ServedConnections {
    pub(super) fn new() -> Self {
        Self {
            events: None,
            check_due: Time::default(),
            events_are_of_others: false,
            aging: Aging::new(AgingLimits::default()),
            table: Connections::default(),
            vips: BTreeSet::new(),
            backends: Backends::default(),
            list_due: Time::default(),
            listed: None,
        }
    }

    pub(super) fn table(&self) -> &Connections {
        &self.table
    }

    /// Sets the interfaces by which peers are reached.
    pub(super) fn set_segments(&mut self, segments: BTreeSet<u32>) {
        self.backends.set_segments(segments);
    }

    /// Returns true if there is something to look at again and again.
    pub(super) fn is_following(&self) -> bool {
        !self.vips.is_empty()
    }

    /// Changes the VIPs whose connections are followed. Connections of others leave the table.
    pub(super) fn set_vips(&mut self, vips: &BTreeSet<IpAddr>) {
        if *vips == self.vips {
            return;
        }
        for gone in self.vips.difference(vips) {
            self.table.remove_vip(*gone);
        }
        if vips.difference(&self.vips).next().is_some() {
            self.list_due = Time::default();
        }
        self.vips.clone_from(vips);
        self.events_are_of_others = true;
    }

    /// Has all connections listed at the next look: while another node had a VIP that is followed all the time, no ends were
    /// received.
    pub(super) fn list_anew(&mut self) {
        self.list_due = Time::default();
    }

    /// Adds to `told` all changes of the table since the last look, also before an error. After one everything is listed anew at
    /// the next look.
    pub(super) fn look(
        &mut self,
        tracking: &mut Tracking,
        told: &mut Vec<Told>,
        now: Time,
    ) -> Result<(), TrackingError> {
        let outcome = self.follow(tracking, told, now);
        if outcome.is_err() {
            self.events = None;
            self.list_due = Time::default();
        }
        outcome
    }

    fn follow(
        &mut self,
        tracking: &mut Tracking,
        told: &mut Vec<Told>,
        now: Time,
    ) -> Result<(), TrackingError> {
        if self.check_due <= now {
            Events::check()?;
            self.check_due = now + CHECK_INTERVAL;
        }
        // Opened before the list, so that nothing is missed in between; its events are read after it.
        let events = match &mut self.events {
            Some(events) => events,
            None => self.events.insert(Events::open(self.vips.clone())?),
        };
        if std::mem::take(&mut self.events_are_of_others) {
            events.watch(self.vips.clone())?;
        }
        if self.aging.take_overflow() {
            let next = self.listed.map_or(now, |(listed, took)| listed + pause(OVERLOAD_INTERVAL, took));
            self.list_due = self.list_due.min(next);
        }
        if self.list_due <= now {
            let begun = clock::now();
            let found = Self::list(&self.vips, &self.table, tracking)?;
            let took = clock::now().since(begun);
            (self.listed, self.list_due) = (Some((now, took)), now + pause(LIST_INTERVAL, took));
            let keys: Vec<ConnectionKey> = found.iter().map(|connection| connection.key).collect();
            self.aging.relist(&keys);
            let gone = self.table.iter().map(|known| known.key).filter(|key| found.get(key).is_none());
            for key in gone.collect::<Vec<_>>() {
                self.table.remove(&key);
                told.push(Told::Ended(key));
            }
            add(&mut self.table, &mut self.backends, found.iter().collect(), told);
        }
        let mut ended = Vec::new();
        for _ in 0..EVENTS {
            let Some(event) = events.hear()? else { break };
            if let Some(former) = former(&event, &self.table) {
                ended.extend(self.aging.hear(&Event::Ended(former), now));
            }
            ended.extend(self.aging.hear(&event, now));
        }
        let closing: Vec<ConnectionKey> = std::iter::from_fn(|| self.aging.to_look_at(now)).collect();
        let are_open = tracking.are_open(&closing)?;
        for (key, is_open) in closing.iter().zip(are_open) {
            ended.extend(self.aging.looked_at(key, is_open, now));
        }
        for key in ended {
            if self.table.remove(&key).is_some() {
                told.push(Told::Ended(key));
            }
        }
        let lasting: Vec<Connection> = std::iter::from_fn(|| self.aging.due(now)).collect();
        add(&mut self.table, &mut self.backends, lasting, told);
        Ok(())
    }

    /// Lists the kernel's connections: all that are known already, and as many others as there is room for.
    fn list(
        vips: &BTreeSet<IpAddr>,
        known: &Connections,
        tracking: &mut Tracking,
    ) -> Result<Connections, TrackingError> {
        let mut found = Connections::default();
        for family in [Family::V4, Family::V6] {
            if vips.iter().any(|vip| Family::of(*vip) == family) {
                tracking.list(family, vips, |connection, _| {
                    if found.len() < MOST || known.get(&connection.key).is_some() {
                        // What is of two families no kernel lists.
                        let _ = found.put(connection);
                    }
                })?;
            }
        }
        Ok(found)
    }
}

/// Adds the connections to the table that another node can continue. The others are forwarded here while this node lives, and a
/// replica would be in the way of that: their backends are on this node, and die with it, or answer to this node's own address.
fn add(table: &mut Connections, backends: &mut Backends, connections: Vec<Connection>, told: &mut Vec<Told>) {
    let here = backends.here(connections.iter().map(|connection| connection.backend.ip()));
    for connection in connections {
        let answers_to_vip = connection.source.ip() == connection.key.vip.ip();
        let is_elsewhere = !here.contains(&connection.backend.ip());
        let has_room = table.len() < MOST || table.get(&connection.key).is_some();
        if answers_to_vip && is_elsewhere && has_room && is_new(table.put(connection).ok()) {
            told.push(Told::Added(connection));
        }
    }
}

/// Returns the connection that was between the same ends as one that begins, with another backend or source: it is over, though its
/// end may have been missed.
fn former(event: &Event, known: &Connections) -> Option<ConnectionKey> {
    match event {
        Event::Established(connection) => {
            known.get(&connection.key).filter(|former| former != connection).map(|former| former.key)
        }
        Event::Closing(_) | Event::Ended(_) | Event::Lost => None,
    }
}

/// Returns the time to the next list after one that took so long.
fn pause(shortest: Duration, took: Duration) -> Duration {
    shortest.max(took.saturating_mul(LIST_FACTOR))
}

fn is_new(placed: Option<Placed>) -> bool {
    match placed {
        Some(Placed::New | Placed::Changed) => true,
        Some(Placed::Same) | None => false,
    }
}
