//! Receives from other hosts: queries for VIPs, claims to VIPs, and adverts of foreign routers.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_kernel::clock;
use windlass_kernel::sockets::{LinkSockets, is_empty};
use windlass_vrrp::wire::{self, Rejection};
use windlass_vrrp::{Family, Time, Vrid};

use crate::config::AddressConflictPolicy;
use crate::event::Event;

use super::address_probe::{ClaimOutcome, Claimant};
use super::announcer::announced_mac;
use super::conflicts::Contest;
use super::packet::{Claim, NeighbourPacket, Query};
use super::peer_adverts::{self, PeerAdverts};
use super::tracker::SocketsId;
use super::{FOREIGN_PAUSE, FollowedRouter, HandleId, Neighbour, TRANSIT_TIME, id_of, routers_of};

/// Most packets read from a socket in one round: a flood on one must not keep the others waiting.
const PACKETS_A_ROUND: usize = 256;
/// Longest time for which nothing is read in a flood: a host that asks for a VIP meanwhile asks again after a second.
const LONGEST_REST: Duration = Duration::from_millis(5);
/// Time that the announcement of one address takes, among many of a takeover.
const ANNOUNCEMENT: Duration = Duration::from_micros(50);
/// Longest frame that is read whole.
const MAX_FRAME_LENGTH: usize = 1514;

