//! Reading and changing the kernel's connection tracking.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;
use std::{fs, io};

use super::entry::{Entry, Tuple};
use super::error::TrackingError;
use super::request::{self, AT_ONCE, Request, exchange};
use super::validity::check_key;
use crate::netfilter::NetfilterSocket;
use crate::netfilter::attributes::{self, Attributes};
use crate::netfilter::message::{Content, Operation};
use crate::netlink::{KeptRouteSocket, Way};
use windlass_vrrp::replication::{ConnectionKey, Transport};

#[cfg(test)]
mod tests;

/// Room for the answers to as many questions, each with what the kernel adds (4 KiB and more), twice over.
const ANSWERS: usize = 2 << 20;
/// Percentage of the kernel's table for replicas and all other entries together. The rest is for connections that begin on this node.
pub const SHARE: u8 = 90;

/// Returns how long the kernel of the calling thread's network namespace keeps an idle lasting connection: its setting, or else the
/// default. Connections inserted with less are to be [refreshed](Tracking::refresh) to this when this node becomes Active.
pub fn kernel_lifetime(transport: Transport) -> Duration {
    let (setting, default) = match transport {
        Transport::Tcp => ("tcp_timeout_established", 5 * 86_400),
        Transport::Udp => ("udp_timeout_stream", 120),
    };
    let text = fs::read_to_string(format!("/proc/sys/net/netfilter/nf_conntrack_{setting}"));
    Duration::from_secs(text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(default))
}

/// Use of the kernel's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Usage {
    /// Connections that are tracked in this network namespace.
    pub entries: u32,
    /// Maximum number (`nf_conntrack_max`); 0 is no limit.
    pub limit: u32,
}

impl Usage {
    /// Returns how many more may be inserted, if this percentage of the table may be in use.
    pub fn room(&self, percent: u8) -> usize {
        let most = match self.limit {
            0 => u64::from(u32::MAX),
            limit => u64::from(limit).saturating_mul(percent.min(100).into()) / 100,
        };
        usize::try_from(most.saturating_sub(self.entries.into())).unwrap_or(usize::MAX)
    }
}

/// The connection tracking of the network namespace in which it was opened. Every call waits for the kernel, in milliseconds for
/// hundreds of connections: not for the timer thread.
pub struct Tracking {
    pub(super) changer: NetfilterSocket,
    /// For lists, which go on while others are asked.
    pub(super) lister: NetfilterSocket,
    routes: KeptRouteSocket,
    pub(super) share: u8,
}

impl Tracking {
    /// Opens it in the network namespace of the calling thread.
    pub fn open() -> Result<Self, TrackingError> {
        Self::with_buffer(ANSWERS)
    }

    /// With room for so many bytes of answers.
    fn with_buffer(answers: usize) -> Result<Self, TrackingError> {
        let open = || {
            let changer = NetfilterSocket::open()?;
            changer.enlarge(answers)?;
            Ok((changer, NetfilterSocket::open()?))
        };
        let (changer, lister) = open().map_err(TrackingError::of("open a netfilter socket"))?;
        Ok(Self { changer, lister, routes: KeptRouteSocket::default(), share: SHARE })
    }

    /// Has insertions use the kernel's table up to this percentage, rather than 90.
    #[must_use]
    pub fn with_share(mut self, percent: u8) -> Self {
        self.share = percent;
        self
    }

    /// Returns the use of the kernel's table.
    pub fn usage(&mut self) -> Result<Usage, TrackingError> {
        const ENTRIES: u16 = 1;
        const LIMIT: u16 = 2;
        let told = self
            .changer
            .ask(Operation::GetConnectionUsage, &Attributes::new())
            .map_err(TrackingError::of("ask how many connections are tracked"))?;
        let number =
            |kind| told.first().and_then(|told| attributes::find_number(told, kind)).unwrap_or_default();
        Ok(Usage { entries: number(ENTRIES), limit: number(LIMIT) })
    }

    /// Returns true if a connection may be inserted.
    pub fn has_room(&mut self) -> Result<bool, TrackingError> {
        Ok(self.usage()?.room(self.share) > 0)
    }

    /// Removes these connections and returns how many existed. Removes only connections that a client began towards the VIP, not a
    /// connection of which such packets are the answers.
    pub fn delete(&mut self, keys: &[ConnectionKey]) -> Result<usize, TrackingError> {
        let mut deleted = 0;
        for keys in keys.chunks(AT_ONCE) {
            let tuples: Vec<_> =
                keys.iter().filter(|key| check_key(key).is_ok()).map(Tuple::of_key).collect();
            let found = self.find(&tuples)?;
            let deletions: Vec<Request> = tuples
                .iter()
                .zip(found)
                .filter_map(|(tuple, found)| {
                    let found = found.filter(|found| found.original == *tuple)?;
                    Some(request::delete(tuple, found.id?))
                })
                .collect();
            deleted = deletions.len().saturating_add(deleted);
            let mut refusal = None;
            self.exchange("forget tracked connections", &deletions, |_, answer| {
                if let Content::End(Err(error)) = answer {
                    deleted = deleted.saturating_sub(1);
                    if error.raw_os_error() != Some(libc::ENOENT) {
                        refusal = Some(error);
                    }
                }
            })?;
            if let Some(error) = refusal {
                return Err(TrackingError::of("forget a tracked connection")(error));
            }
        }
        Ok(deleted)
    }

