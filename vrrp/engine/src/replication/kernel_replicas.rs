//! Replicas in the kernel of this node: there before they are needed, so that a takeover costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::replication::{Change, Connection, ConnectionKey, Transport};

use crate::connections::{Blocking, Inserted, Tracking, TrackingError, kernel_lifetime};

/// How long the kernel remembers a replica that nobody renews: as after an end of this process, when nobody would forget it.
const LIFETIME: Duration = Duration::from_mins(10);
/// Renewals of one call.
const AT_ONCE: usize = 1024;

/// What became of replicas since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Outcomes {
    /// The kernel had no room.
    pub(super) table_full: u64,
    /// Refused for another reason, or in the way of another connection.
    pub(super) refused: u64,
}

/// The replicas that could not be put into the kernel yet, and what became of the others.
#[derive(Debug, Default)]
pub(super) struct KernelReplicas {
    /// Those whose backend is this node's, to which another node forwards them: two entries cannot have the same answers.
    blocked: BTreeMap<IpAddr, BTreeMap<ConnectionKey, Connection>>,
    outcomes: Outcomes,
}

impl KernelReplicas {
    /// What became of replicas since the start.
    pub(super) fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// Whether replicas of one of these VIPs wait for a takeover.
    pub(super) fn blocks(&self, vips: &[IpAddr]) -> bool {
        !self.blocked.is_empty() && vips.iter().any(|vip| self.blocked.contains_key(vip))
    }

    /// Carries out what peers told, in this order. `is_told` says what another peer tells of a connection that one has let go of.
    pub(super) fn apply(
        &mut self,
        changes: Vec<Change>,
        told: impl Fn(&ConnectionKey) -> Option<Connection>,
        tracking: &mut Tracking,
    ) -> Result<(), TrackingError> {
        let mut last: BTreeMap<ConnectionKey, Option<Connection>> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Put(connection) => last.insert(connection.key, Some(connection)),
                Change::Forget(key) => last.insert(key, told(&key)),
            };
        }
        let gone: Vec<ConnectionKey> =
            last.iter().filter(|(_, connection)| connection.is_none()).map(|(key, _)| *key).collect();
        let in_kernel: Vec<ConnectionKey> = gone.into_iter().filter(|key| !self.unblock(key)).collect();
        tracking.delete(&in_kernel)?;
        let put: Vec<Connection> = last.into_values().flatten().collect();
        self.put(&put, tracking)
    }

    fn put(&mut self, connections: &[Connection], tracking: &mut Tracking) -> Result<(), TrackingError> {
        let inserted = tracking.insert(connections, LIFETIME)?;
        let (mut earlier, mut present) = (Vec::new(), Vec::new());
        for (connection, inserted) in connections.iter().zip(&inserted) {
            match inserted {
                Inserted::Clash(Blocking::Earlier) => {
                    earlier.push(*connection);
                    continue;
                }
                Inserted::Present => present.push(connection.key),
                _ => {}
            }
            self.note(connection, inserted);
        }
        // This node served them once: from now on they are replicas as the others.
        tracking.refresh(&present, LIFETIME)?;
        if earlier.is_empty() {
            return Ok(());
        }
        // The peer knows better what its client says from that port now.
        let keys: Vec<ConnectionKey> = earlier.iter().map(|connection| connection.key).collect();
        tracking.delete(&keys)?;
        let inserted = tracking.insert(&earlier, LIFETIME)?;
        earlier.iter().zip(&inserted).for_each(|(connection, inserted)| self.note(connection, inserted));
        Ok(())
    }

    fn note(&mut self, connection: &Connection, inserted: &Inserted) {
        self.unblock(&connection.key);
        match inserted {
            Inserted::New | Inserted::Present => {}
            Inserted::Clash(Blocking::Forwarded) => {
                self.blocked.entry(connection.key.vip.ip()).or_default().insert(connection.key, *connection);
            }
            Inserted::TableFull => self.outcomes.table_full += 1,
            Inserted::Clash(Blocking::Earlier | Blocking::Other)
            | Inserted::Invalid(_)
            | Inserted::Refused { .. } => {
                self.outcomes.refused += 1;
            }
        }
    }

    fn is_blocked(&self, key: &ConnectionKey) -> bool {
        self.blocked.get(&key.vip.ip()).is_some_and(|of_vip| of_vip.contains_key(key))
    }

    /// It waits no longer. Whether it did.
    fn unblock(&mut self, key: &ConnectionKey) -> bool {
        let vip = key.vip.ip();
        let Some(of_vip) = self.blocked.get_mut(&vip) else { return false };
        let was_blocked = of_vip.remove(key).is_some();
        if of_vip.is_empty() {
            self.blocked.remove(&vip);
        }
        was_blocked
    }

    /// This node is Active for these VIPs, and who was before forwards nothing to backends here any more: what was forwarded comes by the
    /// VIP from now on. (As long as that node lives, its packets would get another port where the replica has theirs, and be reset.)
    pub(super) fn take_over(
        &mut self,
        vips: &BTreeSet<IpAddr>,
        tracking: &mut Tracking,
    ) -> Result<(), TrackingError> {
        let blocked = vips.iter().filter_map(|vip| self.blocked.get(vip));
        let unblocked: Vec<Connection> = blocked.flat_map(|of_vip| of_vip.values().copied()).collect();
        if unblocked.is_empty() {
            return Ok(());
        }
        let replaced = tracking.replace(&unblocked, LIFETIME)?;
        unblocked.iter().zip(&replaced).for_each(|(connection, replaced)| self.note(connection, replaced));
        Ok(())
    }

    /// Renews these replicas. Those that somebody took out of the kernel are put there again.
    pub(super) fn renew(
        &mut self,
        connections: &[Connection],
        tracking: &mut Tracking,
    ) -> Result<(), TrackingError> {
        let absent = self.refresh(connections, |_| LIFETIME, tracking)?;
        self.put(&absent, tracking)
    }

    /// Renews these as connections that this node serves. Those that are not there any more have ended.
    pub(super) fn extend(
        &self,
        connections: &[Connection],
        tracking: &mut Tracking,
    ) -> Result<(), TrackingError> {
        self.refresh(connections, kernel_lifetime, tracking).map(drop)
    }

    /// Those that are not there.
    fn refresh(
        &self,
        connections: &[Connection],
        lifetime: impl Fn(Transport) -> Duration,
        tracking: &mut Tracking,
    ) -> Result<Vec<Connection>, TrackingError> {
        let mut all_absent = Vec::new();
        for transport in [Transport::Tcp, Transport::Udp] {
            let unblocked = |connection: &&Connection| !self.is_blocked(&connection.key);
            let of_transport: Vec<Connection> = connections
                .iter()
                .filter(|connection| connection.key.transport == transport)
                .filter(unblocked)
                .copied()
                .collect();
            for chunk in of_transport.chunks(AT_ONCE) {
                let keys: Vec<ConnectionKey> = chunk.iter().map(|connection| connection.key).collect();
                let absent: BTreeSet<ConnectionKey> =
                    tracking.refresh(&keys, lifetime(transport))?.into_iter().collect();
                all_absent.extend(chunk.iter().filter(|connection| absent.contains(&connection.key)));
            }
        }
        Ok(all_absent)
    }
}
