//! Incremental update of the desired state: a changed virtual IP costs work for itself only. Pure.
//!
//! [`desired`] defines the result. This module only spares that computation in one case: an address that joins, leaves, is shared otherwise or
//! is announced for the first time in a virtual router that this node already runs. Any other change recomputes everything.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use windlass_api::{SharedLoad, VirtualIP, VirtualRouter, virtual_ip_name};
use windlass_engine::Family;

use super::addresses::Answered;
use super::desired::{Assignment, Desired, desired, is_announceable, is_forced, is_wanted};
use super::restricted::Restricted;
use crate::keys::Keys;

mod shared;
#[cfg(test)]
mod tests;

use shared::Ports;

/// Scope of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Update {
    /// Everything may have changed.
    Whole,
    /// The virtual IPs of these virtual routers changed.
    Part(Part),
}

/// Changed part of the desired state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Part {
    /// Names of the virtual routers whose assignments changed.
    pub(crate) routers: BTreeSet<String>,
    /// True if restrictions of virtual IPs changed.
    pub(crate) restricted: bool,
    /// True if shared virtual IPs changed.
    pub(crate) shared: bool,
}

impl Part {
    pub(crate) fn is_empty(&self) -> bool {
        self.routers.is_empty() && !self.restricted && !self.shared
    }
}

/// Inputs from which the desired state was computed.
#[derive(Debug)]
pub(crate) struct Index {
    node: String,
    answered: Arc<Answered>,
    routers: HashMap<String, Arc<VirtualRouter>>,
    vips: HashMap<String, Known>,
    /// Number of virtual IPs that are not named after their address: two of these may share one.
    misnamed: usize,
    /// Elements of shared addresses in the kernel's maps.
    elements: BTreeMap<Family, usize>,
}

/// Relevant fields of a virtual IP.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    address: IpAddr,
    /// Virtual router that is to carry it.
    router: Option<String>,
    announced: bool,
    forced: bool,
    restricted: Restricted,
    health_check_node_ports: Vec<u16>,
    load_sharing: Option<SharedLoad>,
    misnamed: bool,
}

impl Known {
    fn of(name: &str, vip: &VirtualIP) -> Self {
        let address = vip.spec.address;
        Self {
            address,
            router: vip.spec.virtual_router.clone().filter(|_| is_wanted(vip)),
            announced: vip.is_announced(),
            forced: is_forced(vip),
            restricted: Restricted::of(vip),
            health_check_node_ports: vip.spec.health_check_node_ports.clone(),
            load_sharing: vip.spec.load_sharing.clone(),
            misnamed: name != virtual_ip_name(address),
        }
    }
}

/// Error: the change needs a full computation.
struct NeedsWhole;

impl Index {
    /// Computes the desired state of `node`, which has these keys, from all objects.
    pub(crate) fn new(
        node: &str,
        routers: &[Arc<VirtualRouter>],
        vips: &[Arc<VirtualIP>],
        answered: Arc<Answered>,
        keys: &Keys,
    ) -> (Self, Desired) {
        let desired = desired(node, routers, vips, &answered).withhold(|id| keys.has(id));
        let named = |name: &Option<String>| name.clone().unwrap_or_default();
        let vips: HashMap<String, Known> = vips
            .iter()
            .map(|vip| {
                let name = named(&vip.metadata.name);
                let known = Known::of(&name, vip);
                (name, known)
            })
            .collect();
        let routers =
            routers.iter().map(|router| (named(&router.metadata.name), Arc::clone(router))).collect();
        let misnamed = vips.values().filter(|known| known.misnamed).count();
        let elements = shared::elements(&desired.shared);
        (Self { node: node.to_owned(), answered, routers, vips, misnamed, elements }, desired)
    }

    /// Returns true if the desired state was computed from this very `answered`.
    pub(crate) fn is_of(&self, answered: &Arc<Answered>) -> bool {
        Arc::ptr_eq(&self.answered, answered)
    }

