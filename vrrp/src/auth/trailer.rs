//! The trailer's bytes, and what its HMAC covers.

use std::net::IpAddr;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::key::{Key, KeyId};
use super::sequence::Sequence;
use crate::units::Vrid;

/// Length of a trailer.
pub const TRAILER_LENGTH: usize = 28;
/// Its bytes.
pub type Trailer = [u8; TRAILER_LENGTH];

/// HMAC-SHA256 cut to 128 bits.
pub(super) const TYPE_HMAC_SHA256: u8 = 1;
pub(super) const HMAC_LENGTH: usize = 16;
/// Length of the fields before the HMAC.
const HEAD_LENGTH: usize = TRAILER_LENGTH - HMAC_LENGTH;

/// Data that a trailer signs.
#[derive(Clone, Copy, Debug)]
pub struct SignedData<'a> {
    /// Source address of the datagram.
    pub source: IpAddr,
    /// The virtual router that sends or receives it.
    pub vrid: Vrid,
    /// The VRRP message, without IP header and trailer. Its checksum does not matter.
    pub message: &'a [u8],
}

/// A trailer read, its HMAC not yet verified.
pub(super) struct ParsedTrailer<'a> {
    pub(super) kind: u8,
    pub(super) key: u8,
    pub(super) reserved: u16,
    pub(super) sequence: Sequence,
    head: &'a [u8],
    hmac: &'a [u8],
}

impl<'a> ParsedTrailer<'a> {
    pub(super) fn parse(trailer: &'a Trailer) -> Self {
        let &[kind, key, r1, r2, s1, s2, s3, s4, s5, s6, s7, s8, ..] = trailer;
        let (head, hmac) = trailer.split_at(HEAD_LENGTH);
        Self {
            kind,
            key,
            reserved: u16::from_be_bytes([r1, r2]),
            sequence: Sequence::from_bits(u64::from_be_bytes([s1, s2, s3, s4, s5, s6, s7, s8])),
            head,
            hmac,
        }
    }

    pub(super) fn well_formed(&self) -> bool {
        self.kind == TYPE_HMAC_SHA256 && self.reserved == 0
    }

    /// Compares in constant time.
    pub(super) fn verify(&self, data: SignedData<'_>, key: &Key) -> bool {
        hmac_over(key, data, self.head).verify_truncated_left(self.hmac).is_ok()
    }
}

/// The signed trailer of an advert.
pub(super) fn sign(data: SignedData<'_>, id: KeyId, key: &Key, sequence: Sequence) -> Trailer {
    let mut trailer = [0; TRAILER_LENGTH];
    let (head, hmac) = trailer.split_at_mut(HEAD_LENGTH);
    let [s1, s2, s3, s4, s5, s6, s7, s8] = sequence.bits().to_be_bytes();
    head.copy_from_slice(&[TYPE_HMAC_SHA256, id.get(), 0, 0, s1, s2, s3, s4, s5, s6, s7, s8]);
    write_hmac(hmac_over(key, data, head), hmac);
    trailer
}

/// Writes the first bytes of an HMAC, as many as there is room for.
pub(super) fn write_hmac(hmac: Hmac<Sha256>, room: &mut [u8]) {
    for (byte, computed) in room.iter_mut().zip(hmac.finalize().into_bytes()) {
        *byte = computed;
    }
}

/// The HMAC over pseudo header, message and trailer. Checksum and HMAC count as zeros.
fn hmac_over(key: &Key, SignedData { source, vrid, message }: SignedData<'_>, head: &[u8]) -> Hmac<Sha256> {
    let mut pseudo = [0; 20];
    let version = message.first().map_or(0, |version_type| version_type >> 4);
    let family = match source {
        IpAddr::V4(address) => {
            pseudo[4..8].copy_from_slice(&address.octets());
            4
        }
        IpAddr::V6(address) => {
            pseudo[4..].copy_from_slice(&address.octets());
            6
        }
    };
    pseudo[..4].copy_from_slice(&[family, version, vrid.get(), 0]);
    let (before, rest) = message.split_at(message.len().min(6));
    let (checksum, after) = rest.split_at(rest.len().min(2));
    let mut hmac = key.hmac();
    hmac.update(&pseudo);
    hmac.update(before);
    for _ in checksum {
        hmac.update(&[0]);
    }
    hmac.update(after);
    hmac.update(head);
    hmac.update(&[0; HMAC_LENGTH]);
    hmac
}
