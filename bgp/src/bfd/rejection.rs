//! Reasons to drop a packet.

/// Reason to drop a received packet (RFC 5880 §6.8.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// Shorter than a packet without authentication, or than its length field.
    #[error("{0} bytes, fewer than a BFD packet has: it was cut on the way")]
    Truncated(usize),
    /// Another version.
    #[error("BFD version {0}, 1 expected")]
    Version(u8),
    /// A length field below 24, or 26 with authentication.
    #[error("length field {0} is too small")]
    Length(u8),
    /// Detection multiplier 0.
    #[error("detection multiplier 0, 1 to 255 expected")]
    ZeroMultiplier,
    /// The multipoint bit is set.
    #[error("multipoint packet, which no session here takes")]
    Multipoint,
    /// My Discriminator is 0.
    #[error("sender's discriminator 0")]
    ZeroDiscriminator,
    /// Your Discriminator is 0 though the sender has received packets.
    #[error("the sender is in Init or Up and names no session")]
    NoSession,
    /// The sender uses authentication.
    #[error("authenticated packet: turn BFD authentication off at the peer")]
    Authenticated,
    /// Your Discriminator is that of no session, or of another.
    #[error("the sender names another session")]
    UnknownSession,
}

impl Rejection {
    /// Names of the reasons, for metrics.
    pub const LABELS: [&'static str; 9] = [
        "truncated",
        "version",
        "length",
        "zero_multiplier",
        "multipoint",
        "zero_discriminator",
        "no_session",
        "authenticated",
        "unknown_session",
    ];

    /// Position of the reason in [`Rejection::LABELS`], for tables of counters.
    pub fn index(self) -> usize {
        match self {
            Self::Truncated(_) => 0,
            Self::Version(_) => 1,
            Self::Length(_) => 2,
            Self::ZeroMultiplier => 3,
            Self::Multipoint => 4,
            Self::ZeroDiscriminator => 5,
            Self::NoSession => 6,
            Self::Authenticated => 7,
            Self::UnknownSession => 8,
        }
    }
}
