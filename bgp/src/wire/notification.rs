//! NOTIFICATION: the reason why one side closes the connection (RFC 4271 §4.5, §6).

use std::fmt;

use super::reader::Reader;
use super::writer::{behind_byte, message};
use super::{HEADER_LENGTH, MAX_LENGTH, NOTIFICATION};

/// Most bytes of a shutdown communication (RFC 9003).
const MAX_TEXT: usize = 255;

/// Error code and subcode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ErrorCode(
    /// Code.
    pub u8,
    /// Subcode, 0 where there is none.
    pub u8,
);

/// Codes and subcodes with their names.
const NAMES: [(ErrorCode, &str); 40] = [
    (ErrorCode::NOT_SYNCHRONIZED, "message header: connection not synchronized"),
    (ErrorCode::BAD_LENGTH, "message header: bad message length"),
    (ErrorCode::BAD_TYPE, "message header: bad message type"),
    (ErrorCode::MALFORMED_OPEN, "OPEN: malformed"),
    (ErrorCode::UNSUPPORTED_VERSION, "OPEN: unsupported version number"),
    (ErrorCode::BAD_PEER_AS, "OPEN: bad peer AS"),
    (ErrorCode::BAD_IDENTIFIER, "OPEN: bad BGP identifier"),
    (ErrorCode::UNSUPPORTED_PARAMETER, "OPEN: unsupported optional parameter"),
    (ErrorCode(2, 5), "OPEN: authentication failure"),
    (ErrorCode::UNACCEPTABLE_HOLD_TIME, "OPEN: unacceptable hold time"),
    (ErrorCode::UNSUPPORTED_CAPABILITY, "OPEN: unsupported capability"),
    (ErrorCode(2, 11), "OPEN: role mismatch"),
    (ErrorCode::MALFORMED_ATTRIBUTES, "UPDATE: malformed attribute list"),
    (ErrorCode(3, 2), "UPDATE: unrecognized well-known attribute"),
    (ErrorCode(3, 3), "UPDATE: missing well-known attribute"),
    (ErrorCode(3, 4), "UPDATE: attribute flags error"),
    (ErrorCode(3, 5), "UPDATE: attribute length error"),
    (ErrorCode(3, 6), "UPDATE: invalid ORIGIN"),
    (ErrorCode(3, 8), "UPDATE: invalid NEXT_HOP"),
    (ErrorCode(3, 9), "UPDATE: optional attribute error"),
    (ErrorCode(3, 10), "UPDATE: invalid network field"),
    (ErrorCode(3, 11), "UPDATE: malformed AS_PATH"),
    (ErrorCode::HOLD_TIMER_EXPIRED, "hold timer expired"),
    (ErrorCode(5, 0), "state machine: unexpected message"),
    (ErrorCode::UNEXPECTED_IN_OPEN_SENT, "state machine: unexpected message in OpenSent"),
    (ErrorCode::UNEXPECTED_IN_OPEN_CONFIRM, "state machine: unexpected message in OpenConfirm"),
    (ErrorCode::UNEXPECTED_IN_ESTABLISHED, "state machine: unexpected message in Established"),
    (ErrorCode(6, 0), "cease: no reason given"),
    (ErrorCode(6, 1), "cease: too many prefixes"),
    (ErrorCode::SHUTDOWN, "cease: administrative shutdown"),
    (ErrorCode::PEER_DECONFIGURED, "cease: peer deconfigured"),
    (ErrorCode::RESET, "cease: administrative reset"),
    (ErrorCode::CONNECTION_REJECTED, "cease: connection rejected"),
    (ErrorCode::CONFIGURATION_CHANGED, "cease: other configuration change"),
    (ErrorCode::CONNECTION_COLLISION, "cease: connection collision resolution"),
    (ErrorCode(6, 8), "cease: out of resources"),
    (ErrorCode::HARD_RESET, "cease: hard reset"),
    (ErrorCode::BFD_DOWN, "cease: BFD down"),
    (ErrorCode(7, 1), "ROUTE-REFRESH: invalid message length"),
    (ErrorCode::SEND_HOLD_TIMER_EXPIRED, "send hold timer expired"),
];

