//! Replicas in the kernel of this node: there before they are needed, so that a takeover costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use windlass_kernel::connections::{Blocking, Inserted, Tracking, TrackingError, kernel_lifetime};
use windlass_vrrp::replication::{Change, Connection, ConnectionKey, Transport};

#[cfg(test)]
mod tests;

/// Lifetime in the kernel of a replica that is not renewed: as after an end of this process, when nothing would remove it.
const LIFETIME: Duration = Duration::from_mins(10);
/// Most changes kept for a kernel that does not carry them out, some 200 bytes each: replicas beyond that are inserted by a
/// renewal, and entries to be removed expire, after [`LIFETIME`].
const MOST_OWED: usize = 1 << 17;
/// Changes that are carried out, or kept, as one.
const AT_ONCE: usize = 1024;

/// The kernel's connection tracking, as far as replicas need it.
pub(super) trait KernelTable {
    /// As [`Tracking::update`].
    fn update(&mut self, connections: &[Connection]) -> Result<Vec<Inserted>, TrackingError>;
    /// As [`Tracking::restore`].
    fn restore(&mut self, connections: &[Connection]) -> Result<Vec<Inserted>, TrackingError>;
    /// As [`Tracking::replace`].
    fn replace(&mut self, connections: &[Connection]) -> Result<Vec<Inserted>, TrackingError>;
    /// As [`Tracking::delete`].
    fn delete(&mut self, keys: &[ConnectionKey]) -> Result<(), TrackingError>;
    /// As [`Tracking::refresh`].
    fn refresh(
        &mut self,
        keys: &[ConnectionKey],
        lifetime: Duration,
    ) -> Result<Vec<ConnectionKey>, TrackingError>;
    /// As [`Tracking::are_established`].
    fn are_established(&mut self, keys: &[ConnectionKey]) -> Result<Vec<bool>, TrackingError>;
}

impl KernelTable for Tracking {
    fn update(&mut self, connections: &[Connection]) -> Result<Vec<Inserted>, TrackingError> {
        self.update(connections, LIFETIME)
    }

    fn restore(&mut self, connections: &[Connection]) -> Result<Vec<Inserted>, TrackingError> {
        self.restore(connections, LIFETIME)
    }

    fn replace(&mut self, connections: &[Connection]) -> Result<Vec<Inserted>, TrackingError> {
        self.replace(connections, LIFETIME)
    }

    fn delete(&mut self, keys: &[ConnectionKey]) -> Result<(), TrackingError> {
        self.delete(keys).map(drop)
    }

    fn refresh(
        &mut self,
        keys: &[ConnectionKey],
        lifetime: Duration,
    ) -> Result<Vec<ConnectionKey>, TrackingError> {
        self.refresh(keys, lifetime)
    }

    fn are_established(&mut self, keys: &[ConnectionKey]) -> Result<Vec<bool>, TrackingError> {
        self.are_established(keys)
    }
}

/// Outcomes of replicas since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Outcomes {
    /// The kernel had no room.
    pub(super) table_full: u64,
    /// Refused for another reason, or in the way of another connection.
    pub(super) refused: u64,
}

/// Changes that the kernel has not carried out yet, the replicas that could not be inserted yet, and the outcomes of the others.
#[derive(Debug, Default)]
pub(super) struct KernelReplicas {
    /// Pending kernel changes: the replica to insert, or `None` to delete it. The latest message of any peer wins.
    owed: BTreeMap<ConnectionKey, Option<Connection>>,
    /// Replicas whose backend is on this node, to which another node forwards them: two entries cannot have the same answers.
    blocked: BTreeMap<IpAddr, BTreeMap<ConnectionKey, Connection>>,
    /// True if there are other VIPs among those than when that was last asked.
    news_of_blocked: bool,
    /// Replicas for which the kernel had no room when they were tried last, [`MOST_OWED`] at most: all are tried again, those
    /// beyond too.
    roomless: BTreeSet<ConnectionKey>,
    outcomes: Outcomes,
}

impl KernelReplicas {
    /// Returns the outcomes of replicas since the start.
    pub(super) fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// Records that this node is Active for these VIPs: their missing replicas come no more.
    pub(super) fn serve(&mut self, active: &BTreeSet<IpAddr>) {
        self.roomless.retain(|key| !active.contains(&key.vip.ip()));
    }

