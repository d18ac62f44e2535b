//! Adverts on their way from router to router.

use std::net::IpAddr;

use super::{BrokenInvariant, Event, EventOrder, Freeze, Lan, Packet, RunState, SimRouter};
use crate::router::{AdvertOutcome, Config, ReceivedAdvert};
use crate::units::{Interval, Priority, Version};

impl Lan {
    /// A packet arrives at a node.
    pub(super) fn deliver(&mut self, packet: Packet) {
        let Packet { from, to, router, .. } = packet;
        let same_segment = self.nodes[from].segment == self.nodes[to].segment;
        match &mut self.nodes[to].run_state {
            RunState::Running if same_segment => self.hand_over(packet),
            RunState::Frozen { how: Freeze::Process, inbox, .. } if same_segment => inbox.push(packet),
            RunState::Running | RunState::Frozen { .. } | RunState::Crashed => {
                self.lost_adverts.note(router, from, to, self.now);
            }
        }
    }

    /// The node reads a packet.
    pub(super) fn hand_over(&mut self, packet: Packet) {
        let Packet { from, to, router, heard } = packet;
        let accepts = self.config(to, router).versions.accept(heard.version);
        let mut outcome = None;
        if accepts {
            self.input(to, router, |router, now| outcome = Some(router.handle_advert(heard, now)));
        }
        let refused = match outcome {
            None | Some(AdvertOutcome::IntervalMismatch) => true,
            Some(
                AdvertOutcome::Obeyed
                | AdvertOutcome::Inferior
                | AdvertOutcome::Superseded
                | AdvertOutcome::Asked
                | AdvertOutcome::NotAPeer
                | AdvertOutcome::OwnAddress
                | AdvertOutcome::NotRunning,
            ) => false,
        };
        if refused && self.counts(from, to, router, heard.version) {
            self.lost_adverts.note(router, from, to, self.now);
        }
        let clock_time = self.clock_time(to);
        let SimRouter { router: machine, record, .. } = &mut self.nodes[to].routers[router];
        let justified =
            outcome.is_none_or(|outcome| record.heard(&heard, outcome, machine.config(), clock_time));
        if !justified {
            self.record_violation(router, BrokenInvariant::ObeyedInferior(to));
        }
    }

    /// Returns true if this copy of an advert in several versions counts: version 3 if both nodes speak it, else what the sender has.
    fn counts(&self, from: usize, to: usize, router: usize, version: Version) -> bool {
        let speaks = |node, version| self.config(node, router).versions.accept(version);
        let both_in_v3 = speaks(from, Version::V3) && speaks(to, Version::V3);
        match version {
            Version::V3 => both_in_v3 || !speaks(from, Version::V2),
            Version::V2 => !both_in_v3,
        }
    }

    /// With the chance `replayed`, an attacker sends what was for one node to all others, as if it were for the group. None of them
    /// has seen it.
    fn replay_to_group(&mut self, from: usize, to: usize, router: usize, heard: ReceivedAdvert) {
        if !self.random.chance(self.replayed) {
            return;
        }
        let heard = ReceivedAdvert { unicast: false, ..heard };
        let delay = self.medium.latency;
        let others = (0..self.nodes.len()).filter(|&other| other != from && other != to);
        for to in others.filter(|&other| router < self.nodes[other].routers.len()) {
            self.queued += 1;
            let event = Event::Arrival(Packet { from, to, router, heard });
            self.queue.insert((self.now + delay, EventOrder::Arrival, self.queued), event);
        }
    }

    /// Sends an advert of the node's router in each version it speaks: to all others by multicast if it is for the `group`, and
    /// to the nodes of these addresses by unicast.
    pub(super) fn send(
        &mut self,
        from: usize,
        router: usize,
        priority: Option<Priority>,
        group: bool,
        copies: &[IpAddr],
    ) {
        let Config { interval, primary, versions, .. } = *self.config(from, router);
        for &version in versions.sent() {
            let interval = match version {
                Version::V3 => interval,
                Version::V2 => Interval::from_seconds(interval.seconds()).unwrap_or(interval),
            };
            let receivers = (0..self.nodes.len()).filter(|&to| to != from);
            for to in receivers.filter(|&to| router < self.nodes[to].routers.len()).collect::<Vec<_>>() {
                let reaches = !self.nodes[to].filtered.contains(&from);
                let is_copied = copies.contains(&self.config(to, router).primary);
                let mut lost = group;
                for unicast in
                    [(group && reaches).then_some(false), is_copied.then_some(true)].into_iter().flatten()
                {
                    if self.nodes[to].deaf_to.contains(&from) {
                        continue;
                    }
                    let heard = ReceivedAdvert { source: primary, priority, interval, version, unicast };
                    if unicast && self.replayed > 0 {
                        self.replay_to_group(from, to, router, heard);
                    }
                    for delay in self.medium.carry(&mut self.random) {
                        lost = false;
                        self.queued += 1;
                        let event = Event::Arrival(Packet { from, to, router, heard });
                        self.queue.insert((self.now + delay, EventOrder::Arrival, self.queued), event);
                    }
                }
                if lost && self.counts(from, to, router, version) {
                    self.lost_adverts.note(router, from, to, self.now);
                }
            }
        }
    }
}
