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

use nix::errno::Errno;
use windlass_vrrp::{Family, Time};

use super::claim::Claim;
use crate::clock;
use crate::config::{Hold, RouterKey};
use crate::netlink::{Change, Link, NetlinkError, Refusal, Route};
use crate::sockets::UnicastSocket;

mod device;
mod orders;
mod settings;
mod steps;
#[cfg(test)]
mod tests;

use device::{Before, DeviceId, KIND, Mark, mark_of};
use settings::Arp;
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

    /// Sets interfaces back that no device needs.
    fn restore_parents(&mut self, route: &mut Route) -> Result<(), NetlinkError> {
        let used: BTreeSet<u32> =
            self.known.keys().chain(self.of_routers.values()).map(|id| id.parent).collect();
        let unused: Vec<(u32, Before)> =
            self.before.extract_if(.., |index, _| !used.contains(index)).collect();
        if unused.is_empty() {
            return Ok(());
        }
        let links = route.links()?.entries;
        for (index, before) in unused {
            // Another engine's devices may need them still.
            let needed = links.iter().any(|link| link.parent == Some(index) && is_some_engines(link));
            let Some(link) = links.iter().find(|link| link.index == index && !needed) else { continue };
            match Arp::read(&link.name).map(|arp| arp.restored(before)) {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => {
                    let (message, flags) = orders::set(index, &changes);
                    let_go(route.request(message, flags))?;
                }
                Err(error) => tracing::warn!(interface = link.name, error, "cannot set it back as it was"),
            }
        }
        Ok(())
    }

    fn make<'n>(
        &mut self,
        ids: &[DeviceId],
        name_of: &dyn Fn(&DeviceId) -> &'n str,
        route: &mut Route,
    ) -> Result<(), NetlinkError> {
        let mut made = Vec::new();
        for id in ids {
            if let Err(reason) = self.set_parent(*id, name_of(id), route)? {
                self.refusals.note(*id, reason, clock::now());
                continue;
            }
            let before = self.before.get(&id.parent).filter(|_| id.family == Family::V4);
            let mark = Mark { tag: self.tag, before: before.copied().unwrap_or_default() };
            let (message, flags) = orders::make(*id);
            if let Some(refusal) = one(route.request(message, flags))? {
                self.refusals.note(*id, refused_to_make(*id, name_of(id), &refusal), clock::now());
                continue;
            }
            let (message, flags) = orders::mark(*id, mark.to_string());
            let marking = one(route.request(message, flags))?;
            let (message, flags) = orders::without_link_local(*id);
            // Where IPv6 is off there is none to switch off.
            let quiet = one(route.request(message, flags))?.filter(|_| id.family == Family::V6);
            made.push((*id, marking.or(quiet).map_or(Ok(()), |refusal| Err(refused_to_set(*id, &refusal)))));
        }
        if made.is_empty() {
            return Ok(());
        }
        let links = route.links()?.entries;
        for (id, outcome) in made {
            let Some(link) =
                links.iter().find(|link| link.name == id.name() && link.parent == Some(id.parent))
            else {
                self.refusals.note(id, format!("{} is gone as soon as it was made", id.name()), clock::now());
                continue;
            };
            let outcome = match outcome {
                Ok(()) => Self::finish(id, link.index, name_of(&id), route)?,
                Err(reason) => Err(reason),
            };
            match outcome {
                Ok(socket) => {
                    self.refusals.clear(id);
                    let device = Device { index: link.index, up: link.up, socket: Arc::new(socket) };
                    self.known.insert(id, device);
                }
                Err(reason) => {
                    self.refusals.note(id, reason, clock::now());
                    let (message, flags) = orders::remove(link.index);
                    let_go(route.request(message, flags))?;
                }
            }
        }
        Ok(())
    }

    /// Makes a device that is there ready to be opened.
    fn finish(
        id: DeviceId,
        index: u32,
        parent: &str,
        route: &mut Route,
    ) -> Result<Result<UnicastSocket, String>, NetlinkError> {
        let settings = match settings::of_device(parent) {
            Ok(settings) => settings,
            Err(reason) => return Ok(Err(reason)),
        };
        for (message, flags) in [orders::mute(index), orders::set(index, &settings)] {
            if let Some(refusal) = one(route.request(message, flags))? {
                return Ok(Err(refused_to_set(id, &refusal)));
            }
        }
        if let Err(reason) = settings::ignore_router_advertisements(&id.name(), id.family) {
            return Ok(Err(reason));
        }
        Ok(UnicastSocket::open(index, id.family)
            .map_err(|error| format!("cannot open a packet socket on {}: {error}", id.name())))
    }

    /// Sees to it that the parent leaves the VIPs to the engine. The inner error says why it cannot be.
    fn set_parent(
        &mut self,
        id: DeviceId,
        parent: &str,
        route: &mut Route,
    ) -> Result<Result<(), String>, NetlinkError> {
        // In IPv6 an interface answers for its own addresses only.
        if id.family == Family::V6 {
            return Ok(Ok(()));
        }
        let (changes, before) = match Arp::read(parent) {
            Ok(arp) => arp.needs(),
            Err(reason) => return Ok(Err(reason)),
        };
        if changes.is_empty() {
            return Ok(Ok(()));
        }
        let (message, flags) = orders::set(id.parent, &changes);
        if let Some(refusal) = one(route.request(message, flags))? {
            return Ok(Err(format!("cannot set arp_ignore and arp_announce of {parent}: {refusal}")));
        }
        remember(&mut self.before, id.parent, before);
        Ok(Ok(()))
    }

    fn open(
        &mut self,
        id: DeviceId,
        parent: &str,
        permits: &dyn Fn() -> bool,
        route: &mut Route,
    ) -> Result<(), NetlinkError> {
        // Network managers may have set it otherwise meanwhile.
        let outcome = self.set_parent(id, parent, route)?;
        let Some(device) = self.known.get_mut(&id) else { return Ok(()) };
        let outcome = match outcome {
            Ok(()) if !permits() => return Ok(()),
            Ok(()) => {
                let (message, flags) = orders::raise(device.index, true);
                let refusal = one(route.request(message, flags))?;
                refusal.map_or(Ok(()), |refusal| Err(refused_to_open(id, parent, &refusal)))
            }
            Err(reason) => Err(reason),
        };
        match outcome {
            Ok(()) => {
                device.up = true;
                self.refusals.clear(id);
            }
            Err(reason) => self.refusals.note(id, reason, clock::now()),
        }
        Ok(())
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

/// The first that is known of an interface counts: later it is as the engine has set it.
fn remember(known: &mut BTreeMap<u32, Before>, index: u32, before: Before) {
    let known = known.entry(index).or_default();
    known.arp_ignore = known.arp_ignore.or(before.arp_ignore);
    known.arp_announce = known.arp_announce.or(before.arp_announce);
}

/// Whether it is an IPv4 device of an engine, whichever.
fn is_some_engines(link: &Link) -> bool {
    let marked = link.alias.as_ref().is_some_and(|alias| alias.parse::<Mark>().is_ok());
    marked && link.kind.as_deref() == Some(KIND) && link.mac.is_some_and(|mac| mac[4] == 1)
}

/// Tells a refusal of one order from a failure of the socket.
fn one(outcome: Result<(), NetlinkError>) -> Result<Option<Refusal>, NetlinkError> {
    match outcome {
        Ok(()) => Ok(None),
        Err(NetlinkError::Refused(refusal)) => Ok(Some(refusal)),
        Err(error @ (NetlinkError::AnswersLost | NetlinkError::Io { .. } | NetlinkError::Malformed(_))) => {
            Err(error)
        }
    }
}

/// What is refused here is as good as done: the interface is gone.
fn let_go(outcome: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    if let Some(refusal) = one(outcome)? {
        tracing::debug!(%refusal, "the kernel did not let go of an interface");
    }
    Ok(())
}

fn refused_to_make(id: DeviceId, parent: &str, refusal: &Refusal) -> String {
    let name = id.name();
    let remedy = match refusal.errno {
        Errno::EOPNOTSUPP => {
            "the kernel has no macvlan devices: `modprobe macvlan` (CONFIG_MACVLAN), or hold the VIPs by `respond` or `address`"
                .to_owned()
        }
        Errno::EEXIST => format!(
            "there is an interface of that name without this engine's mark: `ip link del {name}` if nobody needs it"
        ),
        Errno::EBUSY | Errno::EINVAL => format!(
            "{parent} cannot carry macvlan devices, as a port of a bridge, bond or team cannot: run the router on that \
             instead, or hold the VIPs by `respond` or `address`"
        ),
        _ => "hold the VIPs by `respond` or `address` if that stays".to_owned(),
    };
    format!("cannot make the macvlan {name} on {parent}: {refusal}: {remedy}")
}

fn refused_to_set(id: DeviceId, refusal: &Refusal) -> String {
    let name = id.name();
    let remedy = match refusal.errno {
        Errno::ENOENT => {
            ": the kernel has no queueing discipline `blackhole` (CONFIG_NET_SCHED), without which the device would not be \
             silent; hold the VIPs by `respond` or `address`"
        }
        _ => "",
    };
    format!("cannot set up the macvlan {name}: {refusal}{remedy}")
}

fn refused_to_open(id: DeviceId, parent: &str, refusal: &Refusal) -> String {
    let name = id.name();
    let remedy = match refusal.errno {
        Errno::EADDRINUSE | Errno::EBUSY => format!(
            ": another device on {parent} has the virtual router MAC address, as one of keepalived or FRR (`ip -d link`): \
             remove it"
        ),
        _ => String::new(),
    };
    format!("cannot set the macvlan {name} up: {refusal}{remedy}")
}
