//! What can go wrong on a LAN, and be put right.

use super::watch::Seen;
use super::{Condition, Freeze, Lan, Medium};
use crate::router::Router;

impl Lan {
    /// From now on packets are carried like this.
    pub fn change_medium(&mut self, medium: Medium) {
        self.medium = medium;
        self.slowest = self.slowest.max(medium.slowest());
    }

    /// Share of packets lost from now on, in thousandths.
    pub fn lose(&mut self, permille: u64) {
        self.change_medium(Medium { loss: permille, ..self.medium });
    }

    /// Splits the LAN: each node goes to the segment given for it.
    pub fn partition(&mut self, segments: &[usize]) {
        for (node, segment) in self.nodes.iter_mut().zip(segments) {
            node.segment = *segment;
        }
    }

    /// Joins all segments.
    pub fn heal(&mut self) {
        self.partition(&vec![0; self.nodes.len()]);
    }

    /// Makes a node not hear another: a fault in one direction.
    pub fn deafen(&mut self, node: usize, to: usize) {
        self.nodes[node].deaf_to.insert(to);
    }

    /// Lets all nodes hear all others of their segment again.
    pub fn undeafen(&mut self) {
        for node in &mut self.nodes {
            node.deaf_to.clear();
        }
    }

    /// Ends a node without a word.
    pub fn crash(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.condition = Condition::Crashed;
        for slot in &mut node.slots {
            slot.router = Router::new(slot.router.vrid(), slot.router.config().clone());
            (slot.seen, slot.wake) = (Seen::new(), None);
        }
    }

    /// Ends a running node in an orderly way.
    pub fn resign(&mut self, node: usize) {
        if self.is_running(node) {
            self.input_all(node, Router::shutdown);
            self.crash(node);
        }
    }

    /// Takes a running node's interface away.
    pub fn unplug(&mut self, node: usize) {
        if self.is_running(node) {
            self.input_all(node, |router, _| router.interrupt());
            self.crash(node);
        }
    }

    /// Starts a node that was ended or unplugged.
    pub fn restart(&mut self, node: usize) {
        if matches!(self.nodes[node].condition, Condition::Crashed) {
            self.nodes[node].condition = Condition::Running;
            self.input_all(node, Router::startup);
        }
    }

    /// Stops a running node from running.
    pub fn freeze(&mut self, node: usize, how: Freeze) {
        if self.is_running(node) {
            self.nodes[node].condition = Condition::Frozen { how, since: self.now, inbox: Vec::new() };
        }
    }

    /// Lets a frozen node run again: it reads what waits, then looks at its timers.
    pub fn thaw(&mut self, node: usize) {
        let Condition::Frozen { how, since, inbox } = &mut self.nodes[node].condition else { return };
        let (how, asleep, waiting) = (*how, self.now.since(*since), std::mem::take(inbox));
        self.nodes[node].condition = Condition::Running;
        match how {
            Freeze::Suspend => {
                self.nodes[node].clock.stand_still(asleep);
                self.nodes[node].slots.iter_mut().for_each(|slot| slot.seen.suspended());
            }
            Freeze::Process | Freeze::Machine => {}
        }
        let successors = self.successors(node);
        self.check_tenures(node, &successors);
        for packet in waiting {
            self.hand_over(packet);
        }
        self.input_all(node, Router::handle_timeout);
        self.check_silence(node, &successors);
        let shown = self.shown(node);
        for slot in &mut self.nodes[node].slots {
            slot.seen.resumed(self.now, shown);
        }
    }
}
