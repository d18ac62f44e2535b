//! Peers with which this node shares the connections of VIPs: follows from its virtual routers. Pure.

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
    /// True if this node is Active.
    pub(super) active: bool,
    /// This node's address in it.
    pub(super) source: IpAddr,
    /// Number of its interface.
    pub(super) interface: u32,
    /// The other candidates.
    pub(super) peers: BTreeSet<IpAddr>,
    /// Peers to which the connections are replicated; none where they cannot be.
    pub(super) replicas: Arc<BTreeSet<IpAddr>>,
    /// Keys and mode by which its adverts are signed.
    pub(super) keys: Option<(Keyring, AuthMode)>,
}

/// The two ends of a session with a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ends {
    /// This node's address.
    pub(super) own: IpAddr,
    /// Number of the interface by which the peer is reached.
    pub(super) interface: u32,
    /// The peer's address.
    pub(super) peer: IpAddr,
}

/// Connections shared with a peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct PeerPlan {
    /// True if connections are replicated to it, be it none at the moment.
    pub(super) is_replica: bool,
    /// VIPs that this node serves, and whose connections are replicated to the peer.
    pub(super) told: BTreeSet<IpAddr>,
    /// VIPs whose replicas are accepted from the peer.
    pub(super) believed: BTreeSet<IpAddr>,
    /// Keys and mode by which datagrams are signed: where virtual routers differ, those of one that signs.
    pub(super) keys: Option<(Keyring, AuthMode)>,
}

/// Connections that this node shares.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SharingPlan {
    /// VIPs for which it is Active, also where it has no peer to replicate to: what the kernel has of them is this node's own.
    pub(super) active: BTreeSet<IpAddr>,
    /// VIPs in `active` whose connections are replicated.
    pub(super) followed: BTreeSet<IpAddr>,
    /// Connections that it shares with each peer.
    pub(super) peers: BTreeMap<Ends, PeerPlan>,
}

/// Returns the plan for these virtual routers. A router without replicas shares nothing.
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
