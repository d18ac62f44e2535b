//! Lists of the kernel's connection tracking: entry by entry out of the receive buffer, never as a whole.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use windlass_vrrp::Family;
use windlass_vrrp::replication::Connection;

use super::entry::{
    ADDRESSES, ASSURED, DESTINATION_NAT, Entry, ID, MARK, PORTS, PROTOCOL, STATUS, TUPLE_ORIGINAL, V4, V6,
    ZONE, tcp_state,
};
use super::error::TrackingError;
use super::request::{self, AT_ONCE, Request, STATUS_MASK, exchange};
use super::tracking::Tracking;
use crate::netfilter::NetfilterSocket;
use crate::netfilter::attributes::{self, Attributes};
use crate::netfilter::message::{Content, Operation};

#[cfg(test)]
mod tests;

const MARK_MASK: u16 = 21;
/// Parts of the tuple to filter by (Linux 5.8), for either direction.
const FILTER: u16 = 25;
const FILTER_FLAGS: [u16; 2] = [1, 2];
const BY_DESTINATION: u32 = 1 << 1;
const BY_PROTOCOL: u32 = 1 << 3;
/// Maximum number of attempts to list a table that changes during each.
const TRIES: u32 = 5;
/// The largest table that the kernel filters. Without full preemption it lets no thread run on the processor before it has filled a piece
/// of the list: a filter that few entries pass would keep an advert waiting for as long as the whole walk takes.
const FILTERED_BY_KERNEL: u32 = 50_000;

/// Part of the kernel's table: entries of one family in the default zone, and of those the ones with all that is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Selection {
    family: Family,
    protocol: Option<u8>,
    destination: Option<IpAddr>,
    /// Mark, and the bits of it that count.
    mark: Option<(u32, u32)>,
    status: u32,
}

impl Selection {
    /// All entries of this family.
    pub(crate) fn of(family: Family) -> Self {
        Self { family, protocol: None, destination: None, mark: None, status: 0 }
    }

    /// Only entries of this protocol, as IP numbers it.
    pub(crate) fn with_protocol(self, protocol: u8) -> Self {
        Self { protocol: Some(protocol), ..self }
    }

    /// Only entries whose first packet went to this address.
    pub(crate) fn to(self, destination: IpAddr) -> Self {
        Self { destination: Some(destination), ..self }
    }

    /// Only entries with this mark, as far as these bits go.
    pub(crate) fn with_mark(self, mark: u32, bits: u32) -> Self {
        Self { mark: Some((mark, bits)), ..self }
    }

    /// Only entries that have all of these status bits.
    pub(crate) fn with_status(self, status: u32) -> Self {
        Self { status, ..self }
    }

    /// The same, for kernels to filter by. Old ones ignore what they do not know, so the reader filters again.
    fn filter(&self, zone: bool) -> Attributes {
        let mut filter = Attributes::new();
        if self.status != 0 {
            filter = filter.number(STATUS, self.status).number(STATUS_MASK, self.status);
        }
        if let Some((mark, bits)) = self.mark {
            filter = filter.number(MARK, mark).number(MARK_MASK, bits);
        }
        if zone {
            filter = filter.bytes(ZONE, &[0, 0]);
        }
        let (mut tuple, mut flags) = (Attributes::new(), 0);
        // Linux (6.18) lists all but the entries to an IPv6 address that it is asked for.
        if let Some(IpAddr::V4(destination)) = self.destination {
            flags |= BY_DESTINATION;
            tuple = tuple.nest(ADDRESSES, &Attributes::new().bytes(V4[1], &destination.octets()));
        }
        if let Some(protocol) = self.protocol {
            flags |= BY_PROTOCOL;
            tuple = tuple.nest(PORTS, &Attributes::new().bytes(PROTOCOL, &[protocol]));
        }
        if flags == 0 {
            return filter;
        }
        let [original, reply] = FILTER_FLAGS;
        let by = Attributes::new().bytes(original, &flags.to_ne_bytes()).bytes(reply, &0_u32.to_ne_bytes());
        filter.nest(TUPLE_ORIGINAL, &tuple).nest(FILTER, &by)
    }

