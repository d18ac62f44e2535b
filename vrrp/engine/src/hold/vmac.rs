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

use windlass_kernel::clock;
use windlass_kernel::netlink::{Change, Link, NetlinkError, RouteSocket};
use windlass_kernel::sockets::UnicastSocket;
use windlass_vrrp::Time;

use super::request::BindingRequest;
use crate::config::{Hold, RouterKey};

mod create;
mod device;
mod device_ops;
mod errors;
mod messages;
mod settings;
#[cfg(test)]
mod tests;

use create::remember;
use device::{DeviceId, Mark, SavedSettings, mark_of};
use device_ops::{DeviceOps, DeviceRefusals, WantedDevices, device_ops};
use errors::ignore_refusal;

/// The devices of this engine.
pub(super) struct Devices {
    /// In their marks.
    tag: u8,
    known: BTreeMap<DeviceId, Device>,
    /// Indexes of known devices that were last heard of with another address or parent.
    changed: BTreeSet<u32>,
    refusals: DeviceRefusals,
    /// Settings that the interfaces changed for devices had before.
    saved: BTreeMap<u32, SavedSettings>,
    /// The devices of the routers, as of when their interface could last be used.
    of_routers: BTreeMap<RouterKey, DeviceId>,
    /// Devices to be closed and removed.
    pending_ops: DeviceOps,
    /// Sockets of devices that are gone, to be closed here: closing waits in the kernel.
    retired: Vec<Arc<UnicastSocket>>,
}

struct Device {
    index: u32,
    up: bool,
    socket: Arc<UnicastSocket>,
}

