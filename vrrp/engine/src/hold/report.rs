//! Reports of VIPs that are not bound, each sent once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use windlass_vrrp::Time;

use super::request::BindingRequest;
use crate::config::RouterKey;
use crate::event::Event;
use crate::event_queue::EventSender;
use crate::inbox::Inbox;

/// Time for which a router stands back after the kernel refused all of its addresses.
const BACK_OFF: Duration = Duration::from_secs(10);

/// Sends events, and reports to the timer thread the routers that cannot hold anything and had better leave it to another node.
pub(super) struct Report<'a> {
    inbox: &'a Inbox,
    events: &'a EventSender,
    refused: BTreeMap<(RouterKey, IpAddr), String>,
    hold_errors: BTreeMap<RouterKey, HoldError>,
}

struct HoldError {
    reason: String,
    /// Time of the next try although nothing is known to have changed.
    until: Option<Time>,
}

/// Part of a router's addresses that cannot be held.
pub(super) enum HoldState {
    /// Nothing, or not everything.
    Possible,
    /// Everything, whether it is Active or not, for this reason.
    Impossible(String),
    /// The kernel refuses everything while it is Active, for this reason.
    Refused(String),
}

impl<'a> Report<'a> {
    pub(super) fn new(inbox: &'a Inbox, events: &'a EventSender) -> Self {
        Self { inbox, events, refused: BTreeMap::new(), hold_errors: BTreeMap::new() }
    }

    /// Reports the reason why an address of the router is not bound; `None`: it is, or need not be.
    pub(super) fn address(&mut self, request: &BindingRequest, address: IpAddr, reason: Option<&str>) {
        if reason.is_none() && self.refused.is_empty() {
            return;
        }
        let router_address = (request.handle.key.clone(), address);
        match reason {
            None => drop(self.refused.remove(&router_address)),
            Some(reason) if self.refused.get(&router_address).is_some_and(|reported| reported == reason) => {}
            Some(reason) => {
                let (key, error) = (request.handle.key.clone(), reason.to_owned());
                self.refused.insert(router_address, error.clone());
                self.events.send(Event::AddressRefused { key, address, error });
            }
        }
    }

    /// Reports that another process removed an address of the router.
    pub(super) fn lost(&self, request: &BindingRequest, address: IpAddr) {
        self.events.send(Event::AddressLost { key: request.handle.key.clone(), address });
    }

    /// Reports the obstacle to the router as a whole, if it changed.
    pub(super) fn hold_state(&mut self, key: &RouterKey, hold_state: HoldState, now: Time) {
        let hold_error = match hold_state {
            HoldState::Impossible(reason) => HoldError { reason, until: None },
            HoldState::Refused(reason) => HoldError { reason, until: Some(now + BACK_OFF) },
            HoldState::Possible => {
                let backing_off = |reported: &HoldError| reported.until.is_some_and(|until| now < until);
                if self.hold_errors.get(key).is_some_and(|reported| !backing_off(reported)) {
                    self.hold_errors.remove(key);
                    self.inbox.set_hold_error(key.clone(), None);
                }
                return;
            }
        };
        if self.hold_errors.get(key).is_none_or(|reported| reported.reason != hold_error.reason) {
            self.inbox.set_hold_error(key.clone(), Some(hold_error.reason.clone()));
        }
        self.hold_errors.insert(key.clone(), hold_error);
    }

    /// Removes routers that are gone.
    pub(super) fn forget(&mut self, keys: &BTreeSet<&RouterKey>) {
        self.refused.retain(|(key, _), _| keys.contains(key));
        self.hold_errors.retain(|key, _| keys.contains(key));
    }

    /// Returns when the first router that stands back is to try again.
    pub(super) fn due(&self) -> Option<Time> {
        self.hold_errors.values().filter_map(|hold_error| hold_error.until).min()
    }
}
