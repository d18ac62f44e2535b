//! Changes of shared addresses, and of the ports by which a node's endpoints are known where an address is not shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_api::VirtualIP;
use windlass_engine::Family;

use super::{Index, Known, NeedsWhole, Part};
use crate::agent::desired::Desired;
use crate::agent::sharing::{MOST_ELEMENTS, SharedAddress};

/// Changed ports of a virtual IP, as far as they count for its virtual router: of a shared one none does.
pub(super) struct Ports {
    /// Ports that counted for the former virtual router and do not any more.
    gone: Vec<u16>,
    /// Ports that count.
    pub(super) new: Vec<u16>,
}

/// Returns the number of elements of these in the kernel's maps.
pub(super) fn elements(shared: &[Arc<SharedAddress>]) -> BTreeMap<Family, usize> {
    let mut sums = BTreeMap::new();
    for one in shared {
        let sum: &mut usize = sums.entry(Family::of(one.address)).or_default();
        *sum = sum.saturating_add(one.elements());
    }
    sums
}

impl Index {
    /// Puts the virtual IP among the shared ones as it is now, or takes it away. Returns its ports.
    pub(super) fn share(
        &mut self,
        (old, new): (Option<&Known>, Option<&Known>),
        now: Option<&VirtualIP>,
        desired: &mut Desired,
        part: &mut Part,
    ) -> Result<Ports, NeedsWhole> {
        let Some(address) = old.or(new).map(|known| known.address) else { return Err(NeedsWhole) };
        // One that has no room may have it next.
        if !desired.unshared.is_empty() {
            return Err(NeedsWhole);
        }
        let found = desired.shared.binary_search_by_key(&address, |one| one.address);
        let before = found.ok().and_then(|at| desired.shared.get(at)).cloned();
        let after = self.shared(new, now)?.map(Arc::new);
        if before != after {
            self.note_elements(before.as_deref(), after.as_deref())?;
            match (found, &after) {
                (Ok(at), Some(after)) => desired.shared[at] = Arc::clone(after),
                (Err(at), Some(after)) => desired.shared.insert(at, Arc::clone(after)),
                (Ok(at), None) => drop(desired.shared.remove(at)),
                (Err(_), None) => {}
            }
            part.shared = true;
        }
        let ports = |known: Option<&Known>, is_shared: bool| {
            let known = known.filter(|known| known.router.is_some() && !is_shared);
            known.map(|known| known.health_check_node_ports.clone()).unwrap_or_default()
        };
        let stays = old.map(|known| &known.router) == new.map(|known| &known.router);
        let (mut gone, new) = (ports(old, before.is_some()), ports(new, after.is_some()));
        gone.retain(|port| !stays || !new.contains(port));
        Ok(Ports { gone, new })
    }

    fn shared(
        &self,
        new: Option<&Known>,
        now: Option<&VirtualIP>,
    ) -> Result<Option<SharedAddress>, NeedsWhole> {
        let router = new.and_then(|known| self.routers.get(known.router.as_ref()?));
        let (Some(router), Some(vip)) = (router, now) else { return Ok(None) };
        let Some(load) = &vip.spec.load_sharing else { return Ok(None) };
        let Some(one) = SharedAddress::of(&self.node, vip, load, router, &self.answered) else {
            return Ok(None);
        };
        one.check(router).map_err(|_| NeedsWhole)?;
        Ok(Some(one))
    }

    fn note_elements(
        &mut self,
        before: Option<&SharedAddress>,
        after: Option<&SharedAddress>,
    ) -> Result<(), NeedsWhole> {
        for (one, is_new) in [(before, false), (after, true)] {
            let Some(one) = one else { continue };
            let sum = self.elements.entry(Family::of(one.address)).or_default();
            *sum =
                if is_new { sum.saturating_add(one.elements()) } else { sum.saturating_sub(one.elements()) };
            if *sum > MOST_ELEMENTS {
                return Err(NeedsWhole);
            }
        }
        Ok(())
    }

    /// Returns the ports that are gone and that no other virtual IP of this router has.
    pub(super) fn unused(
        &self,
        ports: &Ports,
        (known, router): (&Known, &str),
        desired: &Desired,
    ) -> Result<Vec<u16>, NeedsWhole> {
        // Ports of one that is refused do not count.
        if !ports.gone.is_empty() && !desired.refused.is_empty() {
            return Err(NeedsWhole);
        }
        let is_shared =
            |one: &Known| desired.shared.binary_search_by_key(&one.address, |one| one.address).is_ok();
        let others = || {
            let of_router = self.vips.values().filter(|one| one.router.as_deref() == Some(router));
            of_router.filter(|one| one.address != known.address && !is_shared(one))
        };
        let is_used = |port: &&u16| others().any(|one| one.health_check_node_ports.contains(port));
        Ok(ports.gone.iter().filter(|port| !is_used(port)).copied().collect())
    }
}