/// Reason why a router's device cannot be had.
pub(super) enum DeviceError<'a> {
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
            changed: BTreeSet::new(),
            refusals: DeviceRefusals::default(),
            saved: BTreeMap::new(),
            of_routers: BTreeMap::new(),
            pending_ops: DeviceOps::default(),
            retired: Vec::new(),
        }
    }

    /// Removes what an earlier engine of this tag left behind, and what is no longer known. Returns how many devices there were.
    pub(super) fn sweep(&mut self, route: &mut RouteSocket) -> Result<usize, NetlinkError> {
        let links = route.links()?.entries;
        let strays: Vec<(&Link, Mark)> = links
            .iter()
            .filter_map(|link| Some((link, mark_of(link, self.tag)?)))
            .filter(|(link, _)| !self.known.values().any(|device| device.index == link.index))
            .collect();
        for (link, mark) in &strays {
            if let Some(parent) = link.parent {
                remember(&mut self.saved, parent, mark.saved);
            }
        }
        let answers = route.batch(strays.iter().map(|(link, _)| messages::remove(link.index)))?;
        self.restore_parents(route)?;
        Ok(answers.into_iter().flatten().count())
    }

    /// Compares what is known with all that the kernel has.
    pub(super) fn resync(&mut self, route: &mut RouteSocket) -> Result<(), NetlinkError> {
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
        self.changed.clear();
        self.sweep(route).map(drop)
    }

    /// Applies a change that the kernel reports.
    pub(super) fn apply_change(&mut self, change: &Change) {
        match change {
            Change::Link(link) => {
                let known = self.known.iter_mut().find(|(_, device)| device.index == link.index);
                let Some((id, device)) = known else { return };
                device.up = link.up;
                if DeviceId::like(link) == Some(*id) {
                    self.changed.remove(&link.index);
                } else {
                    self.changed.insert(link.index);
                }
            }
            Change::LinkGone(index) => {
                self.saved.remove(index);
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
        requests: &[BindingRequest],
        permits: &dyn Fn(&RouterKey) -> bool,
        route: &mut RouteSocket,
    ) -> Result<(), NetlinkError> {
        let changed = std::mem::take(&mut self.changed);
        self.forget(&changed);
        self.retired.retain(|socket| Arc::strong_count(socket) > 1);
        let wanted_devices = self.wanted_devices(requests);
        self.refusals.keep(&wanted_devices.wanted);
        let known = self.known.iter().map(|(id, device)| (*id, device.up)).collect();
        let now = clock::now();
        let mut ops = device_ops(&known, &wanted_devices, &self.refusals, now);
        let parents = parents(requests);
        let name_of = |id: &DeviceId| parents.get(&id.parent).map_or("", String::as_str);
        let make = std::mem::take(&mut ops.make);
        if !make.is_empty() {
            self.create(&make, &name_of, route)?;
            // Those that are to be up are opened at once.
            let is_up = |id: &DeviceId| wanted_devices.wanted.get(id) == Some(&true);
            ops.open.extend(make.iter().filter(|id| self.known.contains_key(*id) && is_up(id)));
        }
        let key_of =
            |id: DeviceId| self.of_routers.iter().find(|(_, of)| **of == id).map(|(key, _)| key.clone());
        let keys: Vec<(DeviceId, RouterKey)> =
            ops.open.iter().filter_map(|id| Some((*id, key_of(*id)?))).collect();
        for (id, key) in keys {
            self.open(id, name_of(&id), &|| permits(&key), route)?;
        }
        self.pending_ops = ops;
        Ok(())
    }

    fn wanted_devices(&mut self, requests: &[BindingRequest]) -> WantedDevices {
        let mut wanted_devices = WantedDevices::default();
        let mut of_routers = BTreeMap::new();
        for request in requests.iter().filter(|request| is_vmac(request)) {
            let key = &request.handle.key;
            if let Some(link) = &request.plan.link {
                let id = DeviceId { parent: link.index, family: key.family, vrid: key.vrid };
                wanted_devices.wanted.insert(id, request.active);
                of_routers.insert(key.clone(), id);
            } else if let Some(id) = self.of_routers.get(key) {
                wanted_devices.kept.insert(*id);
                of_routers.insert(key.clone(), *id);
            }
        }
        self.of_routers = of_routers;
        wanted_devices
    }

    /// Closes and removes devices that are not wanted, after their addresses are removed. Returns true if there is more to do.
    pub(super) fn release(&mut self, route: &mut RouteSocket) -> Result<bool, NetlinkError> {
        let DeviceOps { close, remove, more, .. } = std::mem::take(&mut self.pending_ops);
        for id in close {
            if let Some(device) = self.known.get_mut(&id) {
                let (message, flags) = messages::set_up(device.index, false);
                ignore_refusal(route.request(message, flags))?;
                device.up = false;
            }
        }
        let removes = !remove.is_empty();
        for id in remove {
            if let Some(device) = self.known.remove(&id) {
                let (message, flags) = messages::remove(device.index);
                ignore_refusal(route.request(message, flags))?;
                self.retired.push(device.socket);
            }
        }
        if removes {
            self.restore_parents(route)?;
        }
        Ok(more)
    }

    /// Index of the device of a router, and whether it is up.
    pub(super) fn of(&self, request: &BindingRequest) -> (Option<u32>, bool) {
        self.device(request).map_or((None, false), |device| (Some(device.index), device.up))
    }

    /// Returns the socket that receives requests to the router's MAC address for its VIPs.
    pub(super) fn socket_for(&self, request: &BindingRequest) -> Option<Arc<UnicastSocket>> {
        self.device(request).map(|device| Arc::clone(&device.socket))
    }

    /// Returns the reason why a router has no device, or none that is open.
    pub(super) fn device_error(&self, request: &BindingRequest) -> Option<DeviceError<'_>> {
        let id = self.of_routers.get(&request.handle.key).filter(|_| is_vmac(request))?;
        let reason = self.refusals.reason(*id)?;
        if !self.known.contains_key(id) {
            return Some(DeviceError::Missing(reason));
        }
        // Whether it can be opened is found out by opening it.
        request.active.then_some(DeviceError::Closed(reason))
    }

    fn device(&self, request: &BindingRequest) -> Option<&Device> {
        self.known.get(self.of_routers.get(&request.handle.key).filter(|_| is_vmac(request))?)
    }

    /// Returns true if there is no device, and no interface to be set back.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.saved.is_empty()
    }

    /// Returns when there is something to do if nothing changes.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        self.refusals.due(now)
    }
}

fn is_vmac(request: &BindingRequest) -> bool {
    match request.plan.hold {
        Hold::Vmac => true,
        Hold::Respond | Hold::Address => false,
    }
}

/// Names of the interfaces that routers are on.
fn parents(requests: &[BindingRequest]) -> BTreeMap<u32, String> {
    let links = requests.iter().filter_map(|request| request.plan.link.as_ref());
    links.map(|link| (link.index, link.name.clone())).collect()
}
