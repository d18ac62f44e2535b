//! What the thread tells of VIPs that are not bound: each thing once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::Time;

use super::claim::Claim;
use crate::config::RouterKey;
use crate::delivery::Sink;
use crate::event::Event;
use crate::inbox::Inbox;

/// How long a router stands back after the kernel refused all of its addresses.
const STAND_BACK: Duration = Duration::from_secs(10);

/// Tells events, and the timer thread of routers that cannot hold anything and had better leave it to another node.
pub(super) struct Report<'a> {
    inbox: &'a Inbox,
    events: &'a Sink,
    refused: BTreeMap<(RouterKey, IpAddr), String>,
    obstructed: BTreeMap<RouterKey, Obstruction>,
}

struct Obstruction {
    reason: String,
    /// When to try again although nothing is known to have changed.
    until: Option<Time>,
}

/// What is in the way of a router.
pub(super) enum Way {
    /// Nothing, or not everything.
    Free,
    /// Everything, whether it is Active or not, for this reason.
    Barred(String),
    /// The kernel refuses everything while it is Active, for this reason.
    Refused(String),
}

impl<'a> Report<'a> {
    pub(super) fn new(inbox: &'a Inbox, events: &'a Sink) -> Self {
        Self { inbox, events, refused: BTreeMap::new(), obstructed: BTreeMap::new() }
    }

    /// An address of the router is not bound for this reason, or (`None`) is or need not be.
    pub(super) fn address(&mut self, claim: &Claim, address: IpAddr, reason: Option<&str>) {
        if reason.is_none() && self.refused.is_empty() {
            return;
        }
        let place = (claim.duty.key.clone(), address);
        match reason {
            None => drop(self.refused.remove(&place)),
            Some(reason) if self.refused.get(&place).is_some_and(|told| told == reason) => {}
            Some(reason) => {
                let (key, error) = (claim.duty.key.clone(), reason.to_owned());
                self.refused.insert(place, error.clone());
                self.events.tell(Event::AddressRefused { key, address, error });
            }
        }
    }

    /// Somebody removed an address of the router.
    pub(super) fn lost(&self, claim: &Claim, address: IpAddr) {
        self.events.tell(Event::AddressLost { key: claim.duty.key.clone(), address });
    }

    /// What is in the way of the router as a whole.
    pub(super) fn way(&mut self, key: &RouterKey, way: Way, now: Time) {
        let obstruction = match way {
            Way::Barred(reason) => Obstruction { reason, until: None },
            Way::Refused(reason) => Obstruction { reason, until: Some(now + STAND_BACK) },
            Way::Free => {
                let standing_back = |told: &Obstruction| told.until.is_some_and(|until| now < until);
                if self.obstructed.get(key).is_some_and(|told| !standing_back(told)) {
                    self.obstructed.remove(key);
                    self.inbox.obstruct(key.clone(), None);
                }
                return;
            }
        };
        if self.obstructed.get(key).is_none_or(|told| told.reason != obstruction.reason) {
            self.inbox.obstruct(key.clone(), Some(obstruction.reason.clone()));
        }
        self.obstructed.insert(key.clone(), obstruction);
    }

    /// Forgets routers that are gone.
    pub(super) fn forget(&mut self, keys: &BTreeSet<&RouterKey>) {
        self.refused.retain(|(key, _), _| keys.contains(key));
        self.obstructed.retain(|key, _| keys.contains(key));
    }

    /// When a router that stands back is to try again.
    pub(super) fn due(&self) -> Option<Time> {
        self.obstructed.values().filter_map(|obstruction| obstruction.until).min()
    }
}
