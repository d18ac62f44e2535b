//! Where the LAN looks at the invariants.

use super::{Breach, Lan, Slot, Violation};
use crate::router::State;

impl Lan {
    /// At the instant a frozen node runs again, before it has done anything.
    pub(super) fn check_tenures(&mut self, frozen: usize) {
        let shown = self.shown(frozen);
        for router in 0..self.nodes[frozen].slots.len() {
            let Slot { router: machine, seen, .. } = &self.nodes[frozen].slots[router];
            let (source, seen) = (machine.config().primary, *seen);
            if machine.tenure().is_none_or(|end| shown >= end) {
                continue;
            }
            let trusting =
                (0..self.nodes.len()).filter(|&n| n != frozen && self.is_active(n, router)).find(|&n| {
                    let other = &self.nodes[n];
                    other.segment == self.nodes[frozen].segment
                        && other.slots[router].seen.replaced(source)
                        && !self.losses.lost_last(router, frozen, n, &seen)
                });
            if let Some(other) = trusting {
                self.breach(router, Breach::Tenure(frozen, other));
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
