//! Takes values off the front of an input.

/// The rest of an input.
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte, if there is one.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next `N` bytes, if there are as many.
    pub fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next two bytes as a number.
    pub fn short(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_be_bytes)
    }

    /// The next four bytes as a number.
    pub fn word(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    /// The next `length` bytes, or what is left if that is less.
    pub fn at_most(&mut self, length: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        first
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
