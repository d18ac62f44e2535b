//! The virtual routers as they are at the beginning of a round.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use windlass_vrrp::Time;

use super::plan::ReplicatedRouter;
use crate::config::Hold;
use crate::handle::{Plan, RouterHandle};

/// A virtual router at the beginning of a round.
pub(super) struct Router {
    pub(super) handle: Arc<RouterHandle>,
    pub(super) plan: Arc<Plan>,
    takeover: u64,
    active: bool,
}

/// Whether what is shared of one is what is shared of the other.
impl PartialEq for Router {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
            && Arc::ptr_eq(&self.plan, &other.plan)
            && self.active == other.active
    }
}

impl Router {
    pub(super) fn of(handle: &Arc<RouterHandle>, now: Time) -> Self {
        // The takeover before whether there is one: what comes in between is for the next round.
        let (takeover, _) = handle.takeover();
        Self { handle: Arc::clone(handle), plan: handle.plan(), takeover, active: handle.is_active(now) }
    }

    /// The same, for what is shared; `None` while its interface is not there.
    pub(super) fn replicated(&self) -> Option<ReplicatedRouter> {
        let plan = &self.plan;
        let link = plan.link.as_ref()?;
        let replicas = match plan.hold {
            Hold::Respond => Arc::clone(&plan.replicas),
            Hold::Address | Hold::Vmac => Arc::default(),
        };
        Some(ReplicatedRouter {
            vips: Arc::clone(&plan.addresses),
            active: self.active,
            source: plan.standing.source(),
            interface: link.index,
            peers: plan.standing.peers().clone(),
            replicas,
            keys: plan.standing.authentication.as_ref().map(|one| (one.keyring.clone(), one.mode)),
        })
    }

    /// Whether its takeover waits for replicas to be put in the place of what was forwarded.
    pub(super) fn waits(&self, now: Time) -> bool {
        self.active && self.handle.is_blocked() && self.handle.prepares_until(now).is_some()
    }

    /// Whether this node is Active, and the hold thread has found out whether the former Active lives, so that connections are forwarded
    /// to it.
    fn is_settled(&self, now: Time) -> bool {
        self.active && self.handle.is_prepared(self.takeover, now)
    }
}

/// Those of which the hold thread has found out. To be asked once for all that follows: what it finds out later is for the next round, or else
/// an address would be announced before its connections are there.
pub(super) fn settled(routers: &[Router], now: Time) -> Vec<&Router> {
    routers.iter().filter(|router| router.is_settled(now)).collect()
}

/// Those of the VIPs that this node has taken over for which replicas wait, but for what is forwarded to the former Active.
pub(super) fn waited_for(settled: &[&Router], forwarded: &BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
    let waiting = settled.iter().filter(|router| router.handle.is_blocked());
    let vips = waiting.flat_map(|router| router.plan.addresses.iter().copied());
    vips.filter(|vip| !forwarded.contains(vip)).collect()
}

/// What waits for replicas to be there waits no longer. Whether anybody did.
pub(super) fn say_unblocked(settled: &[&Router]) -> bool {
    settled.iter().fold(false, |waits, router| waits | router.handle.set_unblocked(router.takeover))
}
