//! BGP sessions as they are shown: log lines, remedies and metrics. Pure.

use prometheus::proto::MetricFamily;
use windlass_common::samples::{counters, gauges};
use windlass_engine::bgp::{State, bfd};
use windlass_engine::{BfdSession, BfdStatus, SessionId, SessionStatus};

#[cfg(test)]
mod tests;

/// Parts of errors, and the remedy of each. The first that fits counts.
const REMEDIES: &[(&str, &str)] = &[
    ("Network is unreachable", "add a route to the router's address"),
    (
        "No route to host",
        "compare the router's address: it does not answer on the link, or a firewall refuses the connection",
    ),
    (
        "Connection refused",
        "compare the router's address and port: nothing listens there, or a firewall refuses the connection",
    ),
    ("no TCP connection", NO_CONNECTION),
    ("TCP: ", NO_CONNECTION),
    ("bad peer AS", "compare the AS numbers of both sides"),
    ("bad BGP identifier", "set another routerID: the router has this one"),
    ("unsupported capability", "activate the families of the virtual IPs for this neighbour on the router"),
    ("unacceptable hold time", "set another holdTimeSeconds"),
    ("not synchronized", "give the address and port of a BGP router: what answers there is none"),
    (
        "BFD down",
        "look for packet loss on the way, or a side that is overloaded; longer intervals of bfd tolerate more",
    ),
    ("hold timer expired", "look for packet loss on the way, or a side that is overloaded"),
    ("too many prefixes", "raise the router's limit of prefixes for this neighbour"),
    (
        "collision",
        "name each router once; beside another BGP program of this node, set a sourceAddress that it does not use",
    ),
    ("peer deconfigured", "configure this node as a neighbour on the router"),
    ("administrative shutdown", "enable this neighbour on the router"),
    ("Cannot assign", "set a sourceAddress that this node has"),
];
const NO_CONNECTION: &str = "configure this node as a neighbour on the router, let TCP port 179 pass, and compare passwords and \
    TTL security";
const NO_OPEN: &str = "look if a BGP router answers at this port, and has this node as a neighbour";
const OTHER: &str = "see the log of the router";

/// Returns a remedy for the error of a session.
pub(crate) fn remedy(error: &str) -> &'static str {
    REMEDIES.iter().find(|(part, _)| error.contains(part)).map_or(OTHER, |(_, remedy)| remedy)
}

/// Describes a session that is not Established.
pub(crate) fn problem(session: &SessionStatus) -> String {
    let SessionStatus { id, state, error, .. } = session;
    match (error, state) {
        (Some(error), _) => format!("BGP session with {id} is {state}: {error}. Remedy: {}", remedy(error)),
        (None, State::OpenSent) => {
            format!(
                "BGP session with {id} is {state}: the router has taken the connection and sent no OPEN yet. Remedy: {NO_OPEN}"
            )
        }
        (None, State::Idle | State::Connect | State::OpenConfirm | State::Established) => {
            format!("BGP session with {id} is {state}: it was just started")
        }
    }
}

/// Returns the metrics of these sessions, and of BFD.
pub(crate) fn families(sessions: &[SessionStatus], detection: &BfdStatus) -> Vec<MetricFamily> {
    const SESSION: [&str; 2] = ["peer", "address"];
    let labels = |id: &SessionId| [id.peer.clone(), id.address.to_string()];
    let of_sessions = |read: fn(&SessionStatus) -> u64| {
        sessions.iter().map(move |session| (labels(&session.id), read(session)))
    };
    let of_bfd = |read: fn(&BfdSession) -> u64| {
        detection.sessions.iter().map(move |(id, session)| (labels(id), read(session)))
    };
    vec![
        gauges(
            "windlass_bgp_session_state",
            "State of the BGP session: 1 Idle, 2 Connect, 4 OpenSent, 5 OpenConfirm, 6 Established (RFC 4273)",
            SESSION,
            of_sessions(|session| number(session.state)),
        ),
        gauges(
            "windlass_bgp_prefixes_sent",
            "Routes that the BGP peer has",
            SESSION,
            of_sessions(|session| u64::try_from(session.sent).unwrap_or(u64::MAX)),
        ),
        gauges(
            "windlass_bgp_acknowledged",
            "1 while the BGP peer has acknowledged all routes",
            SESSION,
            of_sessions(|session| session.is_acknowledged.into()),
        ),
        counters(
            "windlass_bgp_prefixes_received_total",
            "Routes that the BGP peer announced; they are ignored",
            SESSION,
            of_sessions(|session| session.counts.announced),
        ),
        counters(
            "windlass_bgp_malformed_updates_total",
            "UPDATE messages of the BGP peer with a broken attribute or prefix",
            SESSION,
            of_sessions(|session| session.counts.malformed),
        ),
        gauges(
            "windlass_bfd_up",
            "1 while BFD with the BGP peer is Up",
            SESSION,
            of_bfd(|session| (session.state == bfd::State::Up).into()),
        ),
        counters(
            "windlass_bfd_flaps_total",
            "Times that BFD with the BGP peer went from Up to Down",
            SESSION,
            of_bfd(|session| session.flaps),
        ),
        counters(
            "windlass_bfd_dropped_packets_total",
            "BFD packets dropped, by reason; filtered: by the kernel, as of no session",
            ["reason"],
            detection.dropped.iter().map(|(reason, count)| ([(*reason).to_owned()], *count)),
        ),
    ]
}

/// Number of a state in RFC 4273 (bgpPeerState).
fn number(state: State) -> u64 {
    match state {
        State::Idle => 1,
        State::Connect => 2,
        State::OpenSent => 4,
        State::OpenConfirm => 5,
        State::Established => 6,
    }
}
