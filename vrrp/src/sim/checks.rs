//! Checks of the invariants on the LAN.

use super::{BrokenInvariant, Lan, SimRouter, TraceEntry, TraceEvent, Violation};
use crate::router::State;
use crate::units::Time;

impl Lan {
    /// Returns the routers of a frozen Active that another node took over because of its silence, each with that node. Leaves out
    /// routers whose last advert to that node was lost, and routers that cannot know how long they were silent.
    pub(super) fn successors(&self, frozen: usize) -> Vec<(usize, usize)> {
        let successor = |router: usize| {
            let SimRouter { router: machine, record, .. } = &self.nodes[frozen].routers[router];
            let took_over = |n: usize| {
                let other = &self.nodes[n];
                other.segment == self.nodes[frozen].segment
                    && other.routers[router].record.replaced(machine.config().primary, record)
                    && !self.lost_adverts.lost_last(router, frozen, n, record)
            };
            let mut others = (0..self.nodes.len()).filter(|&n| n != frozen && self.is_active(n, router));
            let aware = machine.state() == State::Active && !record.is_unaware();
            let other = others.find(|&n| aware && took_over(n))?;
            Some((router, other))
        };
        (0..self.nodes[frozen].routers.len()).filter_map(successor).collect()
    }

    /// At the instant a frozen node runs again, before it has done anything: its active periods are over.
    pub(super) fn check_active_periods(&mut self, frozen: usize, successors: &[(usize, usize)]) {
        let clock_time = self.clock_time(frozen);
        for &(router, other) in successors {
            if self.nodes[frozen].routers[router].router.active_until().is_some_and(|end| clock_time < end) {
                self.record_violation(router, BrokenInvariant::ActiveAfterTakeover(frozen, other));
            }
        }
    }

    /// Checks a node that has read what waited and checked its timers: it is not Active and has sent nothing, as it has not listened
    /// yet.
    pub(super) fn check_silence(&mut self, frozen: usize, successors: &[(usize, usize)]) {
        for &(router, other) in successors {
            let spoke = self.nodes[frozen].routers[router].record.spoke_at(self.now);
            if spoke || self.is_active(frozen, router) {
                self.record_violation(router, BrokenInvariant::SpokeBeforeListening(frozen, other));
            }
        }
    }

    /// Backups that ought to be Active, and two Actives where there ought to be one, now.
    pub(super) fn check(&mut self) {
        let mut actives: Vec<(usize, usize)> = Vec::new();
        let mut overdue = None;
        for (index, node) in self.nodes.iter().enumerate().filter(|(index, _)| self.is_running(*index)) {
            let clock_time = node.clock.read(self.now);
            for (router, sim_router) in node.routers.iter().enumerate() {
                match sim_router.router.state() {
                    State::Backup
                        if sim_router.record.must_take_over(sim_router.router.config(), clock_time) =>
                    {
                        overdue = overdue.or(Some((router, index)));
                    }
                    State::Initialize | State::Backup => {}
                    State::Active => actives.push((router, index)),
                }
            }
        }
        if let Some((router, node)) = overdue {
            self.record_violation(router, BrokenInvariant::NoTakeover(node));
        }
        actives.sort_unstable();
        for (position, &(router, a)) in actives.iter().enumerate() {
            for &(_, b) in actives[position + 1..].iter().take_while(|(other, _)| *other == router) {
                self.check_two_actives(router, a, b);
            }
        }
    }

    fn check_two_actives(&mut self, router: usize, a: usize, b: usize) {
        if self.nodes[a].segment != self.nodes[b].segment {
            return;
        }
        let claim = |node: usize| (self.config(node, router).priority, self.config(node, router).primary);
        let (superior, inferior) = if claim(a) > claim(b) { (a, b) } else { (b, a) };
        let interval = self.nodes[superior].clock.takes(self.config(superior, router).interval.duration());
        let record = [superior, inferior].map(|node| &self.nodes[node].routers[router].record);
        let excused = self.lost_adverts.excuse((router, superior, inferior), record, interval, self.slowest);
        if self.now > excused {
            self.record_violation(router, BrokenInvariant::TwoActives(superior, inferior));
        }
    }

    /// A router that is Active because the Active that it obeyed has resigned, which that has not: it still is.
    pub(super) fn check_resignation(&mut self, node: usize, router: usize) {
        let obeyed = self.nodes[node].routers[router].record.resigned_to_it(self.now);
        let other = obeyed.and_then(|source| {
            (0..self.nodes.len()).find(|&other| {
                let found = self.nodes[other].routers.get(router);
                found.is_some_and(|SimRouter { router: machine, record, .. }| {
                    let is_active = machine.state() == State::Active;
                    machine.config().primary == source && is_active && !record.has_resigned()
                })
            })
        });
        if let Some(other) = other {
            self.record_violation(router, BrokenInvariant::NoResignation(other, node));
        }
    }

    /// A router that has changed its state since `calm`.
    pub(super) fn restless(&self, calm: Time) -> Option<Violation> {
        let changed = |e: &&TraceEntry| e.at > calm && matches!(e.event, TraceEvent::Became(..));
        let TraceEntry { at, node, router, .. } = *self.trace.iter().find(changed)?;
        Some(Violation { at, router, broken: BrokenInvariant::Restless(node) })
    }

    pub(super) fn record_violation(&mut self, router: usize, broken: BrokenInvariant) {
        let at = self.now;
        self.violation.get_or_insert(Violation { at, router, broken });
    }
}
