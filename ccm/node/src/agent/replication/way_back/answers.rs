//! Answers of hosts that are asked again and again. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_engine::Heard;

/// Number of consecutive missing answers that counts as a lost path, not as single lost packets.
const MISSES: u8 = 2;

/// Result for the answers of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Arrives,
    /// The host is alive, and its answers do not arrive.
    Lost,
    /// The host has not answered.
    Unknown,
}

/// Stored result of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// An answer arrived, followed by `missed` missing ones.
    Arrived {
        missed: u8,
    },
    Lost,
}

/// Results by the source address of the requests and the host.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<(IpAddr, IpAddr), Last>);

impl Answers {
    /// Records the results of asking these hosts from this address.
    pub(super) fn note(&mut self, own: IpAddr, heard: &BTreeMap<IpAddr, Heard>) {
        for (host, heard) in heard {
            let key = (own, *host);
            let now = match (self.0.get(&key), heard) {
                (_, Heard { by_interface: true, .. }) => Some(Last::Arrived { missed: 0 }),
                (Some(Last::Arrived { missed }), Heard { at_all: true, .. }) if missed + 1 < MISSES => {
                    Some(Last::Arrived { missed: missed + 1 })
                }
                (_, Heard { at_all: true, .. }) => Some(Last::Lost),
                // Nothing can be sent to it that would be lost. When it is back it may have other settings.
                (Some(Last::Arrived { .. }), _) => Some(Last::Arrived { missed: MISSES - 1 }),
                (Some(Last::Lost) | None, _) => None,
            };
            match now {
                Some(now) => drop(self.0.insert(key, now)),
                None => drop(self.0.remove(&key)),
            }
        }
    }

    /// Removes the hosts that are not asked any more.
    pub(super) fn keep_only(&mut self, asked: &BTreeSet<(IpAddr, IpAddr)>) {
        self.0.retain(|key, _| asked.contains(key));
    }

    /// Returns the current result of a host.
    pub(super) fn verdict(&self, own: IpAddr, host: IpAddr) -> Verdict {
        match self.0.get(&(own, host)) {
            Some(Last::Arrived { .. }) => Verdict::Arrives,
            Some(Last::Lost) => Verdict::Lost,
            None => Verdict::Unknown,
        }
    }
}
