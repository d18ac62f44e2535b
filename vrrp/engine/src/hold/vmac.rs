//! The devices with virtual router MAC addresses: one macvlan for each virtual router that holds its VIPs so, on its
//! interface, made when the router is configured, down while it is not Active (so that the kernel drops what is for the
//! virtual router: T16), up and with the VIPs while it is.
//!
//! A device only receives: whatever the kernel would send by it (ARP, neighbour discovery, MLD) is thrown away, so that a
//! device that a killed or frozen process leaves up does not teach switches a wrong port. What others ask for a VIP is answered
//! by the neighbour thread, from the parent interface and in the name of the virtual router MAC address. What VIPs' services
//! answer leaves by the node's routes, from the parent's MAC address.
//!
//! A link-local VIP on such a device is found and forwarded for, as a gateway's address is, but no socket of the host can
//! answer from it: that would have to leave by the device.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_vrrp::Time;

use super::claim::Claim;
use crate::clock;
use crate::config::{Hold, RouterKey};
use crate::netlink::{Change, Link, NetlinkError, Route};
use crate::sockets::UnicastSocket;

mod device;
mod making;
mod orders;
mod refused;
mod settings;
mod steps;
#[cfg(test)]
mod tests;

use device::{Before, DeviceId, Mark, mark_of};
use making::remember;
use refused::let_go;
use steps::{Refusals, Steps, Wishes, steps};

/// The devices of this engine.
pub(super) struct Devices {
    /// In their marks.
    tag: u8,
    known: BTreeMap<DeviceId, Device>,
    /// Indexes of known devices that were last heard of with another address or parent.
    unlike: BTreeSet<u32>,
    refusals: Refusals,
    /// How the interfaces that were changed for devices were before.
    before: BTreeMap<u32, Before>,
    /// The devices of the routers, as of when their interface could last be used.
    of_routers: BTreeMap<RouterKey, DeviceId>,
    /// What is to be closed and removed.
    leftover: Steps,
    /// Sockets of devices that are gone, to be closed here: closing waits in the kernel.
    retired: Vec<Arc<UnicastSocket>>,
}

struct Device {
    index: u32,
    up: bool,
    socket: Arc<UnicastSocket>,
}

