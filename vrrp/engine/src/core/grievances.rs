//! What of a virtual router's trouble is told, and how often.

use std::io;

use windlass_vrrp::Time;

use crate::census::Sightings;
use crate::config::RouterKey;
use crate::event::Event;

#[cfg(test)]
mod tests;

/// Adverts refused in a row that are told of: as many as a Backup misses before it takes over.
const TOO_MANY: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Grievance {
    SourceInUse,
    AdvertsRefused,
}

/// Of one router.
pub(super) struct Grievances {
    told: Sightings<Grievance>,
    /// Adverts refused since one was sent.
    refused: u32,
}

impl Grievances {
    pub(super) fn new() -> Self {
        Self { told: Sightings::new(), refused: 0 }
    }

    /// An advert came from the router's own address.
    pub(super) fn own_source(&mut self, key: &RouterKey, now: Time) -> Option<Event> {
        self.told.note(Grievance::SourceInUse, now).then(|| Event::SourceInUse { key: key.clone() })
    }

    /// An advert was sent, or refused for this reason.
    pub(super) fn sent(&mut self, key: &RouterKey, refusal: Option<&io::Error>, now: Time) -> Option<Event> {
        let Some(refusal) = refusal else {
            self.refused = 0;
            return None;
        };
        self.refused = self.refused.saturating_add(1);
        let told = self.refused >= TOO_MANY && self.told.note(Grievance::AdvertsRefused, now);
        told.then(|| Event::AdvertsRefused {
            key: key.clone(),
            error: format!(
                "{key}: the kernel refuses to send its adverts: {refusal}; check that no packet filter drops outgoing packets \
                 of protocol 112 and that the interface's queue is not full (`tc -s qdisc show dev {}`)",
                key.interface
            ),
        })
    }
}
