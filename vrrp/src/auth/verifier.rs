//! Verifies adverts of others.

use std::net::IpAddr;

use super::key::{KeyId, Keyring};
use super::sequence::Sequence;
use super::trailer::{ParsedTrailer, SignedData, Trailer};
use super::{AntiReplay, AuthError, WallTime};

/// An accepted advert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct VerifiedAdvert {
    /// The key it was signed with.
    pub key: KeyId,
    /// Seconds its time is ahead of the own clock; negative if behind.
    pub skew: i32,
    /// True if the skew exceeds half of the window: the clocks should be synchronised before adverts are refused.
    pub drifting: bool,
}

/// Verifies the adverts that one virtual router receives, and records the last accepted sequence of each source.
///
/// Only adverts with a valid HMAC are recorded, so that forged sources take no memory. With a window, sequences outside it are
/// removed: they order only adverts that are stale anyway, and a sender whose clock was ahead and is right again must be accepted.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    /// The source accepted last is last.
    last_sequences: Vec<(IpAddr, Sequence)>,
}

impl Verifier {
    /// Most sources recorded; the one accepted longest ago makes room. Each has signed with the shared secret.
    pub const SOURCES: usize = 256;

    /// Accepts an advert or returns the reason against it. Checks format, key, window, HMAC and replay in this order: a flood of old
    /// adverts costs no hashing, and forged adverts leave no record.
    pub fn verify(
        &mut self,
        keyring: &Keyring,
        anti_replay: AntiReplay,
        data: SignedData<'_>,
        trailer: &Trailer,
        now: WallTime,
    ) -> Result<VerifiedAdvert, AuthError> {
        let parsed = ParsedTrailer::parse(trailer);
        if !parsed.well_formed() {
            return Err(AuthError::Malformed { kind: parsed.kind, reserved: parsed.reserved });
        }
        let (id, key) = keyring.get(parsed.key).ok_or(AuthError::UnknownKey(parsed.key))?;
        let skew = parsed.sequence.ahead_of(now);
        let drifting = match anti_replay {
            AntiReplay::Monotonic => false,
            AntiReplay::Window(window) => {
                if !parsed.sequence.within(window, now) {
                    return Err(AuthError::Stale { skew, window: window.seconds() });
                }
                skew.unsigned_abs() > u32::from(window.seconds() / 2)
            }
        };
        if !parsed.verify(data, key) {
            return Err(AuthError::InvalidHmac(id));
        }
        self.advance(data.source, parsed.sequence, anti_replay, now)?;
        Ok(VerifiedAdvert { key: id, skew, drifting })
    }

    /// Number of sources recorded.
    pub fn sources(&self) -> usize {
        self.last_sequences.len()
    }

    fn advance(
        &mut self,
        source: IpAddr,
        sequence: Sequence,
        anti_replay: AntiReplay,
        now: WallTime,
    ) -> Result<(), AuthError> {
        match anti_replay {
            AntiReplay::Window(window) => self.last_sequences.retain(|(_, last)| last.within(window, now)),
            AntiReplay::Monotonic => {}
        }
        let known = self.last_sequences.iter().enumerate().find(|(_, (known, _))| *known == source);
        if let Some((at, (_, last))) = known {
            if sequence.order(*last).is_le() {
                return Err(AuthError::Replay { sequence: sequence.bits(), last: last.bits() });
            }
            self.last_sequences.remove(at);
        } else if self.last_sequences.len() >= Self::SOURCES {
            self.last_sequences.remove(0);
        }
        self.last_sequences.push((source, sequence));
        Ok(())
    }
}
