//! Messages between two nodes, signed where a key is set.

use std::net::IpAddr;

use super::decode_error::DecodeError;
use super::message::Message;
use super::wire::{FLAGS_AT, SIGNED, check_head};
use crate::auth::{AuthError, AuthMode, Keyring, SEAL_LENGTH, Seal, SealedData};

const PURPOSE: &str = "windlass connections 1";

/// Reason to refuse a datagram before a sender or receiver handles it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// None of this protocol.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Not proved to be a peer's.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

impl Refusal {
    /// Number of reasons, for tables of counters.
    pub const REASONS: usize = DecodeError::LABELS.len() + AuthError::LABELS.len();

    /// Position of the reason: those of [`DecodeError::LABELS`] first, then those of [`AuthError::LABELS`].
    pub fn index(self) -> usize {
        match self {
            Self::Decode(error) => error.index(),
            Self::Auth(error) => DecodeError::LABELS.len().saturating_add(error.index()),
        }
    }

    /// Short name of the reason, for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Decode(error) => error.label(),
            Self::Auth(error) => error.label(),
        }
    }
}

/// The two ends of a datagram's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Address of the node that sends it.
    pub from: IpAddr,
    /// Address of the node that receives it.
    pub to: IpAddr,
}

impl Way {
    /// Both addresses, 17 bytes each: family, address, zeros up to 16 bytes.
    fn bytes(self) -> [u8; 34] {
        let mut bytes = [0; 34];
        for (address, room) in [self.from, self.to].into_iter().zip(bytes.chunks_exact_mut(17)) {
            match address {
                IpAddr::V4(address) => {
                    room[0] = 4;
                    room[1..5].copy_from_slice(&address.octets());
                }
                IpAddr::V6(address) => {
                    room[0] = 6;
                    room[1..].copy_from_slice(&address.octets());
                }
            }
        }
        bytes
    }
}

/// Closes and opens datagrams. Without a key it neither signs nor verifies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Envelopes(Option<(Keyring, AuthMode)>);

impl Envelopes {
    /// Signs and verifies with these keys, as strictly as `mode` requires. `None`: authentication is off.
    pub fn new(keys: Option<(Keyring, AuthMode)>) -> Self {
        Self(keys)
    }

    /// The datagram of a message that [`super::Sender`] or [`super::Receiver`] wants sent. A message that goes a second time
    /// is signed a second time, with the same outcome unless the key was changed.
    pub fn close(&self, mut message: Vec<u8>, way: Way) -> Vec<u8> {
        if let Some((keyring, mode)) = &self.0
            && mode.signs()
            && let Some(flags) = message.get_mut(FLAGS_AT)
        {
            *flags |= SIGNED;
            let seal = keyring.seal(SealedData { purpose: PURPOSE, path: &way.bytes(), message: &message });
            message.extend(seal);
        }
        message
    }

    /// The message of a datagram that arrived. Checked in the order protocol and version, authentication, all else.
    pub fn open(&self, datagram: &[u8], way: Way) -> Result<Message, Refusal> {
        check_head(datagram)?;
        let truncated = DecodeError::Truncated { length: datagram.len(), wanted: FLAGS_AT + 1 };
        let signed = datagram.get(FLAGS_AT).ok_or(truncated)? & SIGNED != 0;
        if !signed {
            return match &self.0 {
                Some((_, mode)) if mode.requires() => Err(AuthError::Missing.into()),
                Some(_) | None => Ok(Message::decode(datagram)?),
            };
        }
        let wanted = FLAGS_AT + 1 + SEAL_LENGTH;
        let truncated = DecodeError::Truncated { length: datagram.len(), wanted };
        let (message, seal) = datagram.split_last_chunk::<SEAL_LENGTH>().ok_or(truncated)?;
        let seal: &Seal = seal;
        if let Some((keyring, _)) = &self.0 {
            keyring.verify_seal(SealedData { purpose: PURPOSE, path: &way.bytes(), message }, seal)?;
        }
        Ok(Message::decode(message)?)
    }
}
