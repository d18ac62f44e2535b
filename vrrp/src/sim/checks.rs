//! Where the LAN looks at the invariants.

use super::{Breach, Lan, Slot, Violation};
use crate::router::State;

impl Lan {
    /// The routers of a frozen Active that another node took over because it was silent, and that node; not those whose
    /// last advert to it was lost, nor those of whose silence its clock does not tell.
    pub(super) fn successors(&self, frozen: usize) -> Vec<(usize, usize)> {
        let successor = |router: usize| {
            let Slot { router: machine, seen, .. } = &self.nodes[frozen].slots[router];
            let took_over = |n: usize| {
                let other = &self.nodes[n];
                other.segment == self.nodes[frozen].segment
                    && other.slots[router].seen.replaced(machine.config().primary, seen)
                    && !self.losses.lost_last(router, frozen, n, seen)
            };
            let mut others = (0..self.nodes.len()).filter(|&n| n != frozen && self.is_active(n, router));
            let aware = machine.state() == State::Active && !seen.is_unaware();
            let other = others.find(|&n| aware && took_over(n))?;
            Some((router, other))
        };
        (0..self.nodes[frozen].slots.len()).filter_map(successor).collect()
    }

    /// At the instant a frozen node runs again, before it has done anything: its tenures are over.
    pub(super) fn check_tenures(&mut self, frozen: usize, successors: &[(usize, usize)]) {
        let shown = self.shown(frozen);
        for &(router, other) in successors {
            if self.nodes[frozen].slots[router].router.tenure().is_some_and(|end| shown < end) {
                self.breach(router, Breach::Tenure(frozen, other));
            }
        }
    }

    /// After it has read what waited and looked at its timers: it has said nothing, as it has not listened yet.
    pub(super) fn check_silence(&mut self, frozen: usize, successors: &[(usize, usize)]) {
        for &(router, other) in successors {
            let spoke = self.nodes[frozen].slots[router].seen.spoke_at(self.now);
            if spoke || self.is_active(frozen, router) {
                self.breach(router, Breach::Rash(frozen, other));
            }
        }
    }

    /// Lonely Backups and overlaps, now.
    pub(super) fn check(&mut self) {
        let mut actives: Vec<(usize, usize)> = Vec::new();
        let mut lonely = None;
        for (index, node) in self.nodes.iter().enumerate().filter(|(index, _)| self.is_running(*index)) {
            let shown = node.clock.read(self.now);
            for (router, slot) in node.slots.iter().enumerate() {
                match slot.router.state() {
                    State::Backup if slot.seen.is_lonely(slot.router.config(), shown) => {
                        lonely = lonely.or(Some((router, index)));
                    }
                    State::Initialize | State::Backup => {}
                    State::Active => actives.push((router, index)),
                }
            }
        }
        if let Some((router, node)) = lonely {
            self.breach(router, Breach::Lonely(node));
        }
        actives.sort_unstable();
        for (position, &(router, a)) in actives.iter().enumerate() {
            for &(_, b) in actives[position + 1..].iter().take_while(|(other, _)| *other == router) {
                self.check_overlap(router, a, b);
            }
        }
    }

    fn check_overlap(&mut self, router: usize, a: usize, b: usize) {
        if self.nodes[a].segment != self.nodes[b].segment {
            return;
        }
        let claim = |node: usize| (self.config(node, router).priority, self.config(node, router).primary);
        let (superior, inferior) = if claim(a) > claim(b) { (a, b) } else { (b, a) };
        let interval = self.nodes[superior].clock.takes(self.config(superior, router).interval.duration());
        let seen = [superior, inferior].map(|node| &self.nodes[node].slots[router].seen);
        let excused = self.losses.excuse((router, superior, inferior), seen, interval, self.slowest);
        if self.now > excused {
            self.breach(router, Breach::Overlap(superior, inferior));
        }
    }

    pub(super) fn breach(&mut self, router: usize, breach: Breach) {
        let at = self.now;
        self.violation.get_or_insert(Violation { at, router, breach });
    }
}
