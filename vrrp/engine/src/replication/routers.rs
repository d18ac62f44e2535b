//! The virtual routers as they are at the beginning of a round.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use windlass_vrrp::Time;

use super::plan::ReplicatedRouter;
use crate::config::Hold;
use crate::handle::{Plan, RouterHandle};
use crate::sharing::trails::Trails;

/// A virtual router at the beginning of a round.
pub(super) struct Router {
    pub(super) handle: Arc<RouterHandle>,
    pub(super) plan: Arc<Plan>,
    /// Its VIPs but for shared ones: of these each server has its connections alone.
    vips: Arc<[IpAddr]>,
    /// Number of its interface, also while that is away; `None` if it was never there.
    interface: Option<u32>,
    takeover: u64,
    active: bool,
}

/// Numbers of interfaces by their names: of one that is away, the last that it had. A carrier that is lost for a moment, as after a failure
/// of a switch, costs no replica.
#[derive(Default)]
pub(super) struct Interfaces(BTreeMap<String, u32>);

impl Interfaces {
    /// The virtual routers as they are now. `trails`: of shared addresses.
    pub(super) fn routers(
        &mut self,
        handles: &[Arc<RouterHandle>],
        trails: Option<&Trails>,
        now: Time,
    ) -> Vec<Router> {
        self.0.retain(|name, _| handles.iter().any(|handle| handle.key.interface == *name));
        handles.iter().map(|handle| Router::of(handle, trails, self, now)).collect()
    }

    /// The number of an interface that is there as `present`, or is away.
    fn number(&mut self, name: &str, present: Option<u32>) -> Option<u32> {
        let known = self.0.get(name).copied();
        match present {
            Some(number) if known != present => drop(self.0.insert(name.to_owned(), number)),
            Some(_) | None => {}
        }
        present.or(known)
    }
}

/// Two routers are equal if the same is shared of both.
impl PartialEq for Router {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
            && Arc::ptr_eq(&self.plan, &other.plan)
            && self.vips == other.vips
            && self.active == other.active
    }
}

impl Router {
    fn of(
        handle: &Arc<RouterHandle>,
        trails: Option<&Trails>,
        interfaces: &mut Interfaces,
        now: Time,
    ) -> Self {
        // The takeover before whether there is one: what comes in between is for the next round.
        let (takeover, _) = handle.takeover();
        let (plan, active) = (handle.plan(), handle.is_active(now));
        let present = plan.link.as_ref().map(|link| link.index);
        let interface = interfaces.number(&handle.key.interface, present);
        let vips = without_shared(&plan.addresses, trails);
        Self { handle: Arc::clone(handle), plan, vips, interface, takeover, active }
    }

    /// Returns what is shared of it; `None` if its interface never was there.
    pub(super) fn replicated(&self) -> Option<ReplicatedRouter> {
        let plan = &self.plan;
        let interface = self.interface?;
        let replicas = match plan.hold {
            Hold::Respond => Arc::clone(&plan.replicas),
            Hold::Address | Hold::Vmac => Arc::default(),
        };
        Some(ReplicatedRouter {
            vips: Arc::clone(&self.vips),
            active: self.active,
            source: plan.standing.source(),
            interface,
            peers: plan.standing.peers().clone(),
            replicas,
            keys: plan.standing.authentication.as_ref().map(|one| (one.keyring.clone(), one.mode)),
        })
    }

    /// Returns true if its takeover waits for replicas to replace forwarded connections.
    pub(super) fn waits(&self, now: Time) -> bool {
        self.active && self.handle.is_blocked() && self.handle.prepares_until(now).is_some()
    }

    /// Returns true if this node is Active, and the hold thread has found out whether the previous Active lives, so that
    /// connections are forwarded to it.
    fn is_settled(&self, now: Time) -> bool {
        self.active && self.handle.is_prepared(self.takeover, now)
    }
}

/// Returns the addresses that are not shared.
fn without_shared(addresses: &Arc<[IpAddr]>, trails: Option<&Trails>) -> Arc<[IpAddr]> {
    let is_shared = |vip: &IpAddr| trails.is_some_and(|trails| trails.addresses.contains_key(vip));
    if addresses.iter().any(is_shared) {
        addresses.iter().copied().filter(|vip| !is_shared(vip)).collect()
    } else {
        Arc::clone(addresses)
    }
}

/// Returns the routers of which the hold thread has found out. To be called once for all that follows: what it finds out later is
/// for the next round, or else an address would be announced before its connections are there.
pub(super) fn settled(routers: &[Router], now: Time) -> Vec<&Router> {
    routers.iter().filter(|router| router.is_settled(now)).collect()
}

/// Returns the VIPs that this node has taken over for which replicas wait, but for those forwarded to the previous Active.
pub(super) fn waited_for(settled: &[&Router], forwarded: &BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
    let waiting = settled.iter().filter(|router| router.handle.is_blocked());
    let vips = waiting.flat_map(|router| router.plan.addresses.iter().copied());
    vips.filter(|vip| !forwarded.contains(vip)).collect()
}

/// Ends the wait of these routers for replicas. Returns true if any waited.
pub(super) fn say_unblocked(settled: &[&Router]) -> bool {
    settled.iter().fold(false, |waits, router| waits | router.handle.set_unblocked(router.takeover))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_shared_addresses_are_not_replicated() {
        let all: Arc<[IpAddr]> = [1, 2, 3].map(|n| IpAddr::from([192, 0, 2, n])).into();
        let shared = |vips: &[IpAddr]| Trails {
            addresses: vips.iter().map(|vip| (*vip, 0)).collect(),
            ..Trails::default()
        };
        let rows = [(None, &all[..]), (Some(shared(&[])), &all), (Some(shared(&all[1..])), &all[..1])];
        for (trails, expected) in rows {
            assert_eq!(*without_shared(&all, trails.as_ref()), *expected, "{trails:?}");
        }
    }

    #[test]
    fn an_interface_that_is_away_is_known_by_its_last_number() {
        let mut interfaces = Interfaces::default();
        for (name, present, expected) in [
            ("eth0", None, None),
            ("eth0", Some(2), Some(2)),
            ("eth1", Some(3), Some(3)),
            ("eth0", None, Some(2)),
            ("eth1", None, Some(3)),
            // It was removed and created again.
            ("eth0", Some(7), Some(7)),
            ("eth0", None, Some(7)),
        ] {
            assert_eq!(interfaces.number(name, present), expected, "{name} {present:?}");
        }
        assert_eq!(interfaces.routers(&[], None, Time::default()).len(), 0);
        assert_eq!(interfaces.number("eth0", None), None, "no router is on it any more");
    }
}
