//! What is known of hosts that are asked again and again. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_engine::Heard;

/// So many answers in a row that do not arrive are more than packets that were lost.
const MISSES: u8 = 2;

/// Whether what a host answers arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Arrives,
    /// It lives, and what it answers does not arrive.
    Lost,
    /// It has not answered.
    Unknown,
}

/// What is remembered of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// An answer arrived, and then so many did not.
    Arrived {
        missed: u8,
    },
    Lost,
}

/// By the address that was asked from and the host.
#[derive(Debug, Default)]
pub(super) struct Answers(BTreeMap<(IpAddr, IpAddr), Last>);

impl Answers {
    /// These hosts were asked from this address.
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

    /// Others are not asked any more.
    pub(super) fn keep_only(&mut self, asked: &BTreeSet<(IpAddr, IpAddr)>) {
        self.0.retain(|key, _| asked.contains(key));
    }

    /// What is known of a host.
    pub(super) fn verdict(&self, own: IpAddr, host: IpAddr) -> Verdict {
        match self.0.get(&(own, host)) {
            Some(Last::Arrived { .. }) => Verdict::Arrives,
            Some(Last::Lost) => Verdict::Lost,
            None => Verdict::Unknown,
        }
    }
}
