//! Events of the kernel's connection tracking and their meaning.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::entry::{CLOSE, CLOSE_WAIT, ESTABLISHED, Entry, FIN_WAIT, LAST_ACK};
use crate::netfilter::message::{Content, replies};
use windlass_vrrp::replication::{Connection, ConnectionKey, Transport};

#[cfg(test)]
mod tests;

/// The subsystem of connection tracking, and its messages.
const NEW: u16 = 1 << 8;
const DELETED: u16 = 1 << 8 | 2;

/// Event of a connection to a VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a caller must not overlook one")]
pub enum Event {
    /// A connection to a VIP lasts from now on.
    Established(Connection),
    /// One side has closed, and the other most likely will. If it continues, the kernel may not report the end: check again with
    /// [`Tracking::are_open`](super::Tracking::are_open).
    Closing(ConnectionKey),
    /// The connection is closed and may be removed. Reported for any connection to a VIP, also one that was never established, and
    /// maybe more than once.
    Ended(ConnectionKey),
    /// Events were lost: only a list shows the actual connections.
    Lost,
}

/// Decodes the events of connections to these VIPs from the received bytes.
pub(super) fn decode<'a>(bytes: &'a [u8], vips: &'a BTreeSet<IpAddr>) -> impl Iterator<Item = Event> + 'a {
    replies(bytes).filter_map(move |reply| match reply.content {
        Content::Object(object) => meaning(reply.kind, &Entry::parse(object)?, vips),
        Content::End(_) => None,
    })
}

fn meaning(kind: u16, entry: &Entry, vips: &BTreeSet<IpAddr>) -> Option<Event> {
    if !vips.contains(&entry.original.destination.ip()) || entry.is_untranslated() {
        return None;
    }
    let ended = Event::Ended(entry.key());
    match (kind, entry.original.transport, entry.tcp_state) {
        // Not TIME_WAIT, which comes after LAST_ACK.
        (DELETED, ..) | (NEW, Transport::Tcp, Some(LAST_ACK | CLOSE)) => Some(ended),
        (NEW, Transport::Tcp, Some(FIN_WAIT | CLOSE_WAIT)) => Some(Event::Closing(entry.key())),
        (NEW, Transport::Tcp, Some(ESTABLISHED)) | (NEW, Transport::Udp, _) => {
            entry.is_translated_and_lasting().then(|| Event::Established(entry.connection()))
        }
        (NEW, Transport::Tcp, _) | (_, Transport::Tcp | Transport::Udp, _) => None,
    }
}
