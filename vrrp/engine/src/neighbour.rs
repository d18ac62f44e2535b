//! The thread `windlass-neighbour`: answers ARP for VIPs, announces them, and hears foreign routers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use windlass_vrrp::wire::{self, Sighting};
use windlass_vrrp::{Family, Time};

use crate::census::{Claims, Sightings};
use crate::clock;
use crate::config::RouterKey;
use crate::duty::{Duty, Roster, Standing};
use crate::engine::Pacing;
use crate::event::{Event, Sink};
use crate::sockets::{LinkSockets, Mac, Room, is_empty};

mod arp;
mod schedule;

use arp::{Arp, FRAME, Response};
use schedule::{Next, Schedule};

/// Pause after each batch of 64 frames.
const PAUSE: Duration = Duration::from_millis(1);
const PACKETS_A_ROUND: usize = 64;

/// What sending needs.
#[derive(Clone)]
struct Via {
    link: Arc<LinkSockets>,
    duty: Arc<Duty>,
}

/// What is known of a duty.
#[derive(Clone)]
struct Known {
    standing: Standing,
    addresses: Arc<[IpAddr]>,
    link: Option<Arc<LinkSockets>>,
}

struct Neighbour<'a> {
    events: &'a Sink,
    schedule: Schedule<RouterKey, Via>,
    known: BTreeMap<RouterKey, Known>,
    claims: BTreeMap<String, Claims<(Ipv4Addr, Mac)>>,
    strangers: Sightings<(String, Sighting)>,
    room: Room,
}

/// The thread's body; returns when the roster stops.
pub(crate) fn run(roster: &Roster, events: &Sink, _pacing: Pacing) {
    let mut neighbour = Neighbour {
        events,
        schedule: Schedule::new(),
        known: BTreeMap::new(),
        claims: BTreeMap::new(),
        strangers: Sightings::new(),
        room: Room::new(),
    };
    let mut patience = Duration::ZERO;
    while !roster.is_stopping() {
        let links = roster.links();
        wait(roster, &links, patience);
        roster.neighbour_bell().hush();
        let duties = roster.duties();
        neighbour.follow(&duties);
        for link in links.iter() {
            neighbour.answer(link, &duties);
            neighbour.listen(link);
        }
        neighbour.report_claims(&duties);
        patience = neighbour.announce();
    }
}

fn wait(roster: &Roster, links: &[Arc<LinkSockets>], patience: Duration) {
    let mut descriptors = vec![PollFd::new(roster.neighbour_bell().as_fd(), PollFlags::POLLIN)];
    for link in links {
        descriptors.push(PollFd::new(link.neighbour.as_fd(), PollFlags::POLLIN));
        descriptors.extend(link.families().map(|raw| PollFd::new(raw.census.as_fd(), PollFlags::POLLIN)));
    }
    let _ = ppoll(&mut descriptors, Some(TimeSpec::from(patience)), None);
}

