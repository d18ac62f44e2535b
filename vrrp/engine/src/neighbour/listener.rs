//! Hearing other stations: who asks for a VIP, who claims one, and which routers there are.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_vrrp::{Family, Time, wire};

use crate::clock;
use crate::event::Event;
use crate::sockets::{LinkSockets, is_empty};

use super::announcer::announced_mac;
use super::charge::LinkId;
use super::clearance::Verdict;
use super::heard::{Claim, Heard, Question};
use super::{CENSUS_PAUSE, Followed, Id, Neighbour, ON_THE_WAY, id_of};

/// Most packets read from a socket in one round: a flood on one must not keep the others waiting.
const PACKETS_A_ROUND: usize = 256;
/// Time that the announcement of one address takes, among many of a takeover.
const ANNOUNCEMENT: Duration = Duration::from_micros(50);
/// Longest frame that is read whole.
const LONGEST: usize = 1514;

impl Neighbour<'_> {
    /// Reads what ARP and neighbour discovery there is; answers who asks for addresses this node is Active for.
    pub(super) fn answer(&mut self, link: &Arc<LinkSockets>) {
        let mut buffer = [0; LONGEST];
        for family in [Family::V4, Family::V6] {
            for _ in 0..PACKETS_A_ROUND {
                match link.neighbour.receive(family, &mut buffer) {
                    Ok(length) => {
                        if let Some(heard) = Heard::parse(&buffer[..length]) {
                            self.consider(link, &heard);
                        }
                    }
                    Err(error) if is_empty(&error) => break,
                    // An error that the kernel left on the socket, as when the interface goes down. It is read only once.
                    Err(_) => {}
                }
            }
        }
    }

    /// Likewise, of those who ask a virtual router MAC address.
    pub(super) fn answer_unicast(&mut self) {
        let sockets = self.followed.values().filter_map(|Followed { plan, unicast, .. }| {
            Some((plan.link.clone(), Arc::clone(unicast.as_ref()?)))
        });
        let mut buffer = [0; LONGEST];
        for (link, socket) in sockets.collect::<Vec<_>>() {
            for _ in 0..PACKETS_A_ROUND {
                match socket.receive(&mut buffer) {
                    Ok(length) => {
                        // Read also while the interface cannot be used: what is left unread would wake this thread for ever.
                        if let (Some(link), Some(heard)) = (&link, Heard::parse(&buffer[..length])) {
                            self.consider(link, &heard);
                        }
                    }
                    Err(error) if is_empty(&error) => break,
                    // The device went down.
                    Err(_) => {}
                }
            }
        }
    }

    fn consider(&mut self, link: &Arc<LinkSockets>, heard: &Heard) {
        let claimed = heard.claim.filter(|claim| self.consider_claim(id_of(link), *claim));
        let Some(question) = heard.question else { return };
        // What it claims of our addresses is reported and answered by the claim. For the others it is a client like any: an ARP
        // request claims the address from which it asks.
        let asks_what_it_claims = claimed.is_some_and(|claim| claim.address == question.target());
        if !asks_what_it_claims && !self.own.is_near(question.asker_mac()) {
            self.consider_question(link, &question);
        }
    }

    /// Whether it was about an address that this node is to serve.
    fn consider_claim(&mut self, link: LinkId, claim: Claim) -> bool {
        if self.own.is_near(claim.mac) {
            self.hand_over(link, claim);
            return false;
        }
        let mut ours = false;
        for id in self.routers_of(link, claim.address) {
            let now = clock::now();
            let Some(followed) = self.followed.get_mut(&id) else { continue };
            if followed.duty.is_lingering(now) && !self.own.contains(claim.mac, now) {
                let others = u32::try_from(followed.plan.addresses.len()).unwrap_or(u32::MAX);
                followed.duty.let_go(now + ON_THE_WAY + ANNOUNCEMENT * others);
                continue;
            }
            if !followed.duty.holds(now) || self.own.contains(claim.mac, now) {
                continue;
            }
            ours = true;
            match followed.charge.heard(claim.address, now) {
                Verdict::Irrelevant => {}
                Verdict::Taken => {
                    let key = followed.duty.key.clone();
                    self.events.tell(Event::AddressTaken { key, address: claim.address, mac: claim.mac });
                }
                Verdict::Conflict => self.conflicts.note(id, claim, now),
            }
        }
        ours
    }

    /// A peer that has taken over from this node says so from the virtual MAC address, which is this node's as well.
    fn hand_over(&self, link: LinkId, claim: Claim) {
        let now = clock::now();
        for id in self.routers_of(link, claim.address) {
            let Some(Followed { duty, .. }) = self.followed.get(&id) else { continue };
            if duty.is_lingering(now) && claim.mac == duty.key.vrid.mac(duty.key.family) {
                duty.let_go(now + ON_THE_WAY + ANNOUNCEMENT * self.addresses_of(id));
            }
        }
    }

    fn addresses_of(&self, id: Id) -> u32 {
        let count = self.followed.get(&id).map_or(0, |followed| followed.plan.addresses.len());
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn consider_question(&self, link: &Arc<LinkSockets>, question: &Question) {
        let target = question.target();
        for id in self.routers_of(id_of(link), target) {
            let Some(Followed { duty, plan, charge, .. }) = self.followed.get(&id) else { continue };
            if !charge.answers(target) {
                continue;
            }
            let answer = question.answer(announced_mac(duty, plan, link));
            if duty.holds(clock::now()) {
                let counter = match link.neighbour.send(Family::of(target), &[answer.bytes()]) {
                    Ok(_) => &duty.replies,
                    Err(_) => &duty.send_errors,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }

    /// The routers on this interface that have this address, whatever their state.
    fn routers_of(&self, link: LinkId, address: IpAddr) -> Vec<Id> {
        let all = (link, address, Id::MIN)..=(link, address, Id::MAX);
        self.by_address.range(all).map(|(_, _, id)| *id).collect()
    }

    /// Reports and answers foreign claims that have stood for a while.
    pub(super) fn settle_conflicts(&mut self) {
        let now = clock::now();
        if self.conflicts.deadline().is_none_or(|due| due > now) {
            return;
        }
        let (followed, own) = (&self.followed, &mut self.own);
        let contested = |id: Id, claim: &Claim| {
            let router: Option<&Followed> = followed.get(&id);
            router.is_some_and(|router| router.duty.holds(now) && router.charge.claims(claim.address))
                && !own.contains(claim.mac, now)
        };
        for conflict in self.conflicts.due(now, contested) {
            let Claim { address, mac } = conflict.claim;
            if let Some(followed) = self.followed.get(&conflict.router).filter(|_| conflict.report) {
                let interface = followed.duty.key.interface.clone();
                self.events.tell(Event::AddressConflict { interface, address, mac });
            }
            if conflict.defend {
                self.defend(conflict.router, address);
            }
        }
    }

    /// Hears routers whose VRID is not configured on their interface, unless it did so a moment ago.
    pub(super) fn take_census(&mut self, links: &[Arc<LinkSockets>]) {
        let now = clock::now();
        if now < self.census_due {
            return;
        }
        for link in links {
            if self.hear_routers(link) {
                self.census_due = now + CENSUS_PAUSE;
            }
        }
    }

    /// Whether there were any.
    fn hear_routers(&mut self, link: &LinkSockets) -> bool {
        let mut heard = false;
        for raw in link.families() {
            for _ in 0..PACKETS_A_ROUND {
                let received = raw.census.receive(&mut self.room);
                heard |= !received.as_ref().is_err_and(is_empty);
                match received {
                    Ok(Ok(datagram)) => {
                        if let Err(rejection) = wire::parse(&datagram, |_| None) {
                            link.tally.reject(rejection);
                        }
                        let Some(foreign) = wire::foreign_router(&datagram) else { continue };
                        link.tally.stranger();
                        if self.strangers.note((link.name.clone(), foreign), clock::now()) {
                            self.events.tell(Event::stranger(&link.name, foreign));
                        }
                    }
                    Ok(Err(rejection)) => link.tally.reject(rejection),
                    Err(error) if is_empty(&error) => break,
                    Err(_) => {}
                }
            }
        }
        heard
    }

    /// Joins and leaves groups; whether there is more to do at once.
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
