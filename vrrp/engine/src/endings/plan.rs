//! Decides which connections end, and when their entries are removed. Pure: the clock and the kernel come as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use windlass_dataplane::restriction::Restrictions;
use windlass_kernel::port::{Protocol, ProtocolPort};
use windlass_vrrp::replication::{Connection, Transport};
use windlass_vrrp::{Family, Time};

#[cfg(test)]
mod tests;

/// Times after a change of owners at which the former owner's connections are removed again: kube-proxy may have translated packets to
/// the former owner's backends for a second, and peers may have copied an entry back for as long as they list connections.
const AGAIN: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(90)];
/// Most backends that are recorded of one address; a client cannot make them more.
const MOST_BACKENDS: usize = 4096;
/// Most entries that are collected in one pass and family; the rest follows in the next pass.
const MOST_ENTRIES: usize = 1 << 16;

/// Cause for which connections to an address end.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Cause {
    /// No owner is left; it had these.
    Released { former: BTreeSet<u64> },
    /// Others own it now. The first pass removes all connections and records their backends, the passes after it remove connections to
    /// these backends.
    Replaced { backends: BTreeSet<SocketAddr>, passes: usize },
    /// It has fewer ports, or lets in other sources.
    Narrowed,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Pending {
    cause: Cause,
    due: Time,
}

/// The restrictions, and the connections that end because they changed.
#[derive(Debug)]
pub(super) struct Plan {
    notice: Duration,
    wanted: Arc<Restrictions>,
    pending: BTreeMap<IpAddr, Pending>,
}

/// One look at the kernel's entries.
#[derive(Debug)]
pub(super) struct Pass {
    wanted: Arc<Restrictions>,
    pending: BTreeMap<IpAddr, Pending>,
    found: BTreeMap<IpAddr, BTreeSet<SocketAddr>>,
    entries: usize,
}

impl Plan {
    pub(super) fn new(notice: Duration) -> Self {
        Self { notice, wanted: Arc::default(), pending: BTreeMap::new() }
    }

    /// Takes new restrictions, and schedules the end of connections that they end: by other owners, ports or sources.
    pub(super) fn follow(&mut self, wanted: Arc<Restrictions>, now: Time) {
        let before = std::mem::replace(&mut self.wanted, wanted);
        let wanted = Arc::clone(&self.wanted);
        let narrowed = before.differing(&wanted).into_iter();
        for address in narrowed.filter(|address| wanted.is_narrower_than(&before, *address)) {
            let pending = || Pending { cause: Cause::Narrowed, due: now + self.notice };
            self.pending.entry(address).or_insert_with(pending);
        }
        for address in before.owned_differently(&wanted) {
            self.follow_owners(&before, address, now);
        }
    }

    fn follow_owners(&mut self, before: &Restrictions, address: IpAddr, now: Time) {
        let owners_in = |restrictions: &Restrictions| restrictions.owners().get(&address).cloned();
        let is_new = !before.owners().contains_key(&address);
        let released = self.pending.get(&address).and_then(Pending::former_owners).cloned();
        let former = owners_in(before).filter(|owners| !owners.is_empty());
        let owners = owners_in(&self.wanted);
        let is_released = owners.as_ref().is_none_or(BTreeSet::is_empty);
        let cause = match (former.or_else(|| released.clone()), owners.unwrap_or_default()) {
            _ if is_released && released.is_some() => return,
            (Some(former), _) if is_released => Cause::Released { former },
            // As after a restart: its connections may have been left.
            (None, _) if is_released && is_new => Cause::Released { former: BTreeSet::new() },
            (Some(former), owners) if former.is_disjoint(&owners) => {
                Cause::Replaced { backends: BTreeSet::new(), passes: 0 }
            }
            // It came back to an owner. What it permits no more still ends.
            (Some(_), _) if released.is_some() => Cause::Narrowed,
            (Some(_) | None, _) => return,
        };
        let due = match &cause {
            Cause::Released { .. } | Cause::Narrowed => now + self.notice,
            Cause::Replaced { .. } => now,
        };
        self.pending.insert(address, Pending { cause, due });
    }

    /// The restrictions that the guard is to enforce.
    pub(super) fn restrictions(&self) -> Arc<Restrictions> {
        let released = self.pending.iter().filter(|(_, pending)| pending.is_of_released());
        let mut released = released.map(|(address, _)| *address).peekable();
        if released.peek().is_none() {
            return Arc::clone(&self.wanted);
        }
        let mut restrictions = (*self.wanted).clone();
        released.for_each(|address| restrictions.end_connections(address));
        Arc::new(restrictions)
    }

