//! Inserts connections of another node into this kernel.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use windlass_vrrp::replication::Connection;

use super::entry::{Entry, Tuple};
use super::error::TrackingError;
use super::request::AT_ONCE;
use super::request::{self, Request};
use super::tracking::Tracking;
use super::validity::{InvalidConnection, check_connection, check_replica};
use crate::netfilter::message::Content;

#[cfg(test)]
mod tests;

/// Maximum number of attempts for a connection whose obstacle goes and comes.
const ROUNDS: usize = 3;

/// Result of the insertion of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "the engine acts on each")]
pub enum Inserted {
    /// It is tracked from now on.
    #[error("inserted")]
    New,
    /// It was tracked already, with the same translation. Its lifetime is as it was.
    #[error("was there already")]
    Present,
    /// Another entry has its place.
    #[error("another entry of connection tracking has its place: {0}")]
    Clash(Blocking),
    /// The kernel's table is as full as it may be for replicas.
    #[error("the connection tracking table is full: raise net.netfilter.nf_conntrack_max")]
    TableFull,
    /// There can be no such connection.
    #[error("{0}")]
    Invalid(InvalidConnection),
    /// The kernel refuses it for another reason.
    #[error("the kernel refuses it: {}: compare `conntrack -S` on the node", io::Error::from_raw_os_error(*errno))]
    Refused {
        /// Its error number.
        errno: i32,
    },
}

/// Entry that has the place of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "the engine acts on each")]
pub enum Blocking {
    /// The same packets between source and backend, untranslated: the backend lives here, and another node forwards to it.
    #[error("the same connection as forwarded by another node, whose backend lives here")]
    Forwarded,
    /// An earlier connection: of the same client's port to the same VIP, with another backend or source, or closed; or a closed one
    /// of another client whose source the backend saw was the same. A node that was Active until a moment ago has thousands of them.
    #[error("an earlier connection")]
    Earlier,
    /// An open connection of another client to the same VIP, with the same source towards the same backend. The backend has at most
    /// one of the two: the later one.
    #[error("an open connection of another client, which has the same backend and source")]
    SameAnswers,
    /// Another connection.
    #[error("another connection")]
    Other,
}

/// Obstacles that a connection may replace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Yields {
    Nothing,
    Earlier,
    EarlierOrSameAnswers,
    EarlierOrForwarded,
}

impl Yields {
    /// Returns true if another node reports the connection.
    fn is_for_replicas(self) -> bool {
        self != Self::Nothing
    }

    fn includes(self, blocking: Blocking) -> bool {
        match blocking {
            Blocking::Earlier => self != Self::Nothing,
            Blocking::SameAnswers => self == Self::EarlierOrSameAnswers,
            Blocking::Forwarded => self == Self::EarlierOrForwarded,
            Blocking::Other => false,
        }
    }
}

/// Entry found in the place of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Obstacle {
    /// The connection itself.
    Itself,
    /// This entry, of this kind.
    Entry(Blocking, Entry),
    /// The obstacle is gone.
    Gone,
}

impl Tracking {
    /// Has the kernel track these connections, as if it had seen them begin; each expires after `lifetime` without packets. Returns a
    /// result for each, in the order given; a failure of one does not affect the others.
    pub fn insert(
        &mut self,
        connections: &[Connection],
        lifetime: Duration,
    ) -> Result<Vec<Inserted>, TrackingError> {
        self.put(connections, lifetime, Yields::Nothing)
    }

    /// Inserts replicas, also in place of an [earlier](Blocking::Earlier) connection: another node knows better what its client sends
    /// from that port now. Their source is the VIP. Their backend is not this node itself, unless this node has accepted the
    /// connection by way of the other node: else a node could lead the clients of a VIP to any socket that listens on its peers.
    pub fn restore(
        &mut self,
        connections: &[Connection],
        lifetime: Duration,
    ) -> Result<Vec<Inserted>, TrackingError> {
        self.put(connections, lifetime, Yields::Earlier)
    }