/// Why a router's device cannot be had.
pub(super) enum Obstacle<'a> {
    /// There is none.
    Missing(&'a str),
    /// It cannot be opened.
    Closed(&'a str),
}

impl Devices {
    /// None yet. `tag` marks those of this engine.
    pub(super) fn new(tag: u8) -> Self {
        Self {
            tag,
            known: BTreeMap::new(),
            unlike: BTreeSet::new(),
            refusals: Refusals::default(),
            before: BTreeMap::new(),
            of_routers: BTreeMap::new(),
            leftover: Steps::default(),
            retired: Vec::new(),
        }
    }

    /// Removes what an earlier engine of this tag left behind, and what is no longer known. How many there were.
    pub(super) fn sweep(&mut self, route: &mut Route) -> Result<usize, NetlinkError> {
        let links = route.links()?.entries;
        let strays: Vec<(&Link, Mark)> = links
            .iter()
            .filter_map(|link| Some((link, mark_of(link, self.tag)?)))
            .filter(|(link, _)| !self.known.values().any(|device| device.index == link.index))
            .collect();
        for (link, mark) in &strays {
            if let Some(parent) = link.parent {
                remember(&mut self.before, parent, mark.before);
            }
        }
        let answers = route.batch(strays.iter().map(|(link, _)| orders::remove(link.index)))?;
        self.restore_parents(route)?;
        Ok(answers.into_iter().flatten().count())
    }

    /// Compares what is known with all that the kernel has.
    pub(super) fn resync(&mut self, route: &mut Route) -> Result<(), NetlinkError> {
        if self.is_empty() {
            return Ok(());
        }
        let links = route.links()?.entries;
        let there: BTreeMap<DeviceId, &Link> =
            links.iter().filter_map(|link| Some((DeviceId::of(link, self.tag)?, link))).collect();
        for (id, mut device) in std::mem::take(&mut self.known) {
            match there.get(&id).filter(|link| link.index == device.index) {
                Some(link) => {
                    device.up = link.up;
                    self.known.insert(id, device);
                }
                None => self.retired.push(device.socket),
            }
        }
        self.unlike.clear();
        self.sweep(route).map(drop)
    }

    /// Takes in what the kernel tells.
    pub(super) fn hear(&mut self, change: &Change) {
        match change {
            Change::Link(link) => {
                let known = self.known.iter_mut().find(|(_, device)| device.index == link.index);
                let Some((id, device)) = known else { return };
                device.up = link.up;
                if DeviceId::like(link) == Some(*id) {
                    self.unlike.remove(&link.index);
                } else {
                    self.unlike.insert(link.index);
                }
            }
            Change::LinkGone(index) => {
                self.before.remove(index);
                self.forget(&BTreeSet::from([*index]));
            }
            Change::Address(_) | Change::AddressGone(_) => {}
        }
    }

    fn forget(&mut self, indexes: &BTreeSet<u32>) {
        let gone = self.known.extract_if(.., |_, device| indexes.contains(&device.index));
        self.retired.extend(gone.map(|(_, device)| device.socket));
    }

    /// Makes what is missing and opens the devices of Active routers. `permits` is asked right before one is opened.
    pub(super) fn prepare(
        &mut self,
        claims: &[Claim],
        permits: &dyn Fn(&RouterKey) -> bool,
        route: &mut Route,
    ) -> Result<(), NetlinkError> {
        let unlike = std::mem::take(&mut self.unlike);
        self.forget(&unlike);
        self.retired.retain(|socket| Arc::strong_count(socket) > 1);
        let wishes = self.wishes(claims);
        self.refusals.keep(&wishes.wanted);
        let known = self.known.iter().map(|(id, device)| (*id, device.up)).collect();
        let now = clock::now();
        let mut steps = steps(&known, &wishes, &self.refusals, now);
        let parents = parents(claims);
        let name_of = |id: &DeviceId| parents.get(&id.parent).map_or("", String::as_str);
        let make = std::mem::take(&mut steps.make);
        if !make.is_empty() {
            self.make(&make, &name_of, route)?;
            // Those that are to be up are opened at once.
            let is_up = |id: &DeviceId| wishes.wanted.get(id) == Some(&true);
            steps.open.extend(make.iter().filter(|id| self.known.contains_key(*id) && is_up(id)));
        }
        let key_of =
            |id: DeviceId| self.of_routers.iter().find(|(_, of)| **of == id).map(|(key, _)| key.clone());
        let keys: Vec<(DeviceId, RouterKey)> =
            steps.open.iter().filter_map(|id| Some((*id, key_of(*id)?))).collect();
        for (id, key) in keys {
            self.open(id, name_of(&id), &|| permits(&key), route)?;
        }
        self.leftover = steps;
        Ok(())
    }

    fn wishes(&mut self, claims: &[Claim]) -> Wishes {
        let mut wishes = Wishes::default();
        let mut of_routers = BTreeMap::new();
        for claim in claims.iter().filter(|claim| is_vmac(claim)) {
            let key = &claim.duty.key;
            if let Some(link) = &claim.plan.link {
                let id = DeviceId { parent: link.index, family: key.family, vrid: key.vrid };
                wishes.wanted.insert(id, claim.active);
                of_routers.insert(key.clone(), id);
            } else if let Some(id) = self.of_routers.get(key) {
                wishes.kept.insert(*id);
                of_routers.insert(key.clone(), *id);
            }
        }
        self.of_routers = of_routers;
        wishes
    }

    /// Closes and removes what is not wanted, after the addresses are off. Whether there is more to do.
    pub(super) fn release(&mut self, route: &mut Route) -> Result<bool, NetlinkError> {
        let Steps { close, remove, more, .. } = std::mem::take(&mut self.leftover);
        for id in close {
            if let Some(device) = self.known.get_mut(&id) {
                let (message, flags) = orders::raise(device.index, false);
                let_go(route.request(message, flags))?;
                device.up = false;
            }
        }
        let removes = !remove.is_empty();
        for id in remove {
            if let Some(device) = self.known.remove(&id) {
                let (message, flags) = orders::remove(device.index);
                let_go(route.request(message, flags))?;
                self.retired.push(device.socket);
            }
        }
        if removes {
            self.restore_parents(route)?;
        }
        Ok(more)
    }

    /// Index of the device of a router, and whether it is up.
    pub(super) fn of(&self, claim: &Claim) -> (Option<u32>, bool) {
        self.device(claim).map_or((None, false), |device| (Some(device.index), device.up))
    }

    /// What hears who asks the router's MAC address for its VIPs.
    pub(super) fn socket_for(&self, claim: &Claim) -> Option<Arc<UnicastSocket>> {
        self.device(claim).map(|device| Arc::clone(&device.socket))
    }

    /// Why a router has no device, or none that is open.
    pub(super) fn obstacle(&self, claim: &Claim) -> Option<Obstacle<'_>> {
        let id = self.of_routers.get(&claim.duty.key).filter(|_| is_vmac(claim))?;
        let reason = self.refusals.reason(*id)?;
        if !self.known.contains_key(id) {
            return Some(Obstacle::Missing(reason));
        }
        // Whether it can be opened is found out by opening it.
        claim.active.then_some(Obstacle::Closed(reason))
    }

    fn device(&self, claim: &Claim) -> Option<&Device> {
        self.known.get(self.of_routers.get(&claim.duty.key).filter(|_| is_vmac(claim))?)
    }

    /// Whether there is nothing to look after.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.before.is_empty()
    }

    /// When there is something to do if nothing changes.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        self.refusals.due(now)
    }
}

fn is_vmac(claim: &Claim) -> bool {
    match claim.plan.hold {
        Hold::Vmac => true,
        Hold::Respond | Hold::Address => false,
    }
}

/// Names of the interfaces that routers are on.
fn parents(claims: &[Claim]) -> BTreeMap<u32, String> {
    let links = claims.iter().filter_map(|claim| claim.plan.link.as_ref());
    links.map(|link| (link.index, link.name.clone())).collect()
}