    /// Returns the time of the next pass.
    pub(super) fn due(&self) -> Option<Time> {
        self.pending.values().map(|pending| pending.due).min()
    }

    /// The pass that is due now.
    pub(super) fn take(&self, now: Time) -> Pass {
        self.pass(|pending| pending.due <= now)
    }

    /// A pass of all that is to be removed, due or not.
    pub(super) fn take_all(&self) -> Pass {
        self.pass(|_| true)
    }

    fn pass(&self, is_due: impl Fn(&Pending) -> bool) -> Pass {
        let due = self.pending.iter().filter(|(_, pending)| is_due(pending));
        Pass {
            wanted: Arc::clone(&self.wanted),
            pending: due.map(|(address, pending)| (*address, pending.clone())).collect(),
            found: BTreeMap::new(),
            entries: 0,
        }
    }

    /// Records that the pass removed all that it found.
    pub(super) fn done(&mut self, mut pass: Pass, now: Time) {
        if pass.entries >= MOST_ENTRIES {
            return self.retry(pass, now);
        }
        for (address, done) in std::mem::take(&mut pass.pending) {
            // Something else may have become of the address since.
            if self.pending.get(&address) != Some(&done) {
                continue;
            }
            let next = match done.cause {
                Cause::Released { .. } | Cause::Narrowed => None,
                Cause::Replaced { backends, passes } => AGAIN.get(passes).map(|pause| {
                    let mut backends = backends;
                    backends.extend(pass.found.remove(&address).unwrap_or_default());
                    let cause = Cause::Replaced { backends, passes: passes.saturating_add(1) };
                    Pending { cause, due: now + *pause }
                }),
            };
            match next {
                Some(next) => drop(self.pending.insert(address, next)),
                None => drop(self.pending.remove(&address)),
            }
        }
    }

    /// Schedules a pass that did not remove all for this time.
    pub(super) fn retry(&mut self, mut pass: Pass, at: Time) {
        for (address, pending) in &mut self.pending {
            if pass.pending.get(address) != Some(pending) {
                continue;
            }
            pending.due = at;
            if let (Cause::Replaced { backends, .. }, Some(found)) =
                (&mut pending.cause, pass.found.remove(address))
            {
                backends.extend(found);
            }
        }
    }
}

impl Pending {
    fn is_of_released(&self) -> bool {
        self.former_owners().is_some()
    }

    /// The owners that an address had that has none now.
    fn former_owners(&self) -> Option<&BTreeSet<u64>> {
        match &self.cause {
            Cause::Released { former } => Some(former),
            Cause::Replaced { .. } | Cause::Narrowed => None,
        }
    }
}

impl Pass {
    /// Returns true if the pass is about an address of this family.
    pub(super) fn has(&self, family: Family) -> bool {
        self.pending.keys().any(|address| Family::of(*address) == family)
    }

    /// Returns true if this connection, which NAT rules have translated, ends.
    pub(super) fn ends(&self, connection: &Connection) -> bool {
        let vip = connection.key.vip;
        let Some(pending) = self.pending.get(&vip.ip()) else { return false };
        let protocol = match connection.key.transport {
            Transport::Tcp => Protocol::Tcp,
            Transport::Udp => Protocol::Udp,
        };
        let port = ProtocolPort { protocol, port: vip.port() };
        let is_permitted = || self.wanted.permits(connection.key.client.ip(), vip.ip(), port);
        match &pending.cause {
            Cause::Released { .. } => true,
            Cause::Replaced { backends, passes } => {
                *passes == 0 || backends.contains(&connection.backend) || !is_permitted()
            }
            Cause::Narrowed => !is_permitted(),
        }
    }

    /// Returns true if the pass takes no more entries.
    pub(super) fn is_full(&self) -> bool {
        self.entries >= MOST_ENTRIES
    }

    /// Records that this connection was found to end.
    pub(super) fn note(&mut self, connection: &Connection) {
        self.entries = self.entries.saturating_add(1);
        let backends = self.found.entry(connection.key.vip.ip()).or_default();
        if backends.len() < MOST_BACKENDS {
            backends.insert(connection.backend);
        }
    }
}