    /// Does the same as [`Self::restore`], also in place of an open connection with the [same answers](Blocking::SameAnswers). For
    /// updates from the Active to a Backup: the backend has accepted the reported connection, so the other one has ended unseen by
    /// this node.
    pub fn update(
        &mut self,
        connections: &[Connection],
        lifetime: Duration,
    ) -> Result<Vec<Inserted>, TrackingError> {
        self.put(connections, lifetime, Yields::EarlierOrSameAnswers)
    }

    /// Inserts replicas in place of an [earlier](Blocking::Earlier) connection, and of one that another node
    /// [forwards](Blocking::Forwarded). For a node that becomes Active: a connection that another node still forwards to
    /// a backend here ends with its entry.
    pub fn replace(
        &mut self,
        connections: &[Connection],
        lifetime: Duration,
    ) -> Result<Vec<Inserted>, TrackingError> {
        self.put(connections, lifetime, Yields::EarlierOrForwarded)
    }

    fn put(
        &mut self,
        connections: &[Connection],
        lifetime: Duration,
        yields: Yields,
    ) -> Result<Vec<Inserted>, TrackingError> {
        let mut outcomes = Vec::with_capacity(connections.len());
        for chunk in connections.chunks(AT_ONCE) {
            let room = self.usage()?.room(self.share);
            let mut part: Vec<Inserted> = self
                .check(chunk, yields)?
                .into_iter()
                .map(|checked| checked.map_or_else(Inserted::Invalid, |()| Inserted::TableFull))
                .collect();
            let is_valid = |at: &usize| part.get(*at) == Some(&Inserted::TableFull);
            let places: Vec<usize> = (0..chunk.len()).filter(is_valid).collect();
            // Without room, those that are there already are told all the same.
            let (tried, unmet) = places.split_at(places.len().min(room));
            self.put_chunk(chunk, tried, lifetime, yields, &mut part)?;
            for (at, obstacle) in self.obstacles(chunk, unmet)? {
                if obstacle == Obstacle::Itself {
                    part[at] = Inserted::Present;
                }
            }
            outcomes.append(&mut part);
        }
        Ok(outcomes)
    }

    /// Returns for each connection the reason why it cannot be inserted, if any.
    fn check(
        &mut self,
        chunk: &[Connection],
        yields: Yields,
    ) -> Result<Vec<Result<(), InvalidConnection>>, TrackingError> {
        let mut checked: Vec<_> = chunk.iter().map(check_connection).collect();
        if !yields.is_for_replicas() {
            return Ok(checked);
        }
        let valid = |checked: &[Result<(), InvalidConnection>]| -> Vec<usize> {
            (0..chunk.len()).filter(|at| checked[*at].is_ok()).collect()
        };
        let own = self.own(valid(&checked).into_iter().map(|at| chunk[at].backend.ip()))?;
        let is_here = |at: &usize| own.contains(&chunk[*at].backend.ip());
        let here: Vec<usize> = valid(&checked).into_iter().filter(is_here).collect();
        let packets: Vec<Tuple> = here.iter().map(|at| answers(&chunk[*at])).collect();
        let accepted: BTreeSet<usize> = here
            .iter()
            .zip(self.find(&packets)?)
            .filter(|(at, found)| found.is_some_and(|found| is_accepted_here(&chunk[**at], &found)))
            .map(|(at, _)| *at)
            .collect();
        for at in valid(&checked) {
            checked[at] = check_replica(&chunk[at], &own, || accepted.contains(&at));
        }
        Ok(checked)
    }

