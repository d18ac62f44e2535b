//! Control packets as bytes (RFC 5880 §4.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-----+---------+---+-----------+---------------+---------------+
//! | Vers|  Diag   |Sta|P|F|C|A|D|M|  Detect Mult  |    Length     |
//! +-----+---------+---+-----------+---------------+---------------+
//! |                       My Discriminator                        |
//! |                      Your Discriminator                       |
//! |                 Desired Min TX Interval (µs)                  |
//! |                 Required Min RX Interval (µs)                 |
//! |              Required Min Echo RX Interval (µs)               |
//! +---------------------------------------------------------------+
//! ```

use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};
use std::time::Duration;

use super::{Rejection, State};

/// Bytes of a packet without authentication.
pub const LENGTH: usize = 24;

const VERSION: u8 = 1;
const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const AUTHENTICATION: u8 = 0x04;
const MULTIPOINT: u8 = 0x01;

/// Reason of a session's last change to Down, 0 to 31.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Diagnostic(u8);

impl Diagnostic {
    /// None.
    pub const NONE: Self = Self(0);
    /// The peer was silent.
    pub const DETECTION_TIME_EXPIRED: Self = Self(1);
    /// The peer reported that the session is down.
    pub const NEIGHBOR_DOWN: Self = Self(3);
    /// An administrator took it down.
    pub const ADMINISTRATIVELY_DOWN: Self = Self(7);

    /// The number.
    pub fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            0 => "none",
            1 => "detection time expired",
            2 => "echo failed",
            3 => "neighbor signaled session down",
            4 => "forwarding plane reset",
            5 => "path down",
            6 => "concatenated path down",
            7 => "administratively down",
            8 => "reverse concatenated path down",
            _ => "unknown",
        };
        write!(f, "{name} ({})", self.0)
    }
}

/// Control packet. Echo, demand mode and authentication are neither sent nor kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Packet {
    /// Reason of the sender's last change to Down.
    pub diagnostic: Diagnostic,
    /// The sender's state.
    pub state: State,
    /// An answer is wanted immediately.
    pub is_poll: bool,
    /// It is that answer.
    pub is_final: bool,
    /// The sender's detection multiplier.
    pub multiplier: NonZeroU8,
    /// The sender's discriminator.
    pub my_discriminator: NonZeroU32,
    /// The receiver's discriminator, if the sender knows it.
    pub your_discriminator: Option<NonZeroU32>,
    /// Shortest interval at which the sender sends.
    pub desired_transmit: Duration,
    /// Shortest interval at which the sender takes packets; zero if it wants none.
    pub required_receive: Duration,
}

impl Packet {
    /// The packet as bytes.
    pub fn encode(&self) -> [u8; LENGTH] {
        let state = match self.state {
            State::AdminDown => 0,
            State::Down => 1,
            State::Init => 2,
            State::Up => 3,
        };
        let poll = if self.is_poll { POLL } else { 0 };
        let last = if self.is_final { FINAL } else { 0 };
        let head = [
            VERSION << 5 | self.diagnostic.0,
            state << 6 | poll | last,
            self.multiplier.get(),
            u8::try_from(LENGTH).unwrap_or(u8::MAX),
        ];
        let micros = |interval: Duration| u32::try_from(interval.as_micros()).unwrap_or(u32::MAX);
        let words = [
            u32::from_be_bytes(head),
            self.my_discriminator.get(),
            self.your_discriminator.map_or(0, NonZeroU32::get),
            micros(self.desired_transmit),
            micros(self.required_receive),
            0,
        ];
        let mut bytes = [0; LENGTH];
        bytes.as_chunks_mut().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_be_bytes());
        bytes
    }

    /// Decodes the payload of a datagram. The first check that fails names the reason.
    pub fn decode(payload: &[u8]) -> Result<Self, Rejection> {
        let truncated = Rejection::Truncated(payload.len());
        let (fixed, _) = payload.split_first_chunk::<LENGTH>().ok_or(truncated)?;
        let (&[head, my, your, transmit, receive, _echo], _) =
            fixed.as_chunks::<4>().0.split_first_chunk::<6>().ok_or(truncated)?;
        let [version, flags, multiplier, length] = head;
        if version >> 5 != VERSION {
            return Err(Rejection::Version(version >> 5));
        }
        let shortest = if flags & AUTHENTICATION == 0 { LENGTH } else { const { LENGTH + 2 } };
        if usize::from(length) < shortest {
            return Err(Rejection::Length(length));
        }
        if usize::from(length) > payload.len() {
            return Err(truncated);
        }
        let multiplier = NonZeroU8::new(multiplier).ok_or(Rejection::ZeroMultiplier)?;
        if flags & MULTIPOINT != 0 {
            return Err(Rejection::Multipoint);
        }
        let discriminator = |bytes| NonZeroU32::new(u32::from_be_bytes(bytes));
        let my_discriminator = discriminator(my).ok_or(Rejection::ZeroDiscriminator)?;
        let state = match flags >> 6 {
            0 => State::AdminDown,
            1 => State::Down,
            2 => State::Init,
            _ => State::Up,
        };
        let your_discriminator = discriminator(your);
        match (state, your_discriminator) {
            (State::Init | State::Up, None) => return Err(Rejection::NoSession),
            (State::Init | State::Up, Some(_)) | (State::AdminDown | State::Down, _) => {}
        }
        if flags & AUTHENTICATION != 0 {
            return Err(Rejection::Authenticated);
        }
        let interval = |bytes| Duration::from_micros(u32::from_be_bytes(bytes).into());
        Ok(Self {
            diagnostic: Diagnostic(version & 0x1f),
            state,
            is_poll: flags & POLL != 0,
            is_final: flags & FINAL != 0,
            multiplier,
            my_discriminator,
            your_discriminator,
            desired_transmit: interval(transmit),
            required_receive: interval(receive),
        })
    }
}