    /// Returns true if a virtual router is unchanged in all that matters.
    pub(crate) fn is_as_known(&self, name: &str, now: Option<&VirtualRouter>) -> bool {
        let is_same = |one: &VirtualRouter, other: &VirtualRouter| {
            let (times, others) = (&one.metadata, &other.metadata);
            one.spec == other.spec && times.creation_timestamp == others.creation_timestamp
        };
        match (self.routers.get(name), now) {
            (None, None) => true,
            (Some(known), Some(now)) => is_same(known, now),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    /// Applies a virtual IP's current state to `desired`, which was up to date before, and adds the changes to `part`. Returns false if
    /// everything has to be computed anew.
    pub(crate) fn take(
        &mut self,
        name: &str,
        now: Option<&VirtualIP>,
        desired: &mut Arc<Desired>,
        part: &mut Part,
    ) -> bool {
        let new = now.map(|vip| Known::of(name, vip));
        let old = match new.clone() {
            Some(new) => self.vips.insert(name.to_owned(), new),
            None => self.vips.remove(name),
        };
        if old == new {
            return true;
        }
        let of = |known: &Option<Known>| usize::from(known.as_ref().is_some_and(|known| known.misnamed));
        self.misnamed = self.misnamed + of(&new) - of(&old);
        if self.misnamed + of(&old) > 0 {
            return false;
        }
        // Copied only while it is being written to disk.
        let desired = Arc::make_mut(desired);
        let (old, new) = (old.as_ref(), new.as_ref());
        let ports = self.share((old, new), now, desired, part);
        let ports = ports.and_then(|ports| self.leave((old, new), &ports, desired, part).map(|()| ports));
        ports.and_then(|ports| self.join(new, &ports, desired, part)).is_ok() && {
            restrict(old, new, desired, part);
            true
        }
    }

    /// Removes the address from the virtual router that it leaves.
    fn leave(
        &self,
        (old, new): (Option<&Known>, Option<&Known>),
        ports: &Ports,
        desired: &mut Desired,
        part: &mut Part,
    ) -> Result<(), NeedsWhole> {
        let Some((known, router)) = old.and_then(|known| Some((known, known.router.as_ref()?))) else {
            return Ok(());
        };
        let stays = new.and_then(|new| new.router.as_ref()) == Some(router);
        let gone = self.unused(ports, (known, router), desired)?;
        if stays && gone.is_empty() {
            return Ok(());
        }
        let Some(assignment) = self.assignment(router, known.address, desired)? else { return Ok(()) };
        if gone.iter().fold(false, |any, port| any | assignment.health_check_node_ports.remove(port)) {
            part.routers.insert(router.clone());
        }
        if stays {
            return Ok(());
        }
        assignment.addresses.remove(&known.address);
        assignment.unproven.remove(&known.address);
        assignment.forced.remove(&known.address);
        part.routers.insert(router.clone());
        // Without an address it is not run at all.
        if assignment.addresses.is_empty() { Err(NeedsWhole) } else { Ok(()) }
    }

    /// Inserts the address into the virtual router that it joins, and updates its sets `unproven` and `forced`.
    fn join(
        &self,
        new: Option<&Known>,
        ports: &Ports,
        desired: &mut Desired,
        part: &mut Part,
    ) -> Result<(), NeedsWhole> {
        let Some((known, router)) = new.and_then(|known| Some((known, known.router.as_ref()?))) else {
            return Ok(());
        };
        let Some(assignment) = self.assignment(router, known.address, desired)? else { return Ok(()) };
        let mut changed = assignment.addresses.insert(known.address);
        let mut put = |all: &mut BTreeSet<IpAddr>, is_in: bool| {
            changed |= if is_in { all.insert(known.address) } else { all.remove(&known.address) };
        };
        put(&mut assignment.unproven, !known.announced);
        put(&mut assignment.forced, known.forced);
        for port in &ports.new {
            changed |= assignment.health_check_node_ports.insert(*port);
        }
        if changed {
            part.routers.insert(router.clone());
        }
        Ok(())
    }

    /// Returns this node's assignment of a virtual router that may carry the address; `None` if the node does not take part in it.
    fn assignment<'a>(
        &self,
        router: &str,
        address: IpAddr,
        desired: &'a mut Desired,
    ) -> Result<Option<&'a mut Assignment>, NeedsWhole> {
        let Some(known) = self.routers.get(router) else { return Ok(None) };
        let own = known.spec.nodes.iter().find(|candidate| candidate.name == self.node);
        let Some(own) = own else { return Ok(None) };
        let candidates = known.spec.nodes.iter().map(|candidate| candidate.address).collect();
        if !is_announceable(&self.node, address, own.address, &candidates, &self.answered) {
            return Err(NeedsWhole);
        }
        let assignment = desired.assignments.iter_mut().find(|one| one.virtual_router == router);
        assignment.map(Some).ok_or(NeedsWhole)
    }
}

/// Updates the restrictions of the address.
fn restrict(old: Option<&Known>, new: Option<&Known>, desired: &mut Desired, part: &mut Part) {
    let of = |known: Option<&Known>| known.map(|known| known.restricted.clone());
    let (old, new) = (of(old), of(new));
    if old == new {
        return;
    }
    part.restricted = true;
    if let Some(old) = old
        && let Ok(at) = desired.restricted.binary_search_by_key(&old.address, |one| one.address)
    {
        desired.restricted.remove(at);
    }
    if let Some(new) = new {
        let at = desired.restricted.partition_point(|one| one.address < new.address);
        desired.restricted.insert(at, new);
    }
}