    /// Returns true if the kernel has no room for some of the replicas.
    pub(super) fn is_full(&self) -> bool {
        !self.roomless.is_empty()
    }

    /// Returns true if replicas of one of these VIPs wait for a takeover.
    pub(super) fn blocks(&self, vips: &[IpAddr]) -> bool {
        !self.blocked.is_empty() && vips.iter().any(|vip| self.blocked.contains_key(vip))
    }

    /// Returns true if the result of [`Self::blocks`] may have changed since the last call.
    pub(super) fn take_news_of_blocked(&mut self) -> bool {
        std::mem::take(&mut self.news_of_blocked)
    }

    /// Records the peers' changes, in this order. `told` returns another peer's replica of a connection that one has released.
    pub(super) fn note(&mut self, changes: Vec<Change>, told: impl Fn(&ConnectionKey) -> Option<Connection>) {
        for change in changes {
            match change {
                Change::Put(connection) => self.owed.insert(connection.key, Some(connection)),
                Change::Forget(key) => self.owed.insert(key, told(&key)),
            };
        }
    }

    /// Returns true if something is left to be carried out.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Limits the changes that are kept while the kernel carries none out. Returns true if all replicas are to be renewed for that.
    pub(super) fn limit(&mut self) -> bool {
        if self.owed.len() <= MOST_OWED {
            return false;
        }
        self.owed.retain(|_, connection| connection.is_none());
        while self.owed.len() > MOST_OWED {
            self.owed.pop_last();
        }
        true
    }

    /// Carries out what is owed; after an error the rest stays owed. Removes nothing of VIPs for which this node is `active`: what
    /// the kernel has of them is this node's own.
    pub(super) fn settle(
        &mut self,
        active: &BTreeSet<IpAddr>,
        kernel: &mut impl KernelTable,
    ) -> Result<(), TrackingError> {
        let mut gone = Vec::new();
        let mut put = Vec::new();
        for (key, connection) in &self.owed {
            match connection {
                Some(connection) => put.push(*connection),
                None if active.contains(&key.vip.ip()) => {}
                None => gone.push(*key),
            }
        }
        // First: what comes may have the place of what goes.
        for keys in gone.chunks(AT_ONCE) {
            let in_kernel: Vec<ConnectionKey> =
                keys.iter().filter(|key| !self.unblock(key)).copied().collect();
            kernel.delete(&in_kernel)?;
            for key in keys {
                self.owed.remove(key);
                self.roomless.remove(key);
            }
        }
        for connections in put.chunks(AT_ONCE) {
            let outcomes = kernel.update(connections)?;
            self.note_outcomes(connections, &outcomes, kernel)?;
            for connection in connections {
                self.owed.remove(&connection.key);
            }
        }
        self.owed.clear();
        Ok(())
    }

    fn note_outcomes(
        &mut self,
        connections: &[Connection],
        outcomes: &[Inserted],
        kernel: &mut impl KernelTable,
    ) -> Result<(), TrackingError> {
        let told = || connections.iter().zip(outcomes);
        told().for_each(|(connection, outcome)| self.note_outcome(connection, outcome));
        // This node served them once: from now on they are replicas as the others.
        let present = told().filter(|(_, outcome)| **outcome == Inserted::Present);
        let present: Vec<ConnectionKey> = present.map(|(connection, _)| connection.key).collect();
        kernel.refresh(&present, LIFETIME).map(drop)
    }

    fn note_outcome(&mut self, connection: &Connection, outcome: &Inserted) {
        self.unblock(&connection.key);
        self.roomless.remove(&connection.key);
        match outcome {
            Inserted::New | Inserted::Present => {}
            Inserted::Clash(Blocking::Forwarded) => {
                let vip = connection.key.vip.ip();
                self.news_of_blocked |= !self.blocked.contains_key(&vip);
                self.blocked.entry(vip).or_default().insert(connection.key, *connection);
            }
            Inserted::TableFull => {
                self.outcomes.table_full = self.outcomes.table_full.saturating_add(1);
                if self.roomless.len() < MOST_OWED {
                    self.roomless.insert(connection.key);
                }
            }
            Inserted::Clash(Blocking::Earlier | Blocking::SameAnswers | Blocking::Other)
            | Inserted::Invalid(_)
            | Inserted::Refused { .. } => {
                self.outcomes.refused = self.outcomes.refused.saturating_add(1);
            }
        }
    }

