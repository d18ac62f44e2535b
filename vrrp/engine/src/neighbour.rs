//! The thread `windlass-neighbour`: all that other stations on the LAN are told and asked about VIPs, by ARP and neighbour
//! discovery, and what is heard of foreign routers.
//!
//! ```text
//! Duty ──► charge: what is to be done ──► clearance: may it be claimed? ──► probes ─────────┐
//!                    │                                                                      ├─► pace ─► LAN
//!                    └──────────────────► schedule: what is announced when? ─ announcements ┘
//! LAN ──► heard: what does it say? ──► question for a VIP: answer ─────────────────────────────────────► LAN
//!                                └──► claim to a VIP: taken (clearance) or conflict (conflicts) ──► event
//! ```
//!
//! It compares what it did with what the duties say whenever the bell rings, and looks at a duty again before each frame that
//! speaks for its VIPs: a Backup says nothing.
//!
//! A VIP's solicited-node groups are joined while its router is configured, in Backup too. RFC 9568 §6.4.2 (T4) joins at the
//! takeover; then a switch that snoops MLD would have to learn of it before it lets a solicitation through. A Backup hears
//! the solicitations and does not answer (T16).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use windlass_vrrp::Time;
use windlass_vrrp::wire::ForeignRouter;

use crate::census::Sightings;
use crate::clock;
use crate::delivery::Sink;
use crate::duty::{Duty, Plan, Roster};
use crate::options::Pacing;
use crate::sockets::{LinkSockets, Room, UnicastSocket};

mod announcer;
mod arp;
mod charge;
mod clearance;
mod conflicts;
mod follower;
mod frame;
mod greeting;
mod groups;
mod heard;
mod listener;
mod ndp;
mod own;
mod pace;
mod schedule;
#[cfg(test)]
mod tests;

use charge::{Charge, LinkId};
use conflicts::Conflicts;
use greeting::Greetings;
use groups::Groups;
use own::OwnMacs;
use pace::Pace;
use schedule::Schedule;

/// Longest wait: nothing is due.
const IDLE: Duration = Duration::from_hours(1);

/// Between two looks at the census: a flood of foreign adverts, of which the kernel may drop most, must not wake the thread
/// for each of them.
const CENSUS_PAUSE: Duration = Duration::from_millis(10);

/// Time in which packets arrive that were sent before their sender had heard what a peer announced.
const ON_THE_WAY: Duration = Duration::from_millis(20);

/// Identifies a duty while it is held: its address in memory.
type Id = usize;

/// A duty and what was done for it.
struct Followed {
    duty: Arc<Duty>,
    plan: Arc<Plan>,
    charge: Charge,
    /// Hears who asks its virtual router MAC address.
    unicast: Option<Arc<UnicastSocket>>,
}

/// The thread's state.
struct Neighbour<'a> {
    roster: &'a Roster,
    events: &'a Sink,
    followed: BTreeMap<Id, Followed>,
    /// The routers by address, whatever their state, so that a takeover has nothing to build.
    by_address: BTreeSet<(LinkId, IpAddr, Id)>,
    schedule: Schedule<Id>,
    pace: Pace,
    conflicts: Conflicts<Id>,
    groups: BTreeMap<LinkId, Groups>,
    greetings: Greetings,
    own: OwnMacs,
    strangers: Sightings<(String, ForeignRouter)>,
    /// Until then all that other stations sent was read.
    heard: Time,
    /// Until then the census waits.
    census_due: Time,
    room: Room,
}

/// The thread's body; returns when the roster stops.
pub(crate) fn run(roster: &Roster, events: &Sink, pacing: Pacing) {
    let mut neighbour = Neighbour {
        roster,
        events,
        followed: BTreeMap::new(),
        by_address: BTreeSet::new(),
        schedule: Schedule::new(),
        pace: Pace::new(NonZeroU32::new(pacing.frames_per_second).unwrap_or(NonZeroU32::MIN)),
        conflicts: Conflicts::new(),
        groups: BTreeMap::new(),
        greetings: Greetings::default(),
        own: OwnMacs::default(),
        strangers: Sightings::new(),
        heard: Time::default(),
        census_due: Time::default(),
        room: Room::new(),
    };
    let mut patience = Duration::ZERO;
    while !roster.is_stopping() {
        let links = roster.links();
        if neighbour.wait(&links, patience) {
            // Hushed before looking: what changes from here on rings again.
            roster.neighbour_bell().hush();
            neighbour.follow_all();
        }
        neighbour.announce();
        let heard = clock::now();
        for link in links.iter() {
            neighbour.answer(link);
        }
        neighbour.heard = heard;
        neighbour.take_census(&links);
        neighbour.answer_unicast();
        neighbour.settle_conflicts();
        let busy = neighbour.join_groups();
        let now = clock::now();
        patience =
            if busy { Duration::ZERO } else { neighbour.deadline(now).map_or(IDLE, |due| due.since(now)) };
    }
}

impl Neighbour<'_> {
    /// Waits for a frame, the bell or the next thing that is due; whether the bell rang.
    fn wait(&self, links: &[Arc<LinkSockets>], patience: Duration) -> bool {
        let hears_routers = self.census_due <= clock::now();
        let mut descriptors = vec![PollFd::new(self.roster.neighbour_bell().as_fd(), PollFlags::POLLIN)];
        for link in links {
            descriptors.extend(link.neighbour.readable().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            let census = link.families().filter(|_| hears_routers);
            descriptors.extend(census.map(|raw| PollFd::new(raw.census.as_fd(), PollFlags::POLLIN)));
        }
        let unicast = self.followed.values().filter_map(|followed| followed.unicast.as_ref());
        descriptors.extend(unicast.map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN)));
        match ppoll(&mut descriptors, Some(TimeSpec::from(patience)), None) {
            Ok(_) => descriptors[0].any().unwrap_or(true),
            // A signal, or memory is lacking: looking once too often does no harm.
            Err(_) => true,
        }
    }

    /// When there is something to do without being told.
    fn deadline(&self, now: Time) -> Option<Time> {
        let probes = self.followed.values().filter_map(|followed| followed.charge.deadline());
        let frames = probes.chain(self.schedule.deadline()).min();
        // What is due waits for its turn.
        let frames = frames.map(|due| due.max(self.pace.next(now)));
        let census = Some(self.census_due).filter(|due| *due > now);
        frames.into_iter().chain(self.conflicts.deadline()).chain(self.groups_deadline()).chain(census).min()
    }
}

/// Identifies an interface's sockets.
fn id_of(link: &Arc<LinkSockets>) -> LinkId {
    link.serial
}
