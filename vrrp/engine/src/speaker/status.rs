//! Status of the BGP speaker.

use std::fmt;
use std::net::IpAddr;

use windlass_bgp::State;
use windlass_bgp::session::{Counts, Negotiated};

/// A session of a peer. A peer that is a gateway has one for each.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub struct SessionId {
    /// Name of the peer.
    pub peer: String,
    /// Address of the peer.
    pub address: IpAddr,
    /// Interface by which it is reached; `None`: by route.
    pub interface: Option<String>,
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peer, address, interface } = self;
        let place = match interface {
            Some(interface) => format!("{address}%{interface}"),
            None => address.to_string(),
        };
        if *peer == place { f.write_str(&place) } else { write!(f, "{peer} ({place})") }
    }
}

/// A session as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SessionStatus {
    /// The session.
    pub id: SessionId,
    /// Its state.
    pub state: State,
    /// Own address of the connection.
    pub own: Option<IpAddr>,
    /// Properties that both sides agreed on.
    pub negotiated: Option<Negotiated>,
    /// Number of prefixes that the peer was sent.
    pub sent: usize,
    /// True if the TCP of the peer has acknowledged all desired routes.
    pub is_acknowledged: bool,
    /// Counts of messages received.
    pub counts: Counts,
    /// Reason of the last failure, until the session is Established.
    pub error: Option<String>,
}