    /// Filters to try in turn: a kernel may lack zones, or refuse a filter altogether.
    fn filters(&self) -> [Attributes; 3] {
        [self.filter(true), self.filter(false), Attributes::new()]
    }

    fn has(&self, listed: &Listed<'_>) -> bool {
        listed.is_of_default_zone()
            && self.status & !listed.status() == 0
            && self.mark.is_none_or(|(mark, bits)| listed.mark() & bits == mark)
            && self.protocol.is_none_or(|protocol| listed.protocol() == Some(protocol))
            && listed.destination().is_some_and(|found| {
                Family::of(found) == self.family && self.destination.is_none_or(|wanted| wanted == found)
            })
    }
}

/// An entry as the kernel lists it: attributes in the receive buffer, of which only what is asked for is read.
pub(crate) struct Listed<'a>(&'a [u8]);

impl Listed<'_> {
    /// Address to which the connection's first packet was sent.
    pub(crate) fn destination(&self) -> Option<IpAddr> {
        let addresses = attributes::find(self.original()?, ADDRESSES)?;
        let v4 = || Some(<[u8; 4]>::try_from(attributes::find(addresses, V4[1])?).ok()?.into());
        let v6 = || Some(<[u8; 16]>::try_from(attributes::find(addresses, V6[1])?).ok()?.into());
        v4().or_else(v6)
    }

    /// Protocol, as IP numbers it.
    pub(crate) fn protocol(&self) -> Option<u8> {
        attributes::find(attributes::find(self.original()?, PORTS)?, PROTOCOL)?.first().copied()
    }

    /// State of a TCP connection, as the kernel numbers it.
    pub(crate) fn tcp_state(&self) -> Option<u8> {
        tcp_state(self.0)
    }

    /// Status bits.
    fn status(&self) -> u32 {
        attributes::find_number(self.0, STATUS).unwrap_or_default()
    }

    /// Mark; 0 is none.
    fn mark(&self) -> u32 {
        attributes::find_number(self.0, MARK).unwrap_or_default()
    }

    /// The whole entry; `None` if it is neither TCP nor UDP.
    pub(crate) fn entry(&self) -> Option<Entry> {
        Entry::parse(self.0)
    }

    fn original(&self) -> Option<&[u8]> {
        attributes::find(self.0, TUPLE_ORIGINAL)
    }

    fn is_of_default_zone(&self) -> bool {
        attributes::find(self.0, ZONE).is_none_or(|zone| zone.iter().all(|byte| *byte == 0))
    }

    /// Removes it, by its ends and its number: by the ends alone, that would also be the next one from the same port, which may have begun
    /// since.
    fn removal(&self, family: Family) -> Option<Request> {
        const NESTED: u16 = 0x8000;
        let (tuple, id) = (self.original()?, attributes::find(self.0, ID)?);
        let named = Attributes::new().bytes(TUPLE_ORIGINAL | NESTED, tuple).bytes(ID, id);
        Some((Operation::DeleteConnection(request::number(family)), named))
    }
}

impl Tracking {
    /// Reports each connection to one of these VIPs that is worth keeping, with the time after which it expires. A connection that
    /// begins or ends meanwhile may be missed, and one may be reported twice.
    pub fn list(
        &mut self,
        family: Family,
        vips: &BTreeSet<IpAddr>,
        mut told: impl FnMut(Connection, Duration),
    ) -> Result<(), TrackingError> {
        let lasting = Selection::of(family).with_status(ASSURED | DESTINATION_NAT);
        self.for_each(&lasting, |listed| {
            let entry = listed
                .entry()
                .filter(|entry| entry.is_open() && vips.contains(&entry.original.destination.ip()));
            if let Some(entry) = entry {
                let expires_in = entry.expires_in.unwrap_or_default();
                told(entry.connection(), Duration::from_secs(expires_in.into()));
            }
            ControlFlow::Continue(())
        })
    }

    /// Passes each connection that is translated to a backend to `told`, whatever its state. Under the same conditions.
    pub fn list_translated(
        &mut self,
        family: Family,
        mut told: impl FnMut(Connection),
    ) -> Result<(), TrackingError> {
        self.for_each(&Selection::of(family).with_status(DESTINATION_NAT), |listed| {
            if let Some(entry) = listed.entry().filter(Entry::is_translated) {
                told(entry.connection());
            }
            ControlFlow::Continue(())
        })
    }

