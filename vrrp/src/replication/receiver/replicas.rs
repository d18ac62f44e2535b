//! Connections that a peer sent, of the VIPs that this node wants.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::connection::{Connection, ConnectionKey};
use super::super::entry::Entry;
use super::super::number::{add, count};
use super::super::table::{Connections, Placed, Summary};
use super::{Change, ReceiverCounters};
use crate::units::Time;

/// Most VIPs recorded because connections of them were refused. From this number on, any VIP may be one of them.
const REFUSED: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct Replicas {
    table: Connections,
    /// Generation of the connections that the current or last snapshot names.
    generation: u32,
    /// Second in which the present data arrives.
    second: u32,
    limit: usize,
    full: bool,
    vips: Arc<BTreeSet<IpAddr>>,
    /// VIPs for which this node is Active.
    kept: BTreeSet<IpAddr>,
    /// VIPs of which the sender has connections that were not accepted.
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

    /// Sets the arrival time of the data that follows.
    pub(super) fn set_time(&mut self, now: Time) {
        self.second = u32::try_from(now.since(Time::default()).as_secs()).unwrap_or(u32::MAX);
    }

    /// Removes the oldest replicas, as if there had been no room for them.
    pub(super) fn give_up(&mut self, count: usize, counters: &mut ReceiverCounters) -> Vec<Change> {
        let gone = self.table.remove_oldest(count, &self.kept);
        self.full |= !gone.is_empty();
        let mut changes = Vec::new();
        self.tell_forgotten(&gone, counters, &mut changes);
        changes
    }

    /// Returns true if the table was full and has room for all connections of the sender.
    pub(super) fn has_room_for(&self, all: Summary) -> bool {
        self.full && usize::try_from(all.count).is_ok_and(|count| count <= self.limit)
    }

    /// Returns true if the table was full and more than an eighth of it is free.
    pub(super) fn has_room_again(&self) -> bool {
        self.full && self.table.len() < self.limit.saturating_sub(self.limit / 8)
    }

    pub(super) fn summary(&self) -> Summary {
        self.table.summary(&self.vips)
    }

    /// Returns true if the table is known to lack connections that the sender sent.
    pub(super) fn lacks_some(&self) -> bool {
        self.full || !self.refused.is_empty()
    }

    /// Records that the replicas are complete.
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
            // No datagram can carry this.
            Err(_) => count(&mut counters.refused_nonsense),
        }
    }

    fn forget(&mut self, key: &ConnectionKey, counters: &mut ReceiverCounters, changes: &mut Vec<Change>) {
        if let Some(gone) = self.table.remove(key) {
            self.tell_forgotten(&[gone], counters, changes);
        }
    }

    /// Removes all replicas. Connections that this node is Active for stay in its kernel, which knows better than this table what
    /// became of them: replicas inserted again when this node stops being Active would revive connections that ended long ago.
    pub(super) fn forget_all(&mut self, counters: &mut ReceiverCounters, changes: &mut Vec<Change>) {
        let vips: Vec<IpAddr> = self.table.vips().collect();
        for vip in vips {
            let gone = self.table.remove_vip(vip);
            self.tell_forgotten(&gone, counters, changes);
        }
    }

    /// Changes the VIPs. Returns true if connections were refused that are wanted now.
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

    /// `is_current`: the peer's stream is alive. Otherwise its connections of the VIP leave the table, and the kernel keeps its own.
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
