//! Signs own adverts.

use super::key::Keyring;
use super::sequence::Sequence;
use super::trailer::{self, SignedData, Trailer};
use super::{AntiReplay, WallTime};

/// Bits of the counter that number adverts of one instant; those above number the times the clock was followed back.
const TIE: u16 = 0x0fff;

/// Signs the adverts of one virtual router with a sequence that grows.
///
/// The sequence is the clock's time, or the one after the last if the clock has not advanced. If the clock was set back by
/// more than the window, peers would refuse all further adverts as stale: then the sequence follows the clock, and four
/// bits of the counter change, so that no sequence is used a second time (up to 16 such steps).
/// Nothing is stored: after a restart the clock must be ahead of the last advert.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signer {
    last: Option<Sequence>,
    /// Times the clock was followed back.
    steps: u8,
}

impl Signer {
    /// The trailer for an advert. One trailer serves all copies of an advert: it does not depend on the destination.
    pub fn sign(
        &mut self,
        keyring: &Keyring,
        anti_replay: AntiReplay,
        data: SignedData<'_>,
        now: WallTime,
    ) -> Trailer {
        let sequence = self.next(anti_replay, now);
        self.last = Some(sequence);
        let (id, key) = keyring.signing();
        trailer::sign(data, id, key, sequence)
    }

    fn next(&mut self, anti_replay: AntiReplay, now: WallTime) -> Sequence {
        let Some(last) = self.last else { return self.first_at(now) };
        let clock = self.first_at(now);
        if clock.order(last).is_gt() {
            return clock;
        }
        match anti_replay {
            AntiReplay::Window(window) if last.ahead_of(now) > i32::from(window.seconds()) => {
                self.steps = self.steps.wrapping_add(1) & 0x0f;
                self.first_at(now)
            }
            AntiReplay::Window(_) | AntiReplay::Monotonic => {
                let tie = last.counter() & TIE;
                let first = clock.counter();
                if tie == TIE {
                    last.with_counter(first, true)
                } else {
                    last.with_counter(first | tie.wrapping_add(1), false)
                }
            }
        }
    }

    fn first_at(&self, now: WallTime) -> Sequence {
        Sequence::at(now, u16::from(self.steps) << 12)
    }
}
