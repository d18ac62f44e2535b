//! Bytes that the connection has not taken yet: at most one UPDATE, and messages without routes.

use crate::units::Time;

/// Queue of bytes, and the end of the peer's time to take some (RFC 9687).
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    taken: usize,
    pub(super) deadline: Option<Time>,
}

impl Outbox {
    /// The end of the queue, to append a message.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn pending(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending().is_empty()
    }

    /// Removes `count` bytes at the front.
    pub(super) fn take(&mut self, count: usize) {
        self.taken = self.taken.saturating_add(count);
        if self.is_empty() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
        self.deadline = None;
    }
}
