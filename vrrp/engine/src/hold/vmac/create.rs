//! Makes devices, opens them, and sets their interfaces so that only the engine answers for VIPs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_kernel::clock;
use windlass_kernel::netlink::{Link, NetlinkError, RouteSocket};
use windlass_kernel::sockets::UnicastSocket;
use windlass_vrrp::Family;

use super::device::{DeviceId, MACVLAN, Mark, SavedSettings};
use super::errors::{ignore_refusal, refusal_of, refused_to_make, refused_to_open, refused_to_set};
use super::settings::{self, ArpSettings};
use super::{Device, Devices, messages};

impl Devices {
    /// Sets interfaces back that no device needs.
    pub(super) fn restore_parents(&mut self, route: &mut RouteSocket) -> Result<(), NetlinkError> {
        let used: BTreeSet<u32> =
            self.known.keys().chain(self.of_routers.values()).map(|id| id.parent).collect();
        let unused: Vec<(u32, SavedSettings)> =
            self.saved.extract_if(.., |index, _| !used.contains(index)).collect();
        if unused.is_empty() {
            return Ok(());
        }
        let links = route.links()?.entries;
        for (index, saved) in unused {
            // Another engine's devices may need them still.
            let needed = links.iter().any(|link| link.parent == Some(index) && is_some_engines(link));
            let Some(link) = links.iter().find(|link| link.index == index && !needed) else { continue };
            match ArpSettings::read(&link.name).map(|arp| arp.restored(saved)) {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => {
                    let (message, flags) = messages::set(index, &changes);
                    ignore_refusal(route.request(message, flags))?;
                }
                Err(error) => tracing::warn!(interface = link.name, error, "cannot set it back as it was"),
            }
        }
        Ok(())
    }

    pub(super) fn create<'n>(
        &mut self,
        ids: &[DeviceId],
        name_of: &dyn Fn(&DeviceId) -> &'n str,
        route: &mut RouteSocket,
    ) -> Result<(), NetlinkError> {
        let mut made = Vec::new();
        for id in ids {
            if let Err(reason) = self.set_parent(*id, name_of(id), route)? {
                self.refusals.note(*id, reason, clock::now());
                continue;
            }
            let saved = self.saved.get(&id.parent).filter(|_| id.family == Family::V4);
            let mark = Mark { tag: self.tag, saved: saved.copied().unwrap_or_default() };
            let (message, flags) = messages::create(*id);
            if let Some(refusal) = refusal_of(route.request(message, flags))? {
                self.refusals.note(*id, refused_to_make(*id, name_of(id), &refusal), clock::now());
                continue;
            }
            let (message, flags) = messages::mark(*id, mark.to_string());
            let marking = refusal_of(route.request(message, flags))?;
            let (message, flags) = messages::without_link_local(*id);
            // Where IPv6 is off there is none to switch off.
            let quiet = refusal_of(route.request(message, flags))?.filter(|_| id.family == Family::V6);
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
                    let (message, flags) = messages::remove(link.index);
                    ignore_refusal(route.request(message, flags))?;
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
        route: &mut RouteSocket,
    ) -> Result<Result<UnicastSocket, String>, NetlinkError> {
        let settings = match settings::of_device(parent) {
            Ok(settings) => settings,
            Err(reason) => return Ok(Err(reason)),
        };
        for (message, flags) in [messages::blackhole(index), messages::set(index, &settings)] {
            if let Some(refusal) = refusal_of(route.request(message, flags))? {
                return Ok(Err(refused_to_set(id, &refusal)));
            }
        }
        if let Err(reason) = settings::ignore_router_advertisements(&id.name(), id.family) {
            return Ok(Err(reason));
        }
        Ok(UnicastSocket::open(index, id.family)
            .map_err(|error| format!("cannot open a packet socket on {}: {error}", id.name())))
    }

    /// Sets the parent so that it leaves the VIPs to the engine. The inner error is the reason why it cannot be.
    fn set_parent(
        &mut self,
        id: DeviceId,
        parent: &str,
        route: &mut RouteSocket,
    ) -> Result<Result<(), String>, NetlinkError> {
        // In IPv6 an interface answers for its own addresses only.
        if id.family == Family::V6 {
            return Ok(Ok(()));
        }
        let (changes, saved) = match ArpSettings::read(parent) {
            Ok(arp) => arp.required_changes(),
            Err(reason) => return Ok(Err(reason)),
        };
        if changes.is_empty() {
            return Ok(Ok(()));
        }
        let (message, flags) = messages::set(id.parent, &changes);
        if let Some(refusal) = refusal_of(route.request(message, flags))? {
            return Ok(Err(format!("cannot set arp_ignore and arp_announce of {parent}: {refusal}")));
        }
        remember(&mut self.saved, id.parent, saved);
        Ok(Ok(()))
    }

    pub(super) fn open(
        &mut self,
        id: DeviceId,
        parent: &str,
        permits: &dyn Fn() -> bool,
        route: &mut RouteSocket,
    ) -> Result<(), NetlinkError> {
        // Network managers may have set it otherwise meanwhile.
        let outcome = self.set_parent(id, parent, route)?;
        let Some(device) = self.known.get_mut(&id) else { return Ok(()) };
        let outcome = match outcome {
            Ok(()) if !permits() => return Ok(()),
            Ok(()) => {
                let (message, flags) = messages::set_up(device.index, true);
                let refusal = refusal_of(route.request(message, flags))?;
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
}

/// The first that is known of an interface counts: later it is as the engine has set it.
pub(super) fn remember(known: &mut BTreeMap<u32, SavedSettings>, index: u32, saved: SavedSettings) {
    let known = known.entry(index).or_default();
    known.arp_ignore = known.arp_ignore.or(saved.arp_ignore);
    known.arp_announce = known.arp_announce.or(saved.arp_announce);
}

/// Returns true if it is an IPv4 device of any engine.
fn is_some_engines(link: &Link) -> bool {
    let marked = link.alias.as_ref().is_some_and(|alias| alias.parse::<Mark>().is_ok());
    marked && link.kind.as_deref() == Some(MACVLAN) && link.mac.is_some_and(|mac| mac[4] == 1)
}