impl Neighbour<'_> {
    /// Reads ARP and neighbour discovery; answers queries for addresses this node is Active for. Rests for as long as it took if
    /// there is more than is read in a round.
    pub(super) fn answer_all(&mut self, links: &[Arc<LinkSockets>]) {
        let began = clock::now();
        if began < self.answer_due {
            return;
        }
        let mut is_flooded = false;
        for link in links {
            is_flooded |= self.answer(link);
        }
        self.read_until = began;
        if is_flooded {
            let now = clock::now();
            self.answer_due = now + now.since(began).min(LONGEST_REST);
        }
    }

    /// Reads and answers packets of a link. Returns true if there may be more than is read in a round.
    fn answer(&mut self, link: &Arc<LinkSockets>) -> bool {
        let [arp, ndp] = [Family::V4, Family::V6].map(|family| self.answer_family(link, family));
        arp || ndp
    }

    fn answer_family(&mut self, link: &Arc<LinkSockets>, family: Family) -> bool {
        let mut buffer = [0; MAX_FRAME_LENGTH];
        for _ in 0..PACKETS_A_ROUND {
            match link.neighbour.receive(family, &mut buffer) {
                Ok(length) => {
                    if let Some(packet) = NeighbourPacket::parse(&buffer[..length]) {
                        self.handle_packet(link, &packet);
                    }
                }
                Err(error) if is_empty(&error) => return false,
                // An error that the kernel left on the socket, as when the interface goes down. It is read only once.
                Err(_) => {}
            }
        }
        true
    }

    /// Likewise, for queries that are sent to a virtual router MAC address.
    pub(super) fn answer_unicast(&mut self) {
        let sockets = self.followed.values().filter_map(|FollowedRouter { plan, unicast, .. }| {
            Some((plan.link.clone(), Arc::clone(unicast.as_ref()?)))
        });
        let mut buffer = [0; MAX_FRAME_LENGTH];
        for (link, socket) in sockets.collect::<Vec<_>>() {
            for _ in 0..PACKETS_A_ROUND {
                match socket.receive(&mut buffer) {
                    Ok(length) => {
                        // Read also while the interface cannot be used: what is left unread would wake this thread for ever.
                        if let (Some(link), Some(packet)) = (&link, NeighbourPacket::parse(&buffer[..length]))
                        {
                            self.handle_packet(link, &packet);
                        }
                    }
                    Err(error) if is_empty(&error) => break,
                    // The device went down.
                    Err(_) => {}
                }
            }
        }
    }

    fn handle_packet(&mut self, link: &Arc<LinkSockets>, packet: &NeighbourPacket) {
        let claimed = packet.claim.filter(|claim| self.handle_claim(id_of(link), *claim));
        let Some(query) = packet.query else { return };
        // What it claims of our addresses is reported and answered by the claim. For the others it is a client like any: an ARP
        // request claims the address from which it asks.
        let queries_what_it_claims = claimed.is_some_and(|claim| claim.address == query.target());
        if !queries_what_it_claims && !self.own_macs.is_engine_mac(query.sender_mac()) {
            self.handle_query(link, &query);
        }
    }

    /// Handles a claim. Returns true if it was about an address that this node is to serve.
    fn handle_claim(&mut self, link: SocketsId, claim: Claim) -> bool {
        if self.own_macs.is_engine_mac(claim.mac) {
            self.note_peer_takeover(link, claim);
            return false;
        }
        let mut ours = false;
        for id in self.routers_of(link, claim.address) {
            let now = clock::now();
            let Some(followed) = self.followed.get_mut(&id) else { continue };
            if followed.handle.is_lingering(now) && !self.own_macs.contains(claim.mac, now) {
                let others = u32::try_from(followed.plan.addresses.len()).unwrap_or(u32::MAX);
                followed.handle.limit_linger(now + TRANSIT_TIME + ANNOUNCEMENT.saturating_mul(others));
                continue;
            }
            if !followed.handle.is_active(now) || self.own_macs.contains(claim.mac, now) {
                continue;
            }
            ours = true;
            match followed.tracker.note_claim(claim.address, now) {
                ClaimOutcome::Irrelevant => {}
                ClaimOutcome::Taken => {
                    let key = followed.handle.key.clone();
                    self.events.send(Event::AddressTaken { key, address: claim.address, mac: claim.mac });
                    // It may have been announced until now.
                    self.follow(id);
                }
                ClaimOutcome::LeftToPeer => {
                    let key = followed.handle.key.clone();
                    self.events.send(Event::AddressLeftToPeer {
                        key,
                        address: claim.address,
                        mac: claim.mac,
                    });
                    self.follow(id);
                }
                ClaimOutcome::Conflict => self.conflicts.note(id, claim, now),
                ClaimOutcome::Forced => {
                    self.conflicts.note(id, claim, now);
                    self.follow(id);
                }
            }
        }
        ours
    }

    /// Recognises a peer's takeover from this node by a claim from the virtual MAC address, which is this node's as well.
    fn note_peer_takeover(&self, link: SocketsId, claim: Claim) {
        let now = clock::now();
        for id in self.routers_of(link, claim.address) {
            let Some(FollowedRouter { handle, .. }) = self.followed.get(&id) else { continue };
            if handle.is_lingering(now) && claim.mac == handle.key.vrid.mac(handle.key.family) {
                handle.limit_linger(now + TRANSIT_TIME + ANNOUNCEMENT.saturating_mul(self.addresses_of(id)));
            }
        }
    }

    fn addresses_of(&self, id: HandleId) -> u32 {
        let count = self.followed.get(&id).map_or(0, |followed| followed.plan.addresses.len());
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn handle_query(&self, link: &Arc<LinkSockets>, query: &Query) {
        let target = query.target();
        for id in self.routers_of(id_of(link), target) {
            let Some(FollowedRouter { handle, plan, tracker, .. }) = self.followed.get(&id) else { continue };
            if !tracker.answers(target) {
                continue;
            }
            let answer = query.answer(announced_mac(handle, plan, link));
            if handle.is_active(clock::now()) {
                let counter = match link.neighbour.send(Family::of(target), &[answer.bytes()]) {
                    Ok(_) => &handle.replies,
                    Err(_) => &handle.send_errors,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }

    /// The routers on this interface that have this address, whatever their state.
    fn routers_of(&self, link: SocketsId, address: IpAddr) -> Vec<HandleId> {
        routers_of(&self.by_address, link, address).collect()
    }

    /// Reports foreign claims that have stood for a while, and defends the addresses or asks whether they are to be yielded.
    pub(super) fn settle_conflicts(&mut self) {
        let now = clock::now();
        if self.conflicts.deadline().is_none_or(|due| due > now) {
            return;
        }
        let (followed, own_macs) = (&self.followed, &mut self.own_macs);
        let contest = |id: HandleId, claim: &Claim| {
            let Some(FollowedRouter { handle, tracker, .. }) = followed.get(&id) else {
                return Contest::Over;
            };
            if !handle.is_active(now) || !tracker.claims(claim.address) || own_macs.contains(claim.mac, now) {
                Contest::Over
            } else if tracker.announces(claim.address) {
                Contest::Stands
            } else {
                Contest::Pending
            }
        };
        for conflict in self.conflicts.due(now, contest) {
            let Claim { address, mac } = conflict.claim;
            let Some(followed) = self.followed.get_mut(&conflict.router) else { continue };
            if conflict.report {
                let interface = followed.handle.key.interface.clone();
                self.events.send(Event::AddressConflict { interface, address, mac });
            }
            match followed.plan.address_conflict {
                // The claimant may be gone by now, a peer that took over by mistake for one: only a host that answers has it.
                AddressConflictPolicy::Yield if !followed.plan.forced.contains(&address) => {
                    followed.tracker.contest(address, Claimant::Host, now);
                }
                AddressConflictPolicy::Yield | AddressConflictPolicy::Defend if conflict.defend => {
                    self.defend(conflict.router, address);
                }
                AddressConflictPolicy::Yield | AddressConflictPolicy::Defend => {}
            }
        }
    }

    /// Receives adverts of routers that are no candidates, unless it did so a moment ago.
    pub(super) fn receive_foreign_adverts(&mut self, links: &[Arc<LinkSockets>]) {
        let now = clock::now();
        if now < self.foreign_due {
            return;
        }
        for link in links {
            if self.read_foreign_adverts(link) {
                self.foreign_due = now + FOREIGN_PAUSE;
            }
        }
    }

    /// Reads foreign adverts of a link. Returns true if there were any.
    fn read_foreign_adverts(&mut self, link: &LinkSockets) -> bool {
        let mut heard = false;
        let mut peer_adverts = PeerAdverts::new(link.serial);
        for raw in link.families() {
            for _ in 0..PACKETS_A_ROUND {
                let received = raw.foreign.receive(&mut self.buffer);
                heard |= !received.as_ref().is_err_and(is_empty);
                match received {
                    Ok(Ok(datagram)) => {
                        let family = Family::of(datagram.source);
                        let runs = |vrid: Vrid| self.by_vrid.contains_key(&(link.serial, family, vrid.get()));
                        let any = peer_adverts::any(&datagram);
                        // Of a virtual router that runs here it is a stranger's, good or bad.
                        if let Err(rejection) = wire::parse(&datagram, |vrid| runs(vrid).then_some(&any)) {
                            link.counters.count_rejected(rejection);
                            if matches!(rejection, Rejection::UnknownVrid(_)) {
                                peer_adverts.hear(&datagram, &any, &self.by_address, &mut self.followed);
                            }
                        }
                        let Some(foreign) = wire::foreign_router(&datagram) else { continue };
                        link.counters.count_foreign();
                        let router = (link.serial, family, foreign.vrid);
                        if let Some(handle) = self.by_vrid.get(&router) {
                            handle.foreign_adverts.fetch_add(1, Ordering::Relaxed);
                        }
                        if self.foreign_reports.permits((link.name.clone(), foreign), clock::now()) {
                            self.events.send(Event::foreign_router(&link.name, foreign, &datagram));
                        }
                    }
                    Ok(Err(rejection)) => link.counters.count_rejected(rejection),
                    Err(error) if is_empty(&error) => break,
                    Err(_) => {}
                }
            }
        }
        self.obey(peer_adverts);
        heard
    }

    /// Joins and leaves groups. Returns true if there is more to do immediately.
    pub(super) fn join_groups(&mut self) -> bool {
        let now = clock::now();
        let mut more = false;
        for groups in self.groups.values_mut() {
            more |= groups.step(now);
        }
        more
    }

    pub(super) fn groups_deadline(&self) -> Option<Time> {
        self.groups.values().filter_map(super::groups::Groups::deadline).min()
    }
}
