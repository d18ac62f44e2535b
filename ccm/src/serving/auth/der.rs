//! As much DER (ITU-T X.690) as a certificate's subject and validity need.

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The content of the value that `input` begins with, which must be of this tag; `input` is left behind it.
pub(super) fn take<'a>(input: &mut &'a [u8], tag: u8) -> Result<&'a [u8], &'static str> {
    let (found, content) = value(input)?;
    if found == tag { Ok(content) } else { Err("it is not built as RFC 5280 has it") }
}

/// Tag and content of the value that `input` begins with; `input` is left behind it.
pub(super) fn value<'a>(input: &mut &'a [u8]) -> Result<(u8, &'a [u8]), &'static str> {
    const SHORT: &str = "it ends too early";
    let (&tag, rest) = input.split_first().ok_or(SHORT)?;
    let (&first, rest) = rest.split_first().ok_or(SHORT)?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => rest.split_first().map(|(byte, rest)| (usize::from(*byte), rest)).ok_or(SHORT)?,
        0x82 => {
            let (bytes, rest) = rest.split_first_chunk::<2>().ok_or(SHORT)?;
            (usize::from(u16::from_be_bytes(*bytes)), rest)
        }
        _ => return Err("it is longer than 64 KiB"),
    };
    let (content, rest) = rest.split_at_checked(length).ok_or(SHORT)?;
    *input = rest;
    Ok((tag, content))
}
