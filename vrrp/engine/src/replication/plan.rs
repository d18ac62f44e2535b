//! With which peers this node shares the connections of which VIPs: follows from its virtual routers. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use windlass_vrrp::auth::{AuthMode, Keyring};

#[cfg(test)]
mod tests;

/// A virtual router.
#[derive(Clone, Debug)]
pub(super) struct ReplicatedRouter {
    /// Its VIPs.
    pub(super) vips: Arc<[IpAddr]>,
    /// Whether this node is Active.
    pub(super) active: bool,
    /// This node's address in it.
    pub(super) source: IpAddr,
    /// Number of its interface.
    pub(super) interface: u32,
    /// The other candidates.
    pub(super) peers: BTreeSet<IpAddr>,
    /// Those of them that are told the connections; none where they cannot be replicated.
    pub(super) replicas: Arc<BTreeSet<IpAddr>>,
    /// What its adverts are signed with.
    pub(super) keys: Option<(Keyring, AuthMode)>,
}

/// The two ends of what is shared with a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ends {
    /// This node's address.
    pub(super) own: IpAddr,
    /// Number of the interface by which the peer is reached.
    pub(super) interface: u32,
    /// The peer's address.
    pub(super) peer: IpAddr,
}

/// What is shared with a peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PeerPlan {
    /// Whether it is told connections, be it none at the moment.
    pub(super) is_replica: bool,
    /// VIPs that this node serves, of which the peer is told the connections.
    pub(super) told: BTreeSet<IpAddr>,
    /// VIPs of which the peer is believed.
    pub(super) believed: BTreeSet<IpAddr>,
    /// What datagrams are signed with: where virtual routers differ, as one of those does that sign.
    pub(super) keys: Option<(Keyring, AuthMode)>,
}

/// What this node shares.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SharingPlan {
    /// VIPs for which it is Active, also where it has nobody to tell: what the kernel has of them is this node's own.
    pub(super) active: BTreeSet<IpAddr>,
    /// Those of them whose connections are told to others.
    pub(super) followed: BTreeSet<IpAddr>,
    /// What it shares with each peer.
    pub(super) peers: BTreeMap<Ends, PeerPlan>,
}

/// What follows from these virtual routers. A router without replicas shares nothing.
pub(super) fn plan(routers: &[ReplicatedRouter]) -> SharingPlan {
    let mut plan = SharingPlan::default();
    for router in routers {
        if router.active {
            plan.active.extend(router.vips.iter());
        }
        if router.replicas.is_empty() {
            continue;
        }
        if router.active {
            plan.followed.extend(router.vips.iter());
        }
        for peer in &router.peers {
            let ends = Ends { own: router.source, interface: router.interface, peer: *peer };
            let peer_plan = plan.peers.entry(ends).or_default();
            peer_plan.believed.extend(router.vips.iter());
            if router.replicas.contains(peer) {
                peer_plan.is_replica = true;
                if router.active {
                    peer_plan.told.extend(router.vips.iter());
                }
            }
            if peer_plan.keys.is_none() {
                peer_plan.keys.clone_from(&router.keys);
            }
        }
    }
    plan
}