    /// Shows each selected entry, until `shown` breaks. One that begins or ends meanwhile is shown or not, and one may be shown twice.
    pub(crate) fn for_each(
        &mut self,
        selection: &Selection,
        shown: impl FnMut(&Listed<'_>) -> ControlFlow<()>,
    ) -> Result<(), TrackingError> {
        let filters = self.filters(selection)?;
        walk(&mut self.lister, selection, filters, shown)
    }

    /// Removes the selected entries that `is_over` names, in one walk over the table, and returns their number. Holds at most 256 of them
    /// in memory. Entries that begin meanwhile are looked at or not.
    pub(crate) fn remove_each(
        &mut self,
        selection: &Selection,
        mut is_over: impl FnMut(&Listed<'_>) -> bool,
    ) -> Result<usize, TrackingError> {
        let mut pending = Vec::with_capacity(AT_ONCE);
        let mut outcome = Ok(0_usize);
        let filters = self.filters(selection)?;
        let Self { lister, changer, .. } = self;
        walk(lister, selection, filters, |listed| {
            if !is_over(listed) {
                return ControlFlow::Continue(());
            }
            pending.extend(listed.removal(selection.family));
            if pending.len() < AT_ONCE {
                return ControlFlow::Continue(());
            }
            match (remove_listed(changer, &mut pending), &mut outcome) {
                (Ok(more), Ok(removed)) => {
                    *removed = removed.saturating_add(more);
                    ControlFlow::Continue(())
                }
                (Err(error), outcome) => {
                    *outcome = Err(error);
                    ControlFlow::Break(())
                }
                (Ok(_), Err(_)) => ControlFlow::Break(()),
            }
        })?;
        Ok(outcome?.saturating_add(remove_listed(changer, &mut pending)?))
    }

    /// The filters for a table of the present size.
    fn filters(&mut self, selection: &Selection) -> Result<Vec<Attributes>, TrackingError> {
        let is_small = self.usage()?.entries <= FILTERED_BY_KERNEL;
        Ok(if is_small { selection.filters().into() } else { vec![Attributes::new()] })
    }
}

/// Removes these, but for those that ended by themselves; returns their number.
fn remove_listed(changer: &mut NetfilterSocket, removals: &mut Vec<Request>) -> Result<usize, TrackingError> {
    let (mut removed, mut refusal) = (removals.len(), None);
    exchange(changer, "forget tracked connections", removals, |_, answer| {
        if let Content::End(Err(error)) = answer {
            removed = removed.saturating_sub(1);
            if error.raw_os_error() != Some(libc::ENOENT) {
                refusal = Some(error);
            }
        }
    })?;
    removals.clear();
    match refusal {
        Some(error) => Err(TrackingError::of("forget a tracked connection")(error)),
        None => Ok(removed),
    }
}

/// Shows each selected entry, by the first filter that the kernel does not refuse.
fn walk(
    socket: &mut impl Lister,
    selection: &Selection,
    filters: impl IntoIterator<Item = Attributes>,
    mut shown: impl FnMut(&Listed<'_>) -> ControlFlow<()>,
) -> Result<(), TrackingError> {
    let failed = TrackingError::of("list tracked connections");
    let mut filters = filters.into_iter();
    let Some(mut filter) = filters.next() else { return Ok(()) };
    let mut interruptions = 0;
    while interruptions < TRIES {
        let answer = socket.list(selection.family, &filter, &mut |object| {
            let listed = Listed(object);
            if selection.has(&listed) { shown(&listed) } else { ControlFlow::Continue(()) }
        });
        match answer {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                interruptions = interruptions.saturating_add(1);
            }
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
                filter = filters.next().ok_or_else(|| failed(error))?;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Err(TrackingError::Unsteady { tries: TRIES })
}

/// Source of lists: the kernel, or in tests one that ignores or refuses filters.
trait Lister {
    fn list(
        &mut self,
        family: Family,
        filter: &Attributes,
        told: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<()>;
}

impl Lister for NetfilterSocket {
    fn list(
        &mut self,
        family: Family,
        filter: &Attributes,
        told: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.ask_until(Operation::GetConnections(request::number(family)), filter, told)
    }
}
