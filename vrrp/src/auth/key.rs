//! Secrets and the ring that holds them.

use std::fmt;
use std::num::NonZeroU8;
use std::str::FromStr;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Number by which a trailer names its key, 1 to 255.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyId(NonZeroU8);

impl KeyId {
    /// The id `value`, refused if 0.
    pub fn new(value: u8) -> Result<Self, InvalidKey> {
        NonZeroU8::new(value).map(Self).ok_or(InvalidKey::Id)
    }

    /// The number.
    pub fn get(self) -> u8 {
        self.0.get()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key or keyring that cannot be. No message contains a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// Id 0.
    #[error("key id 0 is out of range: use 1 to 255")]
    Id,
    /// Not 32 to 64 bytes.
    #[error("the key is {0} bytes long: use 32 to 64 random bytes, for example 'openssl rand -hex 32'")]
    Length(usize),
    /// Not hexadecimal after `hex:`.
    #[error("the key is not hexadecimal at digit {0}: write 'hex:' and 64 to 128 digits")]
    Hex(usize),
    /// Two keys with one id.
    #[error("two keys have the id {0}: give each its own")]
    Duplicate(KeyId),
}

/// A shared secret of 32 to 64 bytes.
///
/// Keeps the state of the HMAC after the secret, not the secret; the state is overwritten when it is dropped.
#[derive(Clone)]
pub struct Key {
    keyed: Hmac<Sha256>,
    /// Tells keys apart without the secret.
    fingerprint: [u8; 32],
}

impl Key {
    /// Shortest secret: 128 bits of strength even against a quantum search.
    pub const MIN: usize = 32;
    /// Longest secret: HMAC would hash a longer one.
    pub const MAX: usize = 64;

    /// The key of these bytes.
    pub fn new(secret: &[u8]) -> Result<Self, InvalidKey> {
        let length = InvalidKey::Length(secret.len());
        if !(Self::MIN..=Self::MAX).contains(&secret.len()) {
            return Err(length);
        }
        let keyed = Hmac::new_from_slice(secret).map_err(|_| length)?;
        let fingerprint = Hmac::finalize(Hmac::chain_update(keyed.clone(), b"windlass key fingerprint"));
        Ok(Self { keyed, fingerprint: fingerprint.into_bytes().into() })
    }

    /// Sixteen digits that are the same on two nodes if the secret is, and reveal nothing else about it.
    pub fn fingerprint(&self) -> String {
        let first = self.fingerprint.first_chunk().copied().unwrap_or_default();
        format!("{:016x}", u64::from_be_bytes(first))
    }

    /// An HMAC that the secret has already gone into.
    pub(super) fn hmac(&self) -> Hmac<Sha256> {
        self.keyed.clone()
    }
}

/// As in `keepalived.conf`: `hex:` and digits, or the text itself; white space around is not part of it.
impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let text = text.trim();
        let Some(digits) = text.strip_prefix("hex:") else { return Self::new(text.as_bytes()) };
        let mut secret = [0; Self::MAX];
        let length = InvalidKey::Length(digits.len().div_ceil(2));
        for (at, digit) in digits.bytes().enumerate() {
            let value = char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
            let byte = secret.get_mut(at / 2).ok_or(length)?;
            *byte = *byte << 4 | value.ok_or(InvalidKey::Hex(at))?;
        }
        if !digits.len().is_multiple_of(2) {
            return Err(InvalidKey::Hex(digits.len()));
        }
        Self::new(secret.get(..digits.len() / 2).ok_or(length)?)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.fingerprint())
    }
}

/// Keys by id: one signs, all verify. To change a secret, add the new key everywhere, then sign with it everywhere, then
/// remove the old one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keyring {
    signing: (KeyId, Key),
    others: Vec<(KeyId, Key)>,
}

impl Keyring {
    /// A ring of the key that signs.
    pub fn new(id: KeyId, key: Key) -> Self {
        Self { signing: (id, key), others: Vec::new() }
    }

    /// Adds a key that only verifies.
    pub fn with(mut self, id: KeyId, key: Key) -> Result<Self, InvalidKey> {
        if self.get(id.get()).is_some() {
            return Err(InvalidKey::Duplicate(id));
        }
        self.others.push((id, key));
        Ok(self)
    }

    /// The key that signs.
    pub fn signing(&self) -> (KeyId, &Key) {
        (self.signing.0, &self.signing.1)
    }

    /// The key with this id.
    pub fn get(&self, id: u8) -> Option<(KeyId, &Key)> {
        let all = std::iter::once(&self.signing).chain(&self.others);
        all.map(|(known, key)| (*known, key)).find(|(known, _)| known.get() == id)
    }
}
