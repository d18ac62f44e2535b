//! Outputs of a session.

use std::fmt;

use super::config::Negotiated;
use crate::wire::Notification;

/// State of a session (RFC 4271 §8.2.2). Active is not among them: a speaker that listens nowhere waits in Idle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Without connection: stopped, or waiting for the next attempt.
    Idle,
    /// TCP connects.
    Connect,
    /// OPEN is sent.
    OpenSent,
    /// The peer's OPEN is accepted.
    OpenConfirm,
    /// Routes are sent.
    Established,
}

impl State {
    /// Name as in RFC 4271.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "Idle",
            Self::Connect => "Connect",
            Self::OpenSent => "OpenSent",
            Self::OpenConfirm => "OpenConfirm",
            Self::Established => "Established",
        }
    }

    /// Returns true if messages of the peer are expected.
    pub(super) fn is_connected(self) -> bool {
        match self {
            Self::Idle | Self::Connect => false,
            Self::OpenSent | Self::OpenConfirm | Self::Established => true,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something the driver must do or may report, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Open a TCP connection.
    Dial,
    /// Close the connection, or give the attempt up; no more is reported of it. With `reset`, discard what the kernel has not sent.
    Close {
        /// True if the peer does not take what is left.
        reset: bool,
    },
    /// The session is Established.
    Established(Negotiated),
    /// The session or the attempt has failed or ended.
    Down(DownReason),
    /// The peer has acknowledged all desired routes.
    RoutesAcknowledged,
}

/// Reason why there is no session.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownReason {
    /// No TCP connection came about. A wrong MD5 key looks the same.
    #[error("no TCP connection within 5 s, or it was refused")]
    ConnectFailed,
    /// The connection ended without NOTIFICATION.
    #[error("the connection was closed without a NOTIFICATION")]
    ConnectionClosed,
    /// The driver stopped the session before there was a connection.
    #[error("stopped")]
    Stopped,
    /// This side closed it.
    #[error("sent: {0}")]
    Sent(Notification),
    /// The peer closed it.
    #[error("received: {0}")]
    Received(Notification),
}
