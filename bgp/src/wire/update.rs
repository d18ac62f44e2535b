//! UPDATE with routes of the speaker. Each message has one of: withdrawn routes, NLRI, MP_REACH, MP_UNREACH (RFC 7606 §5.1), and as
//! many prefixes as fit.

use super::attributes::NextHop;
use super::writer::{self, OPTIONAL, behind_byte, behind_length, message};
use super::{HEADER_LENGTH, MAX_LENGTH, UNICAST, UPDATE};
use crate::units::{Family, Prefix};

const MP_REACH: u8 = 14;
const MP_UNREACH: u8 = 15;
/// Bytes for all attributes and prefixes of a message.
const ROOM: usize = MAX_LENGTH - HEADER_LENGTH - 4;
/// Bytes before the value of an attribute with a length of two bytes.
const ATTRIBUTE_HEADER: usize = 4;

/// Appends an UPDATE that withdraws the first of these prefixes of a family, as many as fit. Returns their number.
pub fn withdraw(out: &mut Vec<u8>, family: Family, prefixes: impl IntoIterator<Item = Prefix>) -> usize {
    let head = match family {
        Family::V4 => Vec::new(),
        Family::V6 => family_head(family),
    };
    let header = if head.is_empty() { 0 } else { ATTRIBUTE_HEADER };
    let (bytes, count) = pack(prefixes, ROOM.saturating_sub(header).saturating_sub(head.len()));
    match family {
        Family::V4 => update(out, &bytes, |_| {}, &[]),
        Family::V6 => update(out, &[], |out| attribute(out, MP_UNREACH, &head, &bytes), &[]),
    }
    count
}

/// Appends an UPDATE that announces the first of these prefixes of a family with these attributes, as many as fit. Returns their number.
pub fn announce(
    out: &mut Vec<u8>,
    family: Family,
    next_hop: NextHop,
    attributes: &[u8],
    prefixes: impl IntoIterator<Item = Prefix>,
) -> usize {
    let room = ROOM.saturating_sub(attributes.len());
    match next_hop {
        NextHop::V4(_) => {
            let (bytes, count) = pack(prefixes, room);
            update(out, &[], |out| out.extend(attributes), &bytes);
            count
        }
        NextHop::V6(next_hop) => {
            let mut head = family_head(family);
            behind_byte(&mut head, |out| next_hop.encode(out));
            head.push(0);
            let (bytes, count) =
                pack(prefixes, room.saturating_sub(ATTRIBUTE_HEADER).saturating_sub(head.len()));
            let reach = |out: &mut Vec<u8>| {
                attribute(out, MP_REACH, &head, &bytes);
                out.extend(attributes);
            };
            update(out, &[], reach, &[]);
            count
        }
    }
}

/// Appends the End-of-RIB marker of a family (RFC 4724 §2): all its routes were sent.
pub fn end_of_rib(out: &mut Vec<u8>, family: Family) {
    withdraw(out, family, []);
}

fn update(out: &mut Vec<u8>, withdrawn: &[u8], attributes: impl FnOnce(&mut Vec<u8>), reachable: &[u8]) {
    message(out, UPDATE, |out| {
        behind_length(out, |out| out.extend(withdrawn));
        behind_length(out, attributes);
        out.extend(reachable);
    });
}

fn family_head(family: Family) -> Vec<u8> {
    let [high, low] = family.afi().to_be_bytes();
    vec![high, low, UNICAST]
}

fn attribute(out: &mut Vec<u8>, kind: u8, head: &[u8], prefixes: &[u8]) {
    writer::attribute(out, OPTIONAL, kind, &[head, prefixes].concat());
}

/// Returns the first of these prefixes that fit into `room` bytes, and their number.
fn pack(prefixes: impl IntoIterator<Item = Prefix>, room: usize) -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    let mut count = 0_usize;
    for prefix in prefixes {
        let (bits, octets, length) = prefix.encoded();
        if bytes.len().saturating_add(length) >= room {
            break;
        }
        bytes.push(bits);
        bytes.extend(octets.iter().take(length));
        count = count.saturating_add(1);
    }
    (bytes, count)
}
