//! The 64-bit sequence: when an advert was signed, and its number within that instant.

use std::cmp::Ordering;

use super::{WallTime, Window};

/// Seconds (32 bits), 1/65536 seconds (16 bits), counter (16 bits).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sequence(u64);

impl Sequence {
    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// The sequence of an instant with this counter. Seconds beyond 2106 wrap, which [`Self::order`] allows for.
    pub(super) fn at(now: WallTime, counter: u16) -> Self {
        let fraction = u64::from(now.0.subsec_nanos()) * 65536 / 1_000_000_000;
        Self(now.0.as_secs() << 32 | fraction << 16 | u64::from(counter))
    }

    pub(super) fn counter(self) -> u16 {
        u16::try_from(self.0 & 0xffff).unwrap_or(u16::MAX)
    }

    /// The same instant, or the next 1/65536 s, with another counter.
    pub(super) fn with_counter(self, counter: u16, next_instant: bool) -> Self {
        let instant = (self.0 >> 16).wrapping_add(u64::from(next_instant));
        Self(instant << 16 | u64::from(counter))
    }

    /// Order of serial numbers (RFC 1982): right as long as the two are less than 68 years apart.
    #[expect(clippy::cast_possible_wrap, reason = "the sign of the difference is the order")]
    pub(super) fn order(self, other: Self) -> Ordering {
        (self.0.wrapping_sub(other.0) as i64).cmp(&0)
    }

    /// Whole seconds that this sequence is ahead of the clock; negative if behind.
    #[expect(clippy::cast_possible_truncation, reason = "seconds on the wire are the lower 32 bits")]
    #[expect(clippy::cast_possible_wrap, reason = "the sign of the difference is the direction")]
    pub(super) fn ahead_of(self, now: WallTime) -> i32 {
        ((self.0 >> 32) as u32).wrapping_sub(now.0.as_secs() as u32) as i32
    }

    /// Returns true if its seconds differ from the clock's by at most the window.
    pub(super) fn within(self, window: Window, now: WallTime) -> bool {
        self.ahead_of(now).unsigned_abs() <= u32::from(window.seconds())
    }
}
