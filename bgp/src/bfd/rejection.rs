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
