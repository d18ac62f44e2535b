//! Takes values off the front of a datagram.

use super::decode_error::DecodeError;

/// The rest of a datagram.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, whole: bytes.len() }
    }

    /// Returns the number of bytes left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let missing = N.saturating_sub(self.rest.len());
        let Some((first, rest)) = self.rest.split_first_chunk() else {
            return Err(DecodeError::Truncated {
                length: self.whole,
                wanted: self.whole.saturating_add(missing),
            });
        };
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        self.bytes().map(|[byte]| byte)
    }

    pub(super) fn short(&mut self) -> Result<u16, DecodeError> {
        self.bytes().map(u16::from_be_bytes)
    }

    pub(super) fn word(&mut self) -> Result<u32, DecodeError> {
        self.bytes().map(u32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<u64, DecodeError> {
        self.bytes().map(u64::from_be_bytes)
    }
}
