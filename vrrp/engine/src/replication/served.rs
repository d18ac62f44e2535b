//! The connections that this node serves: what its kernel tells of them, kept in the table that all senders read.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_vrrp::replication::{Connection, ConnectionKey, Connections, Placed};
use windlass_vrrp::{Family, Time};

use crate::connections::{Aging, AgingLimits, Events, Tracking, TrackingError};

/// Events of one look: the rest is for the next one.
const EVENTS: usize = 50_000;

/// What has become of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Added(Connection),
    Ended(ConnectionKey),
}

/// Follows the kernel.
pub(super) struct ServedConnections {
    /// Open while there is something to follow.
    events: Option<Events>,
    aging: Aging,
    table: Connections,
    vips: BTreeSet<IpAddr>,
    /// Whether only a list tells what is.
    unknown: bool,
}

impl ServedConnections {
    pub(super) fn new() -> Self {
        Self {
            events: None,
            aging: Aging::new(AgingLimits::default()),
            table: Connections::default(),
            vips: BTreeSet::new(),
            unknown: false,
        }
    }

    pub(super) fn table(&self) -> &Connections {
        &self.table
    }

    /// Whether there is something to look at again and again.
    pub(super) fn is_following(&self) -> bool {
        !self.vips.is_empty()
    }

    /// Changes the VIPs whose connections are followed. Those of others leave the table.
    pub(super) fn set_vips(&mut self, vips: &BTreeSet<IpAddr>) {
        if *vips == self.vips {
            return;
        }
        for gone in self.vips.difference(vips) {
            self.table.remove_vip(*gone);
        }
        self.unknown |= vips.difference(&self.vips).next().is_some();
        self.vips.clone_from(vips);
        if self.vips.is_empty() {
            self.events = None;
            self.aging.relist([]);
        }
    }

    /// What the kernel has told since the last look. After an error everything is listed anew at the next look.
    pub(super) fn look(&mut self, tracking: &mut Tracking, now: Time) -> Result<Vec<Told>, TrackingError> {
        if self.vips.is_empty() {
            return Ok(Vec::new());
        }
        let told = self.follow(tracking, now);
        if told.is_err() {
            self.events = None;
            self.unknown = true;
        }
        told
    }

    fn follow(&mut self, tracking: &mut Tracking, now: Time) -> Result<Vec<Told>, TrackingError> {
        let events = match &mut self.events {
            Some(events) => events,
            None => self.events.insert(Events::open(self.vips.clone())?),
        };
        // Before the list, so that nothing is missed in between.
        events.watch(self.vips.clone())?;
        let mut told = Vec::new();
        for _ in 0..EVENTS {
            let Some(event) = events.hear()? else { break };
            if let Some(key) = self.aging.hear(&event, now)
                && self.table.remove(&key).is_some()
            {
                told.push(Told::Ended(key));
            }
        }
        if self.aging.take_overflow() || std::mem::take(&mut self.unknown) {
            self.relist(tracking, &mut told)?;
        }
        while let Some(connection) = self.aging.due(now) {
            if is_new(self.table.put(connection).ok()) {
                told.push(Told::Added(connection));
            }
        }
        Ok(told)
    }

    /// Takes what the kernel lists for what is.
    fn relist(&mut self, tracking: &mut Tracking, told: &mut Vec<Told>) -> Result<(), TrackingError> {
        let mut found = Connections::default();
        for family in [Family::V4, Family::V6] {
            if self.vips.iter().any(|vip| Family::of(*vip) == family) {
                tracking.list(family, &self.vips, |connection, _| {
                    // What is of two families no kernel lists.
                    let _ = found.put(connection);
                })?;
            }
        }
        let gone: Vec<ConnectionKey> =
            self.table.iter().map(|known| known.key).filter(|key| found.get(key).is_none()).collect();
        for key in gone {
            self.table.remove(&key);
            told.push(Told::Ended(key));
        }
        for connection in found.iter() {
            if is_new(self.table.put(connection).ok()) {
                told.push(Told::Added(connection));
            }
        }
        let keys: Vec<ConnectionKey> = found.iter().map(|connection| connection.key).collect();
        self.aging.relist(&keys);
        Ok(())
    }
}

fn is_new(placed: Option<Placed>) -> bool {
    match placed {
        Some(Placed::New | Placed::Changed) => true,
        Some(Placed::Same) | None => false,
    }
}
