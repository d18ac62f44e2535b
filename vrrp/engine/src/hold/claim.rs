//! What a virtual router wants bound.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::bindings::Place;
use crate::clock;
use crate::config::Hold;
use crate::duty::{Duty, Plan};

/// A duty as it is at the beginning of a round.
pub(super) struct Claim {
    pub(super) duty: Arc<Duty>,
    pub(super) plan: Arc<Plan>,
    /// Whether this node acts as Active, or has resigned and leaves bound what is bound.
    pub(super) active: bool,
    /// What it may claim.
    pub(super) cleared: Arc<BTreeSet<IpAddr>>,
    /// Index of the router's own device, if it has one.
    pub(super) device: Option<u32>,
    /// Whether that is up.
    pub(super) open: bool,
}

impl Claim {
    pub(super) fn of(duty: Arc<Duty>) -> Self {
        let (plan, cleared) = (duty.plan(), duty.cleared());
        let now = clock::now();
        let active = duty.holds(now) || duty.is_lingering(now);
        Self { duty, plan, active, cleared, device: None, open: false }
    }

    /// Whether it binds its addresses to something.
    pub(super) fn binds(&self) -> bool {
        match self.plan.hold {
            Hold::Respond => false,
            Hold::Address | Hold::Vmac => true,
        }
    }

    /// All its addresses.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.plan.addresses.iter().copied()
    }

    /// Those that this node serves now: it is Active and may claim them.
    pub(super) fn held(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses().filter(|address| self.active && self.cleared.contains(address))
    }

    /// The interface on which its addresses are bound.
    pub(super) fn interface(&self) -> Option<u32> {
        match self.plan.hold {
            Hold::Address => self.plan.link.as_ref().map(|link| link.index),
            Hold::Vmac => self.device.filter(|_| self.open),
            Hold::Respond => None,
        }
    }

    /// All its addresses where they would be bound.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let interface = self.interface();
        let place = move |address: &IpAddr| interface.map(|interface| Place { interface, address: *address });
        self.plan.addresses.iter().filter_map(place)
    }

    /// Where somebody else's equal address is in the way, wherever ours would be bound.
    pub(super) fn contested(&self) -> impl Iterator<Item = Place> {
        let link = self.plan.link.as_ref().filter(|_| self.binds()).map(|link| link.index);
        let place = move |address: &IpAddr| link.map(|interface| Place { interface, address: *address });
        self.plan.addresses.iter().filter_map(place)
    }

    /// Those to be bound now: this node is Active and may claim them.
    pub(super) fn wanted(&self) -> impl Iterator<Item = Place> {
        self.places().filter(|place| self.active && self.cleared.contains(&place.address))
    }
}