    /// Sets the lifetime of these connections without further packets, also if that shortens it; returns the keys that do not exist.
    /// For connections inserted here: unlike [`Self::delete`] it does not check the direction in which a connection began.
    pub fn refresh(
        &mut self,
        keys: &[ConnectionKey],
        lifetime: Duration,
    ) -> Result<Vec<ConnectionKey>, TrackingError> {
        let mut absent: Vec<ConnectionKey> =
            keys.iter().filter(|key| check_key(key).is_err()).copied().collect();
        for keys in keys.chunks(AT_ONCE) {
            let keys: Vec<_> = keys.iter().filter(|key| check_key(key).is_ok()).collect();
            let requests: Vec<_> = keys.iter().map(|key| request::refresh(key, lifetime)).collect();
            let mut missing = BTreeSet::new();
            let mut refusal = None;
            self.exchange("refresh tracked connections", &requests, |at, answer| {
                if let Content::End(Err(error)) = answer {
                    match error.raw_os_error() {
                        // ETIME: it is being forgotten.
                        Some(libc::ENOENT | libc::ETIME) => drop(missing.insert(at)),
                        _ => refusal = Some(error),
                    }
                }
            })?;
            if let Some(error) = refusal {
                return Err(TrackingError::of("refresh a tracked connection")(error));
            }
            absent.extend(missing.into_iter().filter_map(|at| keys.get(at).copied()));
        }
        Ok(absent)
    }

    /// Returns true for each connection on which either side may still send.
    pub fn are_open(&mut self, keys: &[ConnectionKey]) -> Result<Vec<bool>, TrackingError> {
        self.are(keys, Entry::is_open)
    }

    /// Returns true for each connection that neither side has closed.
    pub fn are_established(&mut self, keys: &[ConnectionKey]) -> Result<Vec<bool>, TrackingError> {
        self.are(keys, Entry::is_established)
    }

    /// Returns true for each connection that exists and has this state.
    fn are(
        &mut self,
        keys: &[ConnectionKey],
        has_state: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<bool>, TrackingError> {
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AT_ONCE) {
            let tuples: Vec<_> = keys.iter().map(Tuple::of_key).collect();
            let found = self.find(&tuples)?;
            let is_one = |(tuple, found): (&Tuple, &Option<Entry>)| {
                found.is_some_and(|found| found.original == *tuple && has_state(&found))
            };
            all.extend(tuples.iter().zip(&found).map(is_one));
        }
        Ok(all)
    }

    /// Returns the addresses among these that are this node's own, by its routes.
    pub(super) fn own(
        &mut self,
        addresses: impl Iterator<Item = IpAddr>,
    ) -> Result<BTreeSet<IpAddr>, TrackingError> {
        let mut own = BTreeSet::new();
        for address in addresses.collect::<BTreeSet<IpAddr>>() {
            let way = self
                .routes
                .with(|routes| routes.way_towards(address))
                .map_err(io::Error::other)
                .map_err(TrackingError::of("ask whether a backend is this node itself"))?;
            if way == Some(Way::ThisNode) {
                own.insert(address);
            }
        }
        Ok(own)
    }

    /// Returns for each tuple the entry one direction of which it is; `None` if there is none.
    pub(super) fn find(&mut self, tuples: &[Tuple]) -> Result<Vec<Option<Entry>>, TrackingError> {
        let questions: Vec<_> = tuples.iter().map(request::get).collect();
        let mut found = vec![None; tuples.len()];
        let mut refusal = None;
        self.exchange("look up tracked connections", &questions, |at, answer| match answer {
            Content::Object(object) => {
                if let Some(place) = found.get_mut(at) {
                    *place = Entry::parse(object);
                }
            }
            Content::End(Err(error)) if error.raw_os_error() != Some(libc::ENOENT) => refusal = Some(error),
            Content::End(_) => {}
        })?;
        match refusal {
            None => Ok(found),
            Some(error) => Err(TrackingError::of("look up a tracked connection")(error)),
        }
    }

    /// Sends these requests and reports each answer with the index of its request.
    pub(super) fn exchange(
        &mut self,
        what: &'static str,
        requests: &[Request],
        told: impl FnMut(usize, Content<'_>),
    ) -> Result<(), TrackingError> {
        exchange(&mut self.changer, what, requests, told)
    }
}
