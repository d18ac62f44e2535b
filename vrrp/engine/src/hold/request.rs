//! Bindings that a virtual router requests.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use windlass_kernel::clock;
use windlass_vrrp::Time;

use super::bindings::Binding;
use crate::config::Hold;
use crate::core::predecessor::HandedOverBy;
use crate::handle::{Plan, RouterHandle};

/// A virtual router as it is at the beginning of a round.
pub(super) struct BindingRequest {
    pub(super) handle: Arc<RouterHandle>,
    pub(super) plan: Arc<Plan>,
    /// True if this node acts as Active, or has resigned and leaves bound what is bound.
    pub(super) active: bool,
    /// True if this node acts as Active.
    pub(super) serves: bool,
    /// Which takeover it is.
    pub(super) takeover: u64,
    /// Node that served until then.
    pub(super) handed_over_by: HandedOverBy,
    /// The peer that was heard last.
    pub(super) heard_from: Option<IpAddr>,
    /// Peer in `heard_from`, if it is Active as far as is known, and two of its adverts are missing.
    pub(super) missing: Option<IpAddr>,
    /// Addresses that it may claim.
    pub(super) cleared: Arc<BTreeSet<IpAddr>>,
    /// Index of the router's own device, if it has one.
    pub(super) device: Option<u32>,
    /// True if the device is up.
    pub(super) device_up: bool,
}

impl BindingRequest {
    pub(super) fn of(handle: Arc<RouterHandle>) -> Self {
        let (plan, cleared) = (handle.plan(), handle.cleared());
        let now = clock::now();
        let misses_active = handle.misses_active();
        let (takeover, handed_over_by) = handle.takeover();
        let heard_from = handle.heard_from();
        let serves = handle.is_active(now);
        let active = serves || handle.is_lingering(now);
        Self {
            handle,
            plan,
            active,
            serves,
            takeover,
            handed_over_by,
            heard_from,
            missing: heard_from.filter(|_| misses_active),
            cleared,
            device: None,
            device_up: false,
        }
    }

    /// Returns true if a peer handed it over that lives.
    pub(super) fn is_handed_over(&self) -> bool {
        match self.handed_over_by {
            HandedOverBy::Peer(_) => true,
            HandedOverBy::Nobody | HandedOverBy::SilentPeer(_) | HandedOverBy::ThisNode => false,
        }
    }

    /// Returns true if this node takes over, or is about to: its addresses are announced when everything is prepared for that.
    pub(super) fn is_urgent(&self, now: Time) -> bool {
        self.missing.is_some() || (self.serves && self.handle.prepares_until(now).is_some())
    }

    /// Returns true if it binds its addresses to an interface.
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

    /// All its addresses, with the number of the interface by which their clients come, while there is one.
    pub(super) fn clients_come_by(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        let link = self.plan.link.as_ref().map(|link| link.index);
        link.into_iter().flat_map(|link| self.addresses().map(move |address| (address, link)))
    }

    /// Returns the addresses that this node holds now: it is [`Self::active`] and may claim them.
    pub(super) fn held(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses().filter(|address| self.active && self.cleared.contains(address))
    }

    /// The interface on which its addresses are bound.
    pub(super) fn interface(&self) -> Option<u32> {
        match self.plan.hold {
            Hold::Address => self.plan.link.as_ref().map(|link| link.index),
            Hold::Vmac => self.device.filter(|_| self.device_up),
            Hold::Respond => None,
        }
    }

    /// All its addresses where they would be bound.
    pub(super) fn bindings(&self) -> impl Iterator<Item = Binding> {
        let interface = self.interface();
        let binding =
            move |address: &IpAddr| interface.map(|interface| Binding { interface, address: *address });
        self.plan.addresses.iter().filter_map(binding)
    }

    /// Returns the bindings on the router's interface, where an equal address of another owner is in the way wherever ours would be bound.
    pub(super) fn on_parent(&self) -> impl Iterator<Item = Binding> {
        let link = self.plan.link.as_ref().filter(|_| self.binds()).map(|link| link.index);
        let binding = move |address: &IpAddr| link.map(|interface| Binding { interface, address: *address });
        self.plan.addresses.iter().filter_map(binding)
    }

    /// Returns the bindings that are to be there now: this node is [`Self::active`] and may claim their addresses.
    pub(super) fn wanted(&self) -> impl Iterator<Item = Binding> {
        self.bindings().filter(|binding| self.active && self.cleared.contains(&binding.address))
    }
}
