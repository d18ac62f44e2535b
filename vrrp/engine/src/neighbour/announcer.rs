//! Sends the probes and announcements that are due.

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_kernel::clock;
use windlass_kernel::sockets::LinkSockets;
use windlass_kernel::sys::MESSAGES;
use windlass_vrrp::Family;

use crate::config::Hold;
use crate::handle::{Plan, RouterHandle};

use super::frame::{Frame, Mac};
use super::schedule::AnnouncementBatch;
use super::{FollowedRouter, HandleId, Neighbour, packet};

/// Batches sent before looking at what came in.
const BATCHES_A_ROUND: usize = 4;
/// Time until frames are sent again for which the kernel had no room.
const RETRY: Duration = Duration::from_millis(10);

/// Outcome of sending a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SendResult {
    /// The number of frames that were sent: all that the kernel took.
    Sent(usize),
    /// There was no room for the frame after these.
    Full(usize),
    /// It cannot be sent at all; its repeats will be tried.
    Lost,
}

impl Neighbour<'_> {
    /// Sends some of the frames that are due, as the pace allows.
    pub(super) fn announce(&mut self) {
        for _ in 0..BATCHES_A_ROUND {
            let now = clock::now();
            let allowance = self.token_bucket.allowance(now).min(MESSAGES);
            if allowance == 0 || (!self.probe(allowance) && !self.announce_batch(allowance)) {
                return;
            }
        }
    }

    /// Sends a batch of probes. Returns true if there was one.
    fn probe(&mut self, allowance: usize) -> bool {
        let now = clock::now();
        let due = |followed: &FollowedRouter| followed.tracker.deadline().is_some_and(|due| due <= now);
        let Some(id) = self.followed.iter().find(|(_, followed)| due(followed)).map(|(id, _)| *id) else {
            return false;
        };
        let Some(FollowedRouter { handle, plan, tracker, .. }) = self.followed.get_mut(&id) else {
            return false;
        };
        let addresses = tracker.probes(now, self.read_until, allowance);
        if let Some(link) = &plan.link {
            // Asked from the interface's own link-layer address: answers to a virtual router's are not received yet.
            let frames: Vec<Frame> =
                addresses.iter().map(|address| packet::probe(*address, link.mac)).collect();
            if handle.is_active(clock::now()) {
                // A probe that is lost is not made up for: the second of each address is there for that.
                self.token_bucket.spend(addresses.len(), now);
                if send(link, handle, &frames) == SendResult::Lost {
                    handle.send_errors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.follow(id);
        true
    }

    /// Sends a batch of announcements. Returns true if there was one.
    fn announce_batch(&mut self, allowance: usize) -> bool {
        let now = clock::now();
        let Some(batch) = self.schedule.next(now, allowance) else { return false };
        match self.send_batch(&batch) {
            Some(SendResult::Sent(frames)) => {
                self.token_bucket.spend(frames, now);
                self.schedule.sent(&batch, frames, now);
            }
            Some(SendResult::Full(frames)) => {
                self.token_bucket.spend(frames, now);
                self.schedule.sent(&batch, frames, now);
                self.schedule.postpone(&batch, now + RETRY);
            }
            Some(SendResult::Lost) => self.schedule.sent(&batch, batch.frames.len(), now),
            // Not Active any more, or not at the moment: its tracker starts anew.
            None => {
                self.schedule.withdraw(batch.router);
                self.follow(batch.router);
            }
        }
        true
    }

    /// Sends the batch; `None` if this node may not speak for the router's addresses.
    fn send_batch(&self, batch: &AnnouncementBatch<HandleId>) -> Option<SendResult> {
        let FollowedRouter { handle, plan, .. } = self.followed.get(&batch.router)?;
        let link = plan.link.as_ref()?;
        let mac = announced_mac(handle, plan, link);
        let frames: Vec<Frame> =
            batch.frames.iter().map(|(address, form)| packet::announcement(*address, *form, mac)).collect();
        if !handle.is_active(clock::now()) {
            return None;
        }
        let outcome = send(link, handle, &frames);
        let (sent, refused) = match outcome {
            SendResult::Sent(sent) => (sent, 0),
            SendResult::Full(sent) => (sent, 1),
            SendResult::Lost => (0, frames.len()),
        };
        handle.announcements.fetch_add(sent as u64, Ordering::Relaxed);
        handle.send_errors.fetch_add(refused as u64, Ordering::Relaxed);
        Some(outcome)
    }

    /// Announces an address once more, against another host.
    pub(super) fn defend(&mut self, id: HandleId, address: IpAddr) {
        self.schedule.defend(id, address, clock::now());
    }
}

/// Returns the link-layer address at which the router's addresses are announced.
pub(super) fn announced_mac(handle: &RouterHandle, plan: &Plan, link: &LinkSockets) -> Mac {
    match plan.hold {
        Hold::Respond | Hold::Address => link.mac,
        Hold::Vmac => handle.key.vrid.mac(handle.key.family),
    }
}

fn send(link: &LinkSockets, handle: &RouterHandle, frames: &[Frame]) -> SendResult {
    let bytes: Vec<&[u8]> = frames.iter().map(Frame::bytes).collect();
    let family: Family = handle.key.family;
    if bytes.is_empty() {
        return SendResult::Sent(0);
    }
    match link.neighbour.send(family, &bytes) {
        // The kernel reports why it stopped at the next call.
        Ok(sent) => SendResult::Sent(sent),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM) => SendResult::Full(0),
            Some(_) | None => SendResult::Lost,
        },
    }
}
