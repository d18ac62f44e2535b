//! Adverts of peers in virtual routers that this node does not run, for VIPs that it claims.
//!
//! A node that was cut off while VIPs changed their virtual router stays Active in the old one when it is back. Then two nodes are
//! Active for them, each in a virtual router that the other does not run, and no election can end that. Neither can know that it is
//! the one that is behind. So they are compared as in an election: the node that would lose it asks the LAN for the VIPs and leaves
//! them to the peer if that answers, whatever the policy for addresses that others claim. VIPs that a peer's advert does not list,
//! because an advert cannot hold all, stay with both until the node that is behind learns of the change.

use std::collections::BTreeMap;
use std::net::IpAddr;

use windlass_kernel::clock;
use windlass_vrrp::Versions;
use windlass_vrrp::auth::SignedData;
use windlass_vrrp::wire::{self, Addressing, Datagram, ExpectedAdvert, Packet};

use super::address_probe::Claimant;
use super::tracker::SocketsId;
use super::{FollowedRouter, HandleId, Neighbour, RoutersByAddress, routers_of};

#[cfg(test)]
mod tests;

/// Most VIPs of adverts that are looked up in one round, which comes each ten milliseconds: a flood must not take more of a processor
/// than a few hundredths.
const LISTED_A_ROUND: usize = 4096;

/// State of a peer with regard to a VIP of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PeerClaim {
    /// It is Active for it, and would win an election.
    GoesFirst,
    /// It has resigned.
    Resigned,
}

/// Claims of peers in the adverts of a round.
pub(super) struct PeerAdverts {
    link: SocketsId,
    lookups: usize,
    claims: Vec<(HandleId, IpAddr, PeerClaim)>,
}

impl PeerAdverts {
    /// Begins a round on this interface.
    pub(super) fn new(link: SocketsId) -> Self {
        Self { link, lookups: LISTED_A_ROUND, claims: Vec::new() }
    }

    /// Reads an advert of a virtual router that this node does not run.
    pub(super) fn hear(
        &mut self,
        datagram: &Datagram<'_>,
        expected: &ExpectedAdvert,
        by_address: &RoutersByAddress,
        followed: &mut BTreeMap<HandleId, FollowedRouter>,
    ) {
        let Ok(packet) = wire::parse(datagram, |_| Some(expected)) else { return };
        // Each router admits it once for all its VIPs: a second time it would be a replay.
        let mut admitted: BTreeMap<HandleId, bool> = BTreeMap::new();
        for address in packet.addresses() {
            let Some(left) = self.lookups.checked_sub(1) else { return };
            self.lookups = left;
            for id in routers_of(by_address, self.link, address) {
                let Some(router) = followed.get_mut(&id) else { continue };
                let Some(claim) = claim(&packet, address, router) else { continue };
                if *admitted.entry(id).or_insert_with(|| is_authentic(&packet, router)) {
                    self.claims.push((id, address, claim));
                }
            }
        }
    }
}

impl Neighbour<'_> {
    /// Asks for VIPs for which peers go first, and takes back those that they have no longer.
    pub(super) fn obey(&mut self, adverts: PeerAdverts) {
        let now = clock::now();
        for (id, address, claim) in adverts.claims {
            let Some(FollowedRouter { handle, tracker, .. }) = self.followed.get_mut(&id) else { continue };
            match claim {
                PeerClaim::GoesFirst => {
                    if self.peer_questions.permits((handle.key.clone(), address), now) {
                        tracker.contest(address, Claimant::Peer, now);
                    }
                }
                PeerClaim::Resigned => {
                    tracker.take_back(address);
                    self.follow(id);
                }
            }
        }
    }
}

/// Returns the peer's claim to a VIP of this router; `None` if the advert is no peer's, or does not concern this node.
fn claim(packet: &Packet<'_>, address: IpAddr, router: &FollowedRouter) -> Option<PeerClaim> {
    let FollowedRouter { plan, tracker, .. } = router;
    if !plan.standing.is_peer(packet.source) {
        return None;
    }
    match packet.priority {
        Some(priority) if plan.standing.loses_to(priority, packet.source) => {
            tracker.claims(address).then_some(PeerClaim::GoesFirst)
        }
        Some(_) => None,
        None => Some(PeerClaim::Resigned),
    }
}

fn is_authentic(packet: &Packet<'_>, router: &mut FollowedRouter) -> bool {
    let data = SignedData { source: packet.source, vrid: packet.vrid, message: packet.message };
    router.authenticator.admit(data, packet.trailer, clock::wall()).is_ok()
}

/// Expectation that any advert of this link meets, signed or not.
pub(super) fn any(datagram: &Datagram<'_>) -> ExpectedAdvert {
    let addressing = if datagram.destination.is_multicast() {
        Addressing::Multicast { group: datagram.destination, unicast: false }
    } else {
        Addressing::Unicast { ttl: wire::TTL..=wire::TTL }
    };
    ExpectedAdvert { versions: Versions::V2AndV3, addressing, trailer: true }
}