#[expect(missing_docs, reason = "NAMES has their meaning")]
impl ErrorCode {
    pub const NOT_SYNCHRONIZED: Self = Self(1, 1);
    pub const BAD_LENGTH: Self = Self(1, 2);
    pub const BAD_TYPE: Self = Self(1, 3);
    pub const MALFORMED_OPEN: Self = Self(2, 0);
    pub const UNSUPPORTED_VERSION: Self = Self(2, 1);
    pub const BAD_PEER_AS: Self = Self(2, 2);
    pub const BAD_IDENTIFIER: Self = Self(2, 3);
    pub const UNSUPPORTED_PARAMETER: Self = Self(2, 4);
    pub const UNACCEPTABLE_HOLD_TIME: Self = Self(2, 6);
    pub const UNSUPPORTED_CAPABILITY: Self = Self(2, 7);
    pub const MALFORMED_ATTRIBUTES: Self = Self(3, 1);
    pub const HOLD_TIMER_EXPIRED: Self = Self(4, 0);
    pub const UNEXPECTED_IN_OPEN_SENT: Self = Self(5, 1);
    pub const UNEXPECTED_IN_OPEN_CONFIRM: Self = Self(5, 2);
    pub const UNEXPECTED_IN_ESTABLISHED: Self = Self(5, 3);
    pub const SHUTDOWN: Self = Self(6, 2);
    pub const PEER_DECONFIGURED: Self = Self(6, 3);
    pub const RESET: Self = Self(6, 4);
    pub const CONNECTION_REJECTED: Self = Self(6, 5);
    pub const CONFIGURATION_CHANGED: Self = Self(6, 6);
    pub const CONNECTION_COLLISION: Self = Self(6, 7);
    pub const HARD_RESET: Self = Self(6, 9);
    pub const BFD_DOWN: Self = Self(6, 10);
    pub const SEND_HOLD_TIMER_EXPIRED: Self = Self(8, 0);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            NAMES.into_iter().find(|(error, _)| error == self).map_or("unknown error", |(_, name)| name);
        write!(f, "{name} ({}/{})", self.0, self.1)
    }
}

/// NOTIFICATION, sent or received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notification {
    /// The error.
    pub error: ErrorCode,
    /// Details; their form depends on the error.
    pub data: Vec<u8>,
}

impl From<ErrorCode> for Notification {
    fn from(error: ErrorCode) -> Self {
        Self { error, data: Vec::new() }
    }
}

impl Notification {
    /// An administrative shutdown with its reason (RFC 9003), of which the first 255 bytes are sent.
    pub fn shutdown(reason: &str) -> Self {
        let end = (0..=reason.len().min(MAX_TEXT)).rev().find(|end| reason.is_char_boundary(*end));
        let mut data = Vec::new();
        behind_byte(&mut data, |out| out.extend(reason.bytes().take(end.unwrap_or_default())));
        Self { error: ErrorCode::SHUTDOWN, data }
    }

    /// Reason of an administrative shutdown or reset, if there is one. Control characters are replaced.
    pub fn communication(&self) -> Option<String> {
        if ![ErrorCode::SHUTDOWN, ErrorCode::RESET].contains(&self.error) {
            return None;
        }
        let mut reader = Reader::new(&self.data);
        let length = reader.byte()?;
        let text = String::from_utf8_lossy(reader.part(length)?.rest()).into_owned();
        let shown = text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c });
        Some(shown.collect()).filter(|text: &String| !text.is_empty())
    }

    /// The error that a hard reset stands for (RFC 8538 §3.1), or else this one.
    #[must_use]
    pub fn unwrapped(&self) -> Self {
        match (self.error, &*self.data) {
            (ErrorCode::HARD_RESET, [code, subcode, data @ ..]) => {
                Self { error: ErrorCode(*code, *subcode), data: data.to_vec() }
            }
            _ => self.clone(),
        }
    }

    /// Appends the message. Data that do not fit are cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, NOTIFICATION, |out| {
            out.extend([self.error.0, self.error.1]);
            out.extend(self.data.iter().take(const { MAX_LENGTH - HEADER_LENGTH - 2 }));
        });
    }

    pub(super) fn decode(body: &[u8]) -> Self {
        match body {
            [code, subcode, data @ ..] => Self { error: ErrorCode(*code, *subcode), data: data.to_vec() },
            // `decode` of the module has judged the length.
            _ => ErrorCode(0, 0).into(),
        }
    }
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meant = self.unwrapped();
        meant.error.fmt(f)?;
        match meant.communication() {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Notification {}