    /// Inserts the connections of `chunk` at these places, and writes their results to `outcomes`.
    fn put_chunk(
        &mut self,
        chunk: &[Connection],
        places: &[usize],
        lifetime: Duration,
        yields: Yields,
        outcomes: &mut [Inserted],
    ) -> Result<(), TrackingError> {
        // What is to be inserted, and the entry that is deleted for it.
        let mut due: Vec<(usize, Option<Entry>)> = places.iter().map(|at| (*at, None)).collect();
        for _ in 0..ROUNDS {
            let mut requests: Vec<Request> = Vec::with_capacity(due.len().saturating_mul(2));
            let mut of_request: Vec<Option<usize>> = Vec::with_capacity(due.len().saturating_mul(2));
            for (at, blocking) in &due {
                let deletion = blocking.and_then(|entry| Some(request::delete(&entry.original, entry.id?)));
                if let Some(deletion) = deletion {
                    requests.push(deletion);
                    of_request.push(None);
                }
                requests.push(request::insert(&chunk[*at], lifetime));
                of_request.push(Some(*at));
                outcomes[*at] = Inserted::New;
            }
            self.exchange("insert tracked connections", &requests, |request, answer| {
                let Some(at) = of_request.get(request).copied().flatten() else { return };
                if let Content::End(Err(error)) = answer {
                    outcomes[at] = refusal(&error);
                }
            })?;
            let blocked: Vec<usize> = due
                .iter()
                .map(|(at, _)| *at)
                .filter(|at| matches!(outcomes[*at], Inserted::Clash(_)))
                .collect();
            due.clear();
            for (at, obstacle) in self.obstacles(chunk, &blocked)? {
                match obstacle {
                    Obstacle::Itself => outcomes[at] = Inserted::Present,
                    Obstacle::Gone => due.push((at, None)),
                    Obstacle::Entry(blocking, entry) => {
                        outcomes[at] = Inserted::Clash(blocking);
                        if yields.includes(blocking) {
                            due.push((at, Some(entry)));
                        }
                    }
                }
            }
            if due.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the obstacles of the connections of `chunk` at these places.
    fn obstacles(
        &mut self,
        chunk: &[Connection],
        places: &[usize],
    ) -> Result<Vec<(usize, Obstacle)>, TrackingError> {
        let of_client: Vec<Tuple> = places.iter().map(|at| Tuple::of_key(&chunk[*at].key)).collect();
        let of_client = self.find(&of_client)?;
        // By the client's packets it is itself most often: only of the rest the backend's are asked for.
        let found = || places.iter().zip(&of_client);
        let of_backend: Vec<Tuple> =
            found().filter(|(_, found)| found.is_none()).map(|(at, _)| answers(&chunk[*at])).collect();
        let mut of_backend = self.find(&of_backend)?.into_iter();
        let obstacles = found().map(|(at, of_client)| {
            let of_backend = if of_client.is_none() { of_backend.next().flatten() } else { None };
            (*at, obstacle(&chunk[*at], [*of_client, of_backend]))
        });
        Ok(obstacles.collect())
    }
}

/// Returns the tuple of the backend's packets.
fn answers(connection: &Connection) -> Tuple {
    Tuple { transport: connection.key.transport, source: connection.backend, destination: connection.source }
}

/// Returns true if this node, the backend, has the connection: as another node forwards it, or as it served the VIP itself.
fn is_accepted_here(connection: &Connection, found: &Entry) -> bool {
    found.is_accepted_here(&answers(connection)) || found.connection() == *connection && found.is_open()
}

/// Returns the obstacle of a connection, given the entries that have the client's and the backend's packets.
fn obstacle(connection: &Connection, [of_client, of_backend]: [Option<Entry>; 2]) -> Obstacle {
    if let Some(entry) = of_client {
        if entry.original != Tuple::of_key(&connection.key) {
            return Obstacle::Entry(Blocking::Other, entry);
        }
        if entry.connection() == *connection && entry.is_open() {
            return Obstacle::Itself;
        }
        return Obstacle::Entry(Blocking::Earlier, entry);
    }
    match of_backend {
        None => Obstacle::Gone,
        Some(entry) if entry.is_untranslated() => Obstacle::Entry(Blocking::Forwarded, entry),
        Some(entry) if !entry.is_open() => Obstacle::Entry(Blocking::Earlier, entry),
        Some(entry) if has_same_answers(connection, &entry) => Obstacle::Entry(Blocking::SameAnswers, entry),
        Some(entry) => Obstacle::Entry(Blocking::Other, entry),
    }
}

/// Returns true if the entry began towards the same VIP, and has the same backend, which answers to the same source.
fn has_same_answers(connection: &Connection, entry: &Entry) -> bool {
    entry.original.destination.ip() == connection.key.vip.ip() && entry.reply == answers(connection)
}

fn refusal(error: &io::Error) -> Inserted {
    match error.raw_os_error() {
        Some(libc::EEXIST) => Inserted::Clash(Blocking::Other),
        Some(libc::ENOMEM) => Inserted::TableFull,
        errno => Inserted::Refused { errno: errno.unwrap_or_default() },
    }
}
