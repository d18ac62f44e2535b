//! Ethernet frames that this thread sends: ARP and neighbour discovery, built without the heap.

use std::fmt;

pub(super) use windlass_kernel::sockets::Mac;

/// Longest frame built: a neighbour advertisement with its link-layer address option.
pub(super) const MAX_FRAME_LENGTH: usize = 86;

/// A whole frame, Ethernet header included.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    bytes: [u8; MAX_FRAME_LENGTH],
    length: usize,
}

impl Frame {
    /// A frame of zeros of this length, at most [`MAX_FRAME_LENGTH`], with its Ethernet header.
    pub(super) fn new(length: usize, destination: Mac, source: Mac, ethertype: u16) -> Self {
        let mut frame = Self { bytes: [0; MAX_FRAME_LENGTH], length: length.min(MAX_FRAME_LENGTH) };
        frame.put(0, &destination);
        frame.put(6, &source);
        frame.put(12, &ethertype.to_be_bytes());
        frame
    }

    /// Writes `bytes` at this offset.
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// The frame as it goes on the wire.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