    fn is_blocked(&self, key: &ConnectionKey) -> bool {
        self.blocked.get(&key.vip.ip()).is_some_and(|of_vip| of_vip.contains_key(key))
    }

    /// Ends its wait for a takeover. Returns true if it waited.
    fn unblock(&mut self, key: &ConnectionKey) -> bool {
        let vip = key.vip.ip();
        let Some(of_vip) = self.blocked.get_mut(&vip) else { return false };
        let was_blocked = of_vip.remove(key).is_some();
        if of_vip.is_empty() {
            self.blocked.remove(&vip);
            self.news_of_blocked = true;
        }
        was_blocked
    }

    /// Replaces what was forwarded to backends here, for VIPs for which this node is Active: the previous Active forwards nothing
    /// any more, and the packets come by the VIP from now on. (While that node lives, its packets would get another port where the
    /// replica has theirs, and be reset.)
    pub(super) fn take_over(
        &mut self,
        vips: &BTreeSet<IpAddr>,
        kernel: &mut impl KernelTable,
    ) -> Result<(), TrackingError> {
        let blocked = vips.iter().filter_map(|vip| self.blocked.get(vip));
        let unblocked: Vec<Connection> = blocked.flat_map(|of_vip| of_vip.values().copied()).collect();
        if unblocked.is_empty() {
            return Ok(());
        }
        let outcomes = kernel.replace(&unblocked)?;
        unblocked
            .iter()
            .zip(&outcomes)
            .for_each(|(connection, outcome)| self.note_outcome(connection, outcome));
        Ok(())
    }

    /// Renews these replicas. Those that another program removed from the kernel are inserted again, but for one whose place was
    /// given to a peer's later connection.
    pub(super) fn renew(
        &mut self,
        connections: &[Connection],
        kernel: &mut impl KernelTable,
    ) -> Result<(), TrackingError> {
        let absent = self.refresh(connections, |_| LIFETIME, kernel)?;
        let outcomes = kernel.restore(&absent)?;
        self.note_outcomes(&absent, &outcomes, kernel)
    }

    /// Gives these connections, which this node serves now, the lifetime of its own. Only those that neither side has closed: the
    /// kernel keeps an established connection for days, and one of which a side is closed for minutes.
    pub(super) fn extend(
        &self,
        connections: &[Connection],
        kernel: &mut impl KernelTable,
    ) -> Result<(), TrackingError> {
        let keys: Vec<ConnectionKey> = connections.iter().map(|connection| connection.key).collect();
        let are_established = kernel.are_established(&keys)?;
        let established =
            connections.iter().zip(are_established).filter(|(_, is_established)| *is_established);
        let established: Vec<Connection> = established.map(|(connection, _)| *connection).collect();
        self.refresh(&established, kernel_lifetime, kernel).map(drop)
    }

    /// Sets the lifetime of these replicas in the kernel. Returns those that are not there.
    fn refresh(
        &self,
        connections: &[Connection],
        lifetime: impl Fn(Transport) -> Duration,
        kernel: &mut impl KernelTable,
    ) -> Result<Vec<Connection>, TrackingError> {
        let mut all_absent = Vec::new();
        for transport in [Transport::Tcp, Transport::Udp] {
            let of_transport: Vec<&Connection> = connections
                .iter()
                .filter(|connection| connection.key.transport == transport)
                .filter(|connection| !self.is_blocked(&connection.key))
                .collect();
            let keys: Vec<ConnectionKey> = of_transport.iter().map(|connection| connection.key).collect();
            let absent: BTreeSet<ConnectionKey> =
                kernel.refresh(&keys, lifetime(transport))?.into_iter().collect();
            all_absent.extend(of_transport.into_iter().filter(|connection| absent.contains(&connection.key)));
        }
        Ok(all_absent)
    }
}
