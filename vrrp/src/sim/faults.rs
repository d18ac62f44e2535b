//! Faults of a LAN, and their repair.

use super::{Freeze, Lan, Medium, RunState};
use crate::router::Router;

impl Lan {
    /// Replaces the medium that carries packets.
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

    /// Makes a node deaf to another: a fault in one direction.
    pub fn deafen(&mut self, node: usize, to: usize) {
        self.nodes[node].deaf_to.insert(to);
    }

    /// Makes all nodes receive from all others of their segment again.
    pub fn undeafen(&mut self) {
        for node in &mut self.nodes {
            node.deaf_to.clear();
        }
    }

    /// Filters multicast from one node to another, as a switch does that has not learned the other's membership. Unicast passes.
    pub fn filter(&mut self, from: usize, to: usize) {
        self.nodes[to].filtered.insert(from);
    }

    /// Removes all filters of multicast.
    pub fn unfilter(&mut self) {
        for node in &mut self.nodes {
            node.filtered.clear();
        }
    }

    /// Has an attacker record unicast and send it to the group, this often in a thousand times. Its trailer would hold: it does not
    /// cover the destination.
    pub fn replay(&mut self, permille: u64) {
        self.replayed = permille;
    }

    /// Ends a node without a word.
    pub fn crash(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.run_state = RunState::Crashed;
        for sim_router in &mut node.routers {
            sim_router.router = Router::new(sim_router.router.vrid(), sim_router.router.config().clone());
            sim_router.record.ended();
            sim_router.wake = None;
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
        if matches!(self.nodes[node].run_state, RunState::Crashed) {
            self.nodes[node].run_state = RunState::Running;
            self.input_all(node, Router::startup);
        }
    }

    /// Stops a running node from running.
    pub fn freeze(&mut self, node: usize, how: Freeze) {
        if self.is_running(node) {
            self.nodes[node].run_state = RunState::Frozen { how, since: self.now, inbox: Vec::new() };
        }
    }

    /// Resumes a frozen node: it reads what waits, then checks its timers.
    pub fn thaw(&mut self, node: usize) {
        let RunState::Frozen { how, since, inbox } = &mut self.nodes[node].run_state else { return };
        let (how, asleep, waiting) = (*how, self.now.since(*since), std::mem::take(inbox));
        self.nodes[node].run_state = RunState::Running;
        match how {
            Freeze::Suspend => {
                self.nodes[node].clock.stand_still(asleep);
                self.nodes[node].routers.iter_mut().for_each(|sim_router| sim_router.record.suspended());
            }
            Freeze::Process | Freeze::Machine => {}
        }
        let successors = self.successors(node);
        self.check_active_periods(node, &successors);
        for packet in waiting {
            self.hand_over(packet);
        }
        self.input_all(node, Router::handle_timeout);
        self.check_silence(node, &successors);
        let clock_time = self.clock_time(node);
        for sim_router in &mut self.nodes[node].routers {
            sim_router.record.resumed(self.now, clock_time);
        }
    }
}