impl Neighbour<'_> {
    /// Compares the duties with what was done.
    fn follow(&mut self, duties: &[Arc<Duty>]) {
        let now = clock::now();
        let gone: Vec<RouterKey> =
            self.known.keys().filter(|key| !duties.iter().any(|duty| duty.key == **key)).cloned().collect();
        for key in gone {
            self.known.remove(&key);
            self.schedule.withdraw(&key);
        }
        for duty in duties {
            self.look(duty, now);
        }
    }

    fn look(&mut self, duty: &Arc<Duty>, now: Time) {
        let (standing, plan) = (duty.standing(now), duty.plan());
        let known = Known { standing, addresses: Arc::clone(&plan.addresses), link: plan.link.clone() };
        let before = self.known.insert(duty.key.clone(), known);
        let Some(link) = plan.link.clone().filter(|_| standing.active) else {
            if before.is_none_or(|before| before.standing.active) {
                duty.set_cleared(BTreeSet::new());
                self.schedule.withdraw(&duty.key);
            }
            return;
        };
        let via = Via { link, duty: Arc::clone(duty) };
        let v4: Arc<[Ipv4Addr]> = plan.addresses.iter().copied().filter_map(v4).collect();
        let continued = before.filter(|before| {
            before.standing.active
                && before.standing.takeover == standing.takeover
                && before.link.as_ref().is_some_and(|link| Arc::ptr_eq(link, &via.link))
        });
        match continued {
            None => {
                duty.set_cleared(plan.addresses.iter().copied().collect());
                self.schedule.takeover(duty.key.clone(), via, v4, now);
            }
            Some(before) => {
                if before.addresses != plan.addresses {
                    duty.set_cleared(plan.addresses.iter().copied().collect());
                    let added =
                        v4.iter().copied().filter(|a| !before.addresses.contains(&IpAddr::V4(*a))).collect();
                    self.schedule.update(&duty.key, &v4, &added, now);
                }
                if before.standing.contentions != standing.contentions {
                    self.schedule.contention(&duty.key, now);
                }
            }
        }
    }

    /// Answers ARP for the addresses this node is Active for.
    fn answer(&mut self, link: &LinkSockets, duties: &[Arc<Duty>]) {
        let mut buffer = [0; FRAME];
        let claims = self.claims.entry(link.name.clone()).or_insert_with(Claims::new);
        for _ in 0..PACKETS_A_ROUND {
            match link.neighbour.receive(&mut buffer) {
                Ok(length) => {
                    let Some(arp) = Arp::parse(&buffer[..length]) else { continue };
                    let now = clock::now();
                    let active = |address| active_for(duties, &link.name, address, now);
                    match arp.judge(link.mac, |address| active(address).is_some()) {
                        Response::Nothing => {}
                        Response::Conflict(address) => claims.note((address, arp.sender_mac), now),
                        Response::Reply => {
                            let sent = link.neighbour.send(&arp.reply(link.mac)).is_ok();
                            if let Some(duty) = active(arp.target) {
                                duty.replies.fetch_add(u64::from(sent), Ordering::Relaxed);
                                duty.send_errors.fetch_add(u64::from(!sent), Ordering::Relaxed);
                            }
                        }
                    }
                }
                Err(error) if is_empty(&error) => return,
                Err(_) => {}
            }
        }
    }

    /// Hears foreign routers.
    fn listen(&mut self, link: &LinkSockets) {
        for raw in link.families() {
            for _ in 0..PACKETS_A_ROUND {
                match raw.census.receive(&mut self.room) {
                    Ok(Ok(datagram)) => {
                        if let Err(rejection) = wire::parse(&datagram, |_| None) {
                            link.tally.reject(rejection);
                        }
                        let Some(sighting) = wire::sighting(&datagram) else { continue };
                        link.tally.stranger();
                        if self.strangers.note((link.name.clone(), sighting), clock::now()) {
                            self.events.tell(Event::stranger(&link.name, sighting));
                        }
                    }
                    Ok(Err(rejection)) => link.tally.reject(rejection),
                    Err(error) if is_empty(&error) => break,
                    Err(_) => {}
                }
            }
        }
    }

    fn report_claims(&mut self, duties: &[Arc<Duty>]) {
        let now = clock::now();
        for (interface, claims) in &mut self.claims {
            if claims.deadline().is_some_and(|due| due <= now) {
                let contested =
                    |claim: &(Ipv4Addr, Mac)| active_for(duties, interface, claim.0, now).is_some();
                for (address, mac) in claims.due(now, contested) {
                    let (interface, address) = (interface.clone(), address.into());
                    self.events.tell(Event::AddressConflict { interface, address, mac });
                }
            }
        }
    }

    /// Sends a batch; how long there is nothing more to do.
    fn announce(&mut self) -> Duration {
        let now = clock::now();
        let claims = self.claims.values().filter_map(Claims::deadline).min();
        let patience = match self.schedule.next(now) {
            Next::Send(via, addresses) => {
                send(&via, &addresses);
                // A full batch may have more behind it.
                if addresses.len() < schedule::BATCH { Duration::ZERO } else { PAUSE }
            }
            Next::Wait(due) => due.since(now),
            Next::Idle => Duration::from_hours(1),
        };
        claims.map_or(patience, |due| patience.min(due.since(now)))
    }
}

fn send(via: &Via, addresses: &[Ipv4Addr]) {
    for address in addresses {
        if !via.duty.holds(clock::now()) {
            return;
        }
        for frame in arp::gratuitous(*address, via.link.mac) {
            // A frame the kernel has no room for is made up for by the repeats.
            let sent = via.link.neighbour.send(&frame).is_ok();
            via.duty.announcements.fetch_add(u64::from(sent), Ordering::Relaxed);
        }
    }
}

/// The duty that holds this address.
fn active_for<'d>(
    duties: &'d [Arc<Duty>],
    interface: &str,
    address: Ipv4Addr,
    now: Time,
) -> Option<&'d Arc<Duty>> {
    let of_interface = duties.iter().filter(|duty| duty.key.interface == interface);
    let mut of_family = of_interface.filter(|duty| duty.key.family == Family::V4 && duty.holds(now));
    of_family.find(|duty| duty.cleared().contains(&IpAddr::V4(address)))
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
