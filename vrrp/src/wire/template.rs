//! Adverts that are built once and signed whenever they are sent.

use super::checksum::ChecksumInput;
use super::{Advert, Checksum, Path, ip};
use crate::auth::{SignedData, TRAILER_LENGTH, Trailer};
use crate::units::{Family, Version, Vrid};

/// An advert's datagram with room for its trailer. Two adverts never have the same trailer, so it cannot be built whole;
/// signing allocates nothing.
#[derive(Clone, Debug)]
pub struct AdvertTemplate {
    bytes: Vec<u8>,
    /// Offset of the message.
    start: usize,
    /// Offset of its end and of the trailer.
    end: usize,
    path: Path,
    vrid: Vrid,
}

impl AdvertTemplate {
    /// The template of an advert, behind these bytes: a link-layer header or nothing.
    pub fn new(advert: &Advert, version: Version, checksum: Checksum, lead: &[u8]) -> Self {
        let header = match advert.path.family() {
            Family::V4 => ip::IPV4_HEADER_LENGTH,
            Family::V6 => ip::IPV6_HEADER_LENGTH,
        };
        let datagram = advert.signed_datagram(version, checksum, |_| Some([0; TRAILER_LENGTH]));
        let bytes = [lead, &datagram].concat();
        let (start, end) = (lead.len().saturating_add(header), bytes.len().saturating_sub(TRAILER_LENGTH));
        Self { bytes, start, end, path: advert.path, vrid: advert.vrid }
    }

    /// The datagram with the trailer that `sign` gives for it; `None` if it gives none.
    pub fn sign(&mut self, sign: impl FnOnce(SignedData<'_>) -> Option<Trailer>) -> Option<&[u8]> {
        let (source, destination) = (self.path.source(), self.path.destination());
        let (unsigned, room) = self.bytes.split_at_mut(self.end);
        let message = unsigned.get(self.start..)?;
        room.copy_from_slice(&sign(SignedData { source, vrid: self.vrid, message })?);
        match self.path.family() {
            // Its checksum does not cover the trailer.
            Family::V4 => {}
            Family::V6 => {
                let payload = self.bytes.get_mut(self.start..)?;
                ChecksumInput::write(0, payload);
                let sum = ChecksumInput { message: payload, source, destination }.compute(true);
                ChecksumInput::write(sum, payload);
            }
        }
        Some(&self.bytes)
    }
}
