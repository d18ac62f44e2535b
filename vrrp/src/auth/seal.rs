//! A trailer for other messages than adverts, signed with the same keys.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   Type (1)    |    Key id     |         Reserved (0)          |
//! +---------------+---------------+-------------------------------+
//! |          HMAC-SHA256, the first 128 bits (16 bytes)           |
//! ```
//!
//! The HMAC covers what it is for, the parts that are given, and the first four bytes of the trailer. What it is for
//! begins with a letter and an advert's pseudo header with 4 or 6: neither can pass for the other.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::AuthError;
use super::key::{Key, KeyId, Keyring};
use super::trailer::{HMAC_LENGTH, TYPE_HMAC_SHA256, write_hmac};

const HEAD_LENGTH: usize = 4;
/// Length of a seal.
pub const SEAL_LENGTH: usize = HEAD_LENGTH + HMAC_LENGTH;
/// Its bytes.
pub type Seal = [u8; SEAL_LENGTH];

/// Data that a seal covers. The lengths of the parts must follow from the parts themselves.
#[derive(Clone, Copy, Debug)]
pub struct SealedData<'a> {
    /// The protocol and its version, beginning with a letter.
    pub purpose: &'static str,
    /// Sender and receiver.
    pub path: &'a [u8],
    /// The message.
    pub message: &'a [u8],
}

impl Keyring {
    /// The seal of a message, by the key that signs.
    pub fn seal(&self, data: SealedData<'_>) -> Seal {
        let (id, key) = self.signing();
        let mut seal = [0; SEAL_LENGTH];
        let (head, hmac) = seal.split_at_mut(HEAD_LENGTH);
        head.copy_from_slice(&[TYPE_HMAC_SHA256, id.get(), 0, 0]);
        write_hmac(hmac_over(key, data, head), hmac);
        seal
    }

    /// The key by which a message was sealed, or why the seal does not hold. Compares in constant time.
    pub fn verify_seal(&self, data: SealedData<'_>, seal: &Seal) -> Result<KeyId, AuthError> {
        let &[kind, id, r1, r2, ..] = seal;
        let reserved = u16::from_be_bytes([r1, r2]);
        if kind != TYPE_HMAC_SHA256 || reserved != 0 {
            return Err(AuthError::Malformed { kind, reserved });
        }
        let (id, key) = self.get(id).ok_or(AuthError::UnknownKey(id))?;
        let (head, hmac) = seal.split_at(HEAD_LENGTH);
        match hmac_over(key, data, head).verify_truncated_left(hmac) {
            Ok(()) => Ok(id),
            Err(_) => Err(AuthError::InvalidHmac(id)),
        }
    }
}

fn hmac_over(key: &Key, SealedData { purpose, path, message }: SealedData<'_>, head: &[u8]) -> Hmac<Sha256> {
    let mut hmac = key.hmac();
    for part in [purpose.as_bytes(), path, message, head] {
        hmac.update(part);
    }
    hmac
}
