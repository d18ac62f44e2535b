//! Sending what is due: probes and announcements.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_vrrp::Family;

use crate::clock;
use crate::config::Hold;
use crate::duty::{Duty, Plan};
use crate::sockets::LinkSockets;
use crate::sys::MESSAGES;

use super::frame::{Frame, Mac};
use super::schedule::Turn;
use super::{Followed, Id, Neighbour, heard};

/// Batches sent before looking at what came in.
const BATCHES_A_ROUND: usize = 4;
/// Time until frames are sent again for which the kernel had no room.
const RETRY: Duration = Duration::from_millis(10);

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// So many frames went.
    Sent(usize),
    /// There was no room for the frame after these.
    Full(usize),
    /// It cannot be sent at all; its repeats will be tried.
    Lost,
}

impl Neighbour<'_> {
    /// Sends some of what is due, as the pace allows.
    pub(super) fn announce(&mut self) {
        for _ in 0..BATCHES_A_ROUND {
            let now = clock::now();
            let allowance = self.pace.allowance(now).min(MESSAGES);
            if allowance == 0 || (!self.probe(allowance) && !self.announce_batch(allowance)) {
                return;
            }
        }
    }

    /// Sends a batch of probes; whether there was one.
    fn probe(&mut self, allowance: usize) -> bool {
        let now = clock::now();
        let due = |followed: &Followed| followed.charge.deadline().is_some_and(|due| due <= now);
        let Some(id) = self.followed.iter().find(|(_, followed)| due(followed)).map(|(id, _)| *id) else {
            return false;
        };
        let Some(Followed { duty, plan, charge, .. }) = self.followed.get_mut(&id) else { return false };
        let addresses = charge.probes(now, self.heard, allowance);
        if let Some(link) = &plan.link {
            // Asked from the interface's own link-layer address: answers to a virtual router's are not received yet.
            let frames: Vec<Frame> =
                addresses.iter().map(|address| heard::probe(*address, link.mac)).collect();
            if duty.holds(clock::now()) {
                // A probe that is lost is not made up for: the second of each address is there for that.
                self.pace.spend(addresses.len(), now);
                if send(link, duty, &frames) == Outcome::Lost {
                    duty.send_errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.follow(id);
        true
    }

    /// Sends a batch of announcements; whether there was one.
    fn announce_batch(&mut self, allowance: usize) -> bool {
        let now = clock::now();
        let Some(turn) = self.schedule.next(now, allowance) else { return false };
        match self.send_turn(&turn) {
            Some(Outcome::Sent(frames)) => {
                self.pace.spend(frames, now);
                self.schedule.sent(&turn, frames, now);
            }
            Some(Outcome::Full(frames)) => {
                self.pace.spend(frames, now);
                self.schedule.sent(&turn, frames, now);
                self.schedule.postpone(&turn, now + RETRY);
            }
            Some(Outcome::Lost) => self.schedule.sent(&turn, turn.frames.len(), now),
            // Not Active any more, or not at the moment: its charge starts from anew.
            None => {
                self.schedule.withdraw(turn.router);
                self.follow(turn.router);
            }
        }
        true
    }

    /// `None` if this node may not speak for the router's addresses.
    fn send_turn(&self, turn: &Turn<Id>) -> Option<Outcome> {
        let Followed { duty, plan, .. } = self.followed.get(&turn.router)?;
        let link = plan.link.as_ref()?;
        let mac = announced_mac(duty, plan, link);
        let frames: Vec<Frame> =
            turn.frames.iter().map(|(address, form)| heard::announcement(*address, *form, mac)).collect();
        if !duty.holds(clock::now()) {
            return None;
        }
        let outcome = send(link, duty, &frames);
        let (sent, refused) = match outcome {
            Outcome::Sent(sent) => (sent, 0),
            Outcome::Full(sent) => (sent, 1),
            Outcome::Lost => (0, frames.len()),
        };
        duty.announcements.fetch_add(sent as u64, Ordering::Relaxed);
        duty.send_errors.fetch_add(refused as u64, Ordering::Relaxed);
        Some(outcome)
    }

    /// Announces an address once more, against another station.
    pub(super) fn defend(&mut self, id: Id, address: IpAddr) {
        self.schedule.defend(id, address, clock::now());
    }
}

/// Where the LAN is told that the router's addresses are.
pub(super) fn announced_mac(duty: &Duty, plan: &Plan, link: &LinkSockets) -> Mac {
    match plan.hold {
        Hold::Respond | Hold::Address => link.mac,
        Hold::Vmac => duty.key.vrid.mac(duty.key.family),
    }
}

fn send(link: &LinkSockets, duty: &Duty, frames: &[Frame]) -> Outcome {
    let bytes: Vec<&[u8]> = frames.iter().map(Frame::bytes).collect();
    let family: Family = duty.key.family;
    if bytes.is_empty() {
        return Outcome::Sent(0);
    }
    match link.neighbour.send(family, &bytes) {
        // The kernel tells why it stopped at the next call.
        Ok(sent) => Outcome::Sent(sent),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM) => Outcome::Full(0),
            Some(_) | None => Outcome::Lost,
        },
    }
}
