//! Messages as bytes (RFC 4271 §4).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! |                  Marker: 16 bytes, all ones                   |
//! +-------------------------------+---------------+---------------+
//! |            Length             |     Type      |      Body     |
//! +-------------------------------+---------------+---------------+
//! ```
//!
//! [`decode`] judges a received message and returns the [`Notification`] to answer if it is wrong. Of an UPDATE it keeps nothing but
//! counts. All that is sent is appended to a buffer, so that nothing is allocated for a KEEPALIVE.

mod attributes;
mod capabilities;
mod communities;
mod notification;
mod open;
mod reader;
mod received;
#[cfg(test)]
mod tests;
mod update;
mod writer;

pub use attributes::{Attributes, NextHop, NextHopV6, Peering};
pub use capabilities::Capabilities;
pub use communities::{Communities, Community, ExtendedCommunity, LargeCommunity, TooManyCommunities};
pub use notification::{ErrorCode, Notification};
pub use open::Open;
pub use received::ReceivedUpdate;
pub use update::{announce, end_of_rib, withdraw};

use crate::units::Family;
use reader::Reader;
use writer::message;

/// Bytes of the longest message. Longer ones (RFC 8654) are neither offered nor taken.
pub const MAX_LENGTH: usize = 4096;
/// Bytes of the shortest message, which is a header alone.
pub const HEADER_LENGTH: usize = 19;

const MARKER: [u8; 16] = [0xff; 16];
const OPEN: u8 = 1;
const UPDATE: u8 = 2;
const NOTIFICATION: u8 = 3;
const KEEPALIVE: u8 = 4;
const ROUTE_REFRESH: u8 = 5;
/// Subsequent address family identifier of unicast routes.
const UNICAST: u8 = 1;

/// Message of the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// The peer's offer.
    Open(Open),
    /// Routes of the peer, counted.
    Update(ReceivedUpdate),
    /// The peer closes the connection.
    Notification(Notification),
    /// The peer is there.
    Keepalive,
    /// The peer asks for all routes of a family; `None` if it is one that the speaker does not know.
    RouteRefresh(Option<Family>),
}

/// Decodes the first message of `bytes` and returns it with its length; `None` if it is not whole yet. A header is judged as soon as it is
/// whole. The error is the NOTIFICATION that answers a wrong message.
pub fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, Notification> {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_LENGTH>() else { return Ok(None) };
    let (marker, [high, low, kind]) = header.split_last_chunk::<3>().unwrap_or((&[], &[0; 3]));
    if marker != MARKER {
        return Err(ErrorCode::NOT_SYNCHRONIZED.into());
    }
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let bad_length = || Notification { error: ErrorCode::BAD_LENGTH, data: vec![*high, *low] };
    let lengths = match *kind {
        OPEN => 29..=MAX_LENGTH,
        UPDATE => 23..=MAX_LENGTH,
        NOTIFICATION => 21..=MAX_LENGTH,
        KEEPALIVE => HEADER_LENGTH..=HEADER_LENGTH,
        ROUTE_REFRESH => 23..=23,
        _ => return Err(Notification { error: ErrorCode::BAD_TYPE, data: vec![*kind] }),
    };
    if !lengths.contains(&length) {
        return Err(bad_length());
    }
    let Some(body) = bytes.get(HEADER_LENGTH..length) else { return Ok(None) };
    let message = match *kind {
        OPEN => Message::Open(Open::decode(body)?),
        UPDATE => Message::Update(ReceivedUpdate::decode(body)?),
        NOTIFICATION => Message::Notification(Notification::decode(body)),
        ROUTE_REFRESH => Message::RouteRefresh(decode_family(&mut Reader::new(body))),
        _ => Message::Keepalive,
    };
    Ok(Some((message, length)))
}

/// Appends a KEEPALIVE.
pub fn keepalive(out: &mut Vec<u8>) {
    message(out, KEEPALIVE, |_| {});
}

/// Appends a ROUTE-REFRESH, with which the peer asks for all routes of a family (RFC 2918).
pub fn route_refresh(out: &mut Vec<u8>, family: Family) {
    message(out, ROUTE_REFRESH, |out| {
        out.extend(family.afi().to_be_bytes());
        out.extend([0, UNICAST]);
    });
}

/// The family of an AFI, a reserved byte and a SAFI.
fn decode_family(reader: &mut Reader<'_>) -> Option<Family> {
    let [high, low, _, safi] = reader.bytes()?;
    Family::from_afi(u16::from_be_bytes([high, low])).filter(|_| safi == UNICAST)
}
