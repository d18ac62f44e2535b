//! The only source of chance: a sequence of a seed that the driver gives, the same on every machine.

use std::time::Duration;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, or 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.roll().checked_rem(limit).unwrap_or(0)
    }

    /// `duration` shortened to between `least` and `most` per cent of it.
    pub fn jitter(&mut self, duration: Duration, least: u32, most: u32) -> Duration {
        let part = |percent| duration.saturating_mul(percent).checked_div(100).unwrap_or_default();
        let (shortest, longest) = (part(least), part(most));
        let range = longest.saturating_sub(shortest).as_nanos();
        let range = u64::try_from(range).unwrap_or(u64::MAX).saturating_add(1);
        shortest.saturating_add(Duration::from_nanos(self.below(range)))
    }
}
