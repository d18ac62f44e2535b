//! The LAN as a carrier of packets.

use std::time::Duration;

use super::random::Random;

/// Properties of the medium that carries packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "who simulates fills it in")]
pub struct Medium {
    /// Time every packet takes.
    pub latency: Duration,
    /// It takes up to this much longer, each packet by chance: packets closer together than this may swap places.
    pub jitter: Duration,
    /// Packets lost, in thousandths.
    pub loss: u64,
    /// Packets that arrive twice, in thousandths.
    pub duplicated: u64,
    /// Packets that are held back by up to [`Self::held_for`], in thousandths: later ones overtake them.
    pub held: u64,
    /// Longest time a packet is held back.
    pub held_for: Duration,
}

impl Medium {
    /// One that only takes its time.
    pub fn faultless(latency: Duration) -> Self {
        Self { latency, ..Self::default() }
    }

    /// The longest a packet can be under way.
    pub fn slowest(&self) -> Duration {
        self.latency + self.jitter + self.held_for
    }

    /// Returns the transit time of each copy of one packet: none if it is lost, two if it is duplicated.
    pub(super) fn carry(&self, random: &mut Random) -> impl Iterator<Item = Duration> + use<> {
        let copies =
            if random.chance(self.loss) { 0 } else { 1 + usize::from(random.chance(self.duplicated)) };
        let mut delays = [None; 2];
        for delay in delays.iter_mut().take(copies) {
            let held = if random.chance(self.held) { random.duration(self.held_for) } else { Duration::ZERO };
            *delay = Some(self.latency + random.duration(self.jitter) + held);
        }
        delays.into_iter().flatten()
    }
}
