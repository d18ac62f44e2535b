//! UPDATE of the peer: its form is judged, its routes are counted and not kept.

use super::reader::Reader;
use super::{ErrorCode, Notification, decode_family};
use crate::units::Family;

const MP_REACH: u8 = 14;
const MP_UNREACH: u8 = 15;
const EXTENDED_LENGTH: u8 = 0x10;

/// Counts of an UPDATE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceivedUpdate {
    /// Prefixes that it announces.
    pub announced: u32,
    /// Prefixes that it withdraws.
    pub withdrawn: u32,
    /// True if an attribute or a prefix overruns its place. RFC 7606 treats such routes as withdrawn, which is nothing to a speaker that
    /// keeps none.
    pub malformed: bool,
}

impl ReceivedUpdate {
    /// Only lengths that do not fit the message end the session (RFC 7606 §3).
    pub(super) fn decode(body: &[u8]) -> Result<Self, Notification> {
        let mut reader = Reader::new(body);
        let mut part = || reader.short().and_then(|length| reader.part(length));
        let (withdrawn, attributes) = part().zip(part()).ok_or(ErrorCode::MALFORMED_ATTRIBUTES)?;
        let mut update = Self::default();
        update.withdrawn = update.count(withdrawn, Family::V4);
        update.announced = update.count(reader, Family::V4);
        update.malformed |= update.walk(attributes).is_none();
        Ok(update)
    }

    /// Counts the prefixes of attributes; `None` if one overruns its place.
    fn walk(&mut self, mut attributes: Reader<'_>) -> Option<()> {
        while !attributes.is_empty() {
            let (flags, kind) = attributes.byte().zip(attributes.byte())?;
            let length =
                if flags & EXTENDED_LENGTH == 0 { attributes.byte()?.into() } else { attributes.short()? };
            let value = attributes.part(length)?;
            match kind {
                MP_REACH => self.announced = self.announced.saturating_add(self.reachable(value)?),
                MP_UNREACH => self.withdrawn = self.withdrawn.saturating_add(self.unreachable(value)?),
                _ => {}
            }
        }
        Some(())
    }

    fn reachable(&mut self, mut value: Reader<'_>) -> Option<u32> {
        let family = family(&mut value)?;
        let next_hop = value.byte()?;
        value.part(next_hop)?;
        value.byte()?;
        Some(family.map_or(0, |family| self.count(value, family)))
    }

    fn unreachable(&mut self, mut value: Reader<'_>) -> Option<u32> {
        let family = family(&mut value)?;
        Some(family.map_or(0, |family| self.count(value, family)))
    }

    fn count(&mut self, mut prefixes: Reader<'_>, family: Family) -> u32 {
        let mut count = 0_u32;
        while let Some(bits) = prefixes.byte() {
            if bits > family.bits() || prefixes.part(bits.div_ceil(8)).is_none() {
                self.malformed = true;
                break;
            }
            count = count.saturating_add(1);
        }
        count
    }
}

/// Takes AFI and SAFI; the inner value is `None` for a family that the speaker does not know.
#[expect(clippy::option_option, reason = "missing and unknown differ")]
fn family(value: &mut Reader<'_>) -> Option<Option<Family>> {
    let [high, low, safi] = value.bytes()?;
    Some(decode_family(&mut Reader::new(&[high, low, 0, safi])))
}
