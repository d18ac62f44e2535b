//! Verifies adverts of others.

use std::net::IpAddr;

use super::key::{KeyId, Keyring};
use super::sequence::Sequence;
use super::trailer::{Parts, Subject, Trailer};
use super::{AntiReplay, AuthError, WallTime};

/// A believed advert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Verified {
    /// The key it was signed with.
    pub key: KeyId,
    /// Seconds its time is ahead of the own clock; negative if behind.
    pub skew: i32,
    /// Whether that is more than half of the window: the clocks should be synchronised before adverts are refused.
    pub drifting: bool,
}

/// Verifies the adverts that one virtual router receives, and remembers for each source the last sequence it took.
///
/// Only adverts with a valid HMAC are remembered, so that forged sources take no memory. Where a window applies, what is
/// outside it is forgotten: it orders only adverts that are stale anyway, and a sender whose clock was ahead and is right
/// again must be heard.
#[derive(Clone, Debug, Default)]
pub struct Verifier {
    /// The source heard last is last.
    marks: Vec<(IpAddr, Sequence)>,
}

impl Verifier {
    /// Most sources remembered; the one not heard for longest makes room. Each has been signed with the shared secret.
    pub const SOURCES: usize = 256;

    /// Believes an advert or says why not. Checked in the order format, key, window, HMAC, replay: a flood of old adverts
    /// costs no hashing, and nothing is remembered of what is forged.
    pub fn verify(
        &mut self,
        keyring: &Keyring,
        anti_replay: AntiReplay,
        subject: Subject<'_>,
        trailer: &Trailer,
        now: WallTime,
    ) -> Result<Verified, AuthError> {
        let parts = Parts::of(trailer);
        if !parts.well_formed() {
            return Err(AuthError::Malformed { kind: parts.kind, reserved: parts.reserved });
        }
        let (id, key) = keyring.get(parts.key).ok_or(AuthError::UnknownKey(parts.key))?;
        let skew = parts.sequence.ahead_of(now);
        let drifting = match anti_replay {
            AntiReplay::Monotonic => false,
            AntiReplay::Window(window) => {
                if !parts.sequence.within(window, now) {
                    return Err(AuthError::Stale { skew, window: window.seconds() });
                }
                skew.unsigned_abs() > u32::from(window.seconds() / 2)
            }
        };
        if !parts.holds(subject, key) {
            return Err(AuthError::InvalidHmac(id));
        }
        self.advance(subject.source, parts.sequence, anti_replay, now)?;
        Ok(Verified { key: id, skew, drifting })
    }

    /// Sources remembered.
    pub fn sources(&self) -> usize {
        self.marks.len()
    }

    fn advance(
        &mut self,
        source: IpAddr,
        sequence: Sequence,
        anti_replay: AntiReplay,
        now: WallTime,
    ) -> Result<(), AuthError> {
        match anti_replay {
            AntiReplay::Window(window) => self.marks.retain(|(_, mark)| mark.within(window, now)),
            AntiReplay::Monotonic => {}
        }
        if let Some(at) = self.marks.iter().position(|(known, _)| *known == source) {
            let mark = self.marks[at].1;
            if sequence.order(mark).is_le() {
                return Err(AuthError::Replay { sequence: sequence.bits(), mark: mark.bits() });
            }
            self.marks.remove(at);
        } else if self.marks.len() >= Self::SOURCES {
            self.marks.remove(0);
        }
        self.marks.push((source, sequence));
        Ok(())
    }
}
