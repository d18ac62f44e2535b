//! Settings of BFD with a BGP peer.

use std::time::Duration;

use windlass_bgp::bfd::Config;

/// Shortest interval that this node can be relied on to keep, with real-time scheduling.
const SHORTEST: Duration = Duration::from_millis(50);
/// Shortest interval at all.
const SHORTEST_FAST: Duration = Duration::from_millis(10);
/// Longest interval.
const LONGEST: Duration = Duration::from_mins(1);

/// Location of a peer, as BFD distinguishes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "made by the user")]
pub enum BfdPath {
    /// On the link (RFC 5881): UDP port 3784, TTL 255 both ways.
    SingleHop,
    /// Beyond routers (RFC 5883): UDP port 4784.
    Multihop {
        /// Smallest TTL or hop limit of the peer's packets: 255 minus the number of routers between.
        minimum_ttl: u8,
    },
}

/// Settings of BFD with a peer. The timers may change while it runs, the path makes another session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BfdConfig {
    pub(super) timers: Config,
    pub(super) path: BfdPath,
}

/// An interval that BFD does not run with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("BFD interval of {interval:?}: use {shortest:?} to 1 min")]
pub struct InvalidBfdConfig {
    interval: Duration,
    shortest: Duration,
}

impl BfdConfig {
    /// Settings with intervals of 50 ms to 1 min. Below 300 ms they need real-time scheduling
    /// ([`Options::realtime`](crate::Options::realtime)).
    pub fn new(timers: Config, path: BfdPath) -> Result<Self, InvalidBfdConfig> {
        Self::checked(timers, path, SHORTEST)
    }

    /// The same with intervals from 10 ms on: a busy machine may fail to keep them, and the peer then ends the session.
    pub fn fast(timers: Config, path: BfdPath) -> Result<Self, InvalidBfdConfig> {
        Self::checked(timers, path, SHORTEST_FAST)
    }

    fn checked(timers: Config, path: BfdPath, shortest: Duration) -> Result<Self, InvalidBfdConfig> {
        let wrong = [timers.transmit, timers.receive].into_iter().find(|interval| {
            let range = shortest..=LONGEST;
            !range.contains(interval)
        });
        wrong.map_or(Ok(Self { timers, path }), |interval| Err(InvalidBfdConfig { interval, shortest }))
    }

    pub(super) fn port(self) -> u16 {
        match self.path {
            BfdPath::SingleHop => 3784,
            BfdPath::Multihop { .. } => 4784,
        }
    }

    pub(super) fn minimum_ttl(self) -> u8 {
        match self.path {
            BfdPath::SingleHop => 255,
            BfdPath::Multihop { minimum_ttl } => minimum_ttl,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: bgp B89
    #[test]
    fn intervals_outside_of_the_range_are_refused() {
        let timers = |transmit, receive| Config {
            transmit: Duration::from_millis(transmit),
            receive: Duration::from_millis(receive),
            multiplier: 3.try_into().unwrap(),
        };
        let new = |transmit, receive| BfdConfig::new(timers(transmit, receive), BfdPath::SingleHop);
        assert!(new(50, 60_000).is_ok());
        let refused = new(300, 49).unwrap_err().to_string();
        assert_eq!(refused, "BFD interval of 49ms: use 50ms to 1 min");
        assert!(new(60_001, 300).is_err());
        assert!(BfdConfig::fast(timers(10, 10), BfdPath::SingleHop).is_ok());
        assert!(BfdConfig::fast(timers(9, 10), BfdPath::SingleHop).is_err());
    }
}
