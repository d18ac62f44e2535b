//! Takes values off the front of a message.

/// The rest of a message.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.bytes().map(|[byte]| byte)
    }

    pub(super) fn short(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    pub(super) fn word(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    /// Takes `length` bytes.
    pub(super) fn part(&mut self, length: impl Into<usize>) -> Option<Self> {
        let (first, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        Some(Self(first))
    }
}
