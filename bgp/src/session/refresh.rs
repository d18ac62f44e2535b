//! ROUTE-REFRESH of the peer, obeyed at a bounded rate.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::units::{Family, Time};

/// Shortest time between two answers for a family.
const PAUSE: Duration = Duration::from_secs(10);

/// Requests of the peer that were obeyed lately, and those that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Refreshes {
    allowed_from: BTreeMap<Family, Time>,
    waiting: BTreeSet<Family>,
}

impl Refreshes {
    pub(super) fn request(&mut self, family: Family) {
        self.waiting.insert(family);
    }

    /// Takes a family whose routes are to be sent again now.
    pub(super) fn take(&mut self, now: Time) -> Option<Family> {
        let family = self.waiting.iter().copied().find(|family| self.due(*family) <= now)?;
        self.waiting.remove(&family);
        self.allowed_from.insert(family, now + PAUSE);
        Some(family)
    }

    /// Time of the next one.
    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.iter().map(|family| self.due(*family)).min()
    }

    fn due(&self, family: Family) -> Time {
        self.allowed_from.get(&family).copied().unwrap_or_default()
    }
}
