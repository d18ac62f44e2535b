//! Counts of what a peer sends.

use crate::wire::ReceivedUpdate;

/// Counts of messages received since the session was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Prefixes that the peer announced, and announced again.
    pub announced: u64,
    /// Prefixes that the peer withdrew.
    pub withdrawn: u64,
    /// UPDATEs with a broken attribute or prefix.
    pub malformed: u64,
    /// ROUTE-REFRESHes of families that are not sent.
    pub ignored_refreshes: u64,
}

impl Counts {
    pub(super) fn add(&mut self, update: ReceivedUpdate) {
        self.announced = self.announced.saturating_add(update.announced.into());
        self.withdrawn = self.withdrawn.saturating_add(update.withdrawn.into());
        self.malformed = self.malformed.saturating_add(update.malformed.into());
    }
}
