//! Writes messages, parts behind their lengths, and path attributes.

use super::MARKER;

/// Flag of an attribute that speakers need not know.
pub(super) const OPTIONAL: u8 = 0x80;
/// Flag of an attribute that is passed on.
pub(super) const TRANSITIVE: u8 = 0x40;
/// Flag of an attribute with a length of two bytes.
const EXTENDED_LENGTH: u8 = 0x10;

/// Appends a message of this type.
pub(super) fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(MARKER);
    let at = out.len();
    out.extend([0, 0, kind]);
    body(out);
    let length = out.len().saturating_sub(start);
    patch(out, at, length);
}

/// Appends what `body` writes, behind its length in two bytes.
pub(super) fn behind_length(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0, 0]);
    let start = out.len();
    body(out);
    let length = out.len().saturating_sub(start);
    patch(out, at, length);
}

fn patch(out: &mut [u8], at: usize, length: usize) {
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    if let Some(field) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = length.to_be_bytes();
    }
}

/// Appends what `body` writes, behind its length in one byte: at most 255 bytes.
pub(super) fn behind_byte(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    body(&mut inner);
    inner.truncate(u8::MAX.into());
    out.push(u8::try_from(inner.len()).unwrap_or(u8::MAX));
    out.extend(inner);
}

/// Appends a path attribute. Its length has two bytes only above 255 bytes.
pub(super) fn attribute(out: &mut Vec<u8>, flags: u8, kind: u8, value: &[u8]) {
    if let Ok(length) = u8::try_from(value.len()) {
        out.extend([flags, kind, length]);
    } else {
        out.extend([flags | EXTENDED_LENGTH, kind]);
        out.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
    }
    out.extend(value);
}
