//! The connections that a peer told, and which of them this node wants.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::connection::{Connection, ConnectionKey};
use super::super::entry::Entry;
use super::super::number::{add, count};
use super::super::table::{Connections, Placed, Summary};
use super::{Change, ReceiverCounters};
use crate::units::Time;

/// Most VIPs that are remembered because something of them was refused. With more it is not known any more which.
const REFUSED: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct Replicas {
    table: Connections,
    /// What the snapshot under way, or the last one, names is of this generation.
    generation: u32,
    /// Second in which what comes now comes.
    second: u32,
    limit: usize,
    full: bool,
    vips: Arc<BTreeSet<IpAddr>>,
    /// Those for which this node is Active.
    kept: BTreeSet<IpAddr>,
    /// Those of which the sender has connections that were not taken.
    refused: BTreeSet<IpAddr>,
}

impl Replicas {
    pub(super) fn new(limit: usize, vips: Arc<BTreeSet<IpAddr>>) -> Self {
        let (kept, refused) = (BTreeSet::new(), BTreeSet::new());
        Self {
            table: Connections::default(),
            generation: 0,
            second: 0,
            limit,
            full: false,
            vips,
            kept,
            refused,
        }
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.table
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// What comes from now on came at this time.
    pub(super) fn set_time(&mut self, now: Time) {
        self.second = u32::try_from(now.since(Time::default()).as_secs()).unwrap_or(u32::MAX);
    }

    /// Takes out the oldest, as if there had been no room for them.
    pub(super) fn give_up(&mut self, count: usize, counters: &mut ReceiverCounters) -> Vec<Change> {
        let gone = self.table.remove_oldest(count, &self.kept);
        self.full |= !gone.is_empty();
        let mut changes = Vec::new();
        self.tell_forgotten(&gone, counters, &mut changes);
        changes
    }

    /// Whether it was full and has room for all that the sender has.
    pub(super) fn has_room_for(&self, all: Summary) -> bool {
        self.full && usize::try_from(all.count).is_ok_and(|count| count <= self.limit)
    }

    /// Whether it was full and an eighth is free.
    pub(super) fn has_room_again(&self) -> bool {
        self.full && self.table.len() < self.limit.saturating_sub(self.limit / 8)
    }

    pub(super) fn summary(&self) -> Summary {
        self.table.summary(&self.vips)
    }

    /// Whether it is known to have less than the sender told.
    pub(super) fn lacks_some(&self) -> bool {
        self.full || !self.refused.is_empty()
    }

    /// It has what the sender has.
    pub(super) fn has_all(&mut self) {
        self.full = false;
        self.refused.clear();
    }

    pub(super) fn begin_snapshot(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.has_all();
    }

    pub(super) fn end_snapshot(&mut self, counters: &mut ReceiverCounters, changes: &mut Vec<Change>) {
        let gone = self.table.remove_others(self.generation);
        self.tell_forgotten(&gone, counters, changes);
    }

    pub(super) fn update(
        &mut self,
        entries: &[Entry],
        counters: &mut ReceiverCounters,
        changes: &mut Vec<Change>,
    ) {
        for entry in entries {
            match entry {
                Entry::Put(connection) => self.put(*connection, counters, changes),
                Entry::Ended(key) => self.forget(key, counters, changes),
            }
        }
    }

    pub(super) fn put(
        &mut self,
        connection: Connection,
        counters: &mut ReceiverCounters,
        changes: &mut Vec<Change>,
    ) {
        let vip = connection.key.vip.ip();
        if !self.vips.contains(&vip) {
            count(&mut counters.refused_vip);
            self.refuse(vip);
            return;
        }
        if self.table.len() >= self.limit && self.table.get(&connection.key).is_none() {
            count(&mut counters.refused_full);
            self.full = true;
            return;
        }
        match self.table.put_as_of(connection, self.generation, self.second) {
            Ok(Placed::New | Placed::Changed) => {
                count(&mut counters.put);
                if !self.kept.contains(&vip) {
                    changes.push(Change::Put(connection));
                }
            }
            Ok(Placed::Same) => {}
            // No datagram can say so.
            Err(_) => count(&mut counters.refused_nonsense),
        }
    }

    fn forget(&mut self, key: &ConnectionKey, counters: &mut ReceiverCounters, changes: &mut Vec<Change>) {
        if let Some(gone) = self.table.remove(key) {
            self.tell_forgotten(&[gone], counters, changes);
        }
    }

    /// All of them. What this node is Active for goes on in its kernel, which knows by now what became of it better than this table: put
    /// back at the end of its turn, it would bring connections back that ended long ago.
    pub(super) fn forget_all(&mut self, counters: &mut ReceiverCounters, changes: &mut Vec<Change>) {
        let vips: Vec<IpAddr> = self.table.vips().collect();
        for vip in vips {
            let gone = self.table.remove_vip(vip);
            self.tell_forgotten(&gone, counters, changes);
        }
    }

    /// Whether connections were refused that are wanted now.
    pub(super) fn set_vips(
        &mut self,
        vips: Arc<BTreeSet<IpAddr>>,
        counters: &mut ReceiverCounters,
        changes: &mut Vec<Change>,
    ) -> bool {
        let others: Vec<IpAddr> = self.table.vips().filter(|vip| !vips.contains(vip)).collect();
        for vip in others {
            let gone = self.table.remove_vip(vip);
            self.tell_forgotten(&gone, counters, changes);
            self.refuse(vip);
        }
        let grows = vips.difference(&self.vips).next().is_some();
        self.vips = vips;
        let wanted = self.refused.iter().any(|vip| self.vips.contains(vip));
        grows && (wanted || self.refused.len() >= REFUSED)
    }

    pub(super) fn keep(&mut self, vip: IpAddr) {
        self.kept.insert(vip);
    }

    /// `is_current`: the peer is heard. Else its connections of the VIP leave the table, and the kernel keeps what it has.
    pub(super) fn release(&mut self, vip: IpAddr, is_current: bool) -> Vec<Change> {
        match (self.kept.remove(&vip), is_current) {
            (false, _) => Vec::new(),
            (true, true) => self.table.of_vip(vip).map(Change::Put).collect(),
            (true, false) => {
                self.table.remove_vip(vip);
                Vec::new()
            }
        }
    }

    fn refuse(&mut self, vip: IpAddr) {
        if self.refused.len() < REFUSED {
            self.refused.insert(vip);
        }
    }

    fn tell_forgotten(
        &self,
        gone: &[Connection],
        counters: &mut ReceiverCounters,
        changes: &mut Vec<Change>,
    ) {
        add(&mut counters.forgotten, gone.len() as u64);
        let told = gone.iter().filter(|connection| !self.kept.contains(&connection.key.vip.ip()));
        changes.extend(told.map(|connection| Change::Forget(connection.key)));
    }
}
