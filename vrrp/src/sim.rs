//! Several routers on a LAN with faults, in virtual time: nothing waits, nothing is random but by seed.
//!
//! The LAN watches invariant I3 of `design.md`: in each connected segment exactly one running router is Active, except for
//! [`Lan::bound`] after the last fault. The first breach is kept as a [`Violation`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::router::{Action, Announce, Config, Heard, Reason, Router, State};
use crate::units::{Time, Version, Vrid};

#[cfg(test)]
mod tests;

/// What a stopped node finds when it runs again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a packet is kept or it is not")]
pub enum Freeze {
    /// A stopped process: what was sent meanwhile waits in its socket.
    Process,
    /// A stopped machine: what was sent meanwhile is lost.
    Machine,
}

/// What a router did.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Deed {
    /// Changed its state.
    Became(State, Reason),
    /// Announced its addresses.
    Announced(Announce),
}

/// A segment that for too long had no Active, or several.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Violation {
    /// When the bound had passed.
    pub at: Time,
    /// The segment's running nodes.
    pub nodes: Vec<usize>,
    /// Those of them that were Active.
    pub active: Vec<usize>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.at.since(Time::default()).as_millis();
        write!(f, "at {millis} ms nodes {:?} are Active among {:?}", self.active, self.nodes)
    }
}

#[derive(Debug)]
enum Condition {
    Running,
    Frozen { how: Freeze, inbox: Vec<Heard> },
    Crashed,
}

#[derive(Debug)]
struct Node {
    router: Router,
    condition: Condition,
    segment: usize,
    deaf_to: Vec<usize>,
}

/// The LAN and its nodes.
#[derive(Debug)]
pub struct Lan {
    now: Time,
    random: u64,
    latency: Duration,
    loss_permille: u64,
    nodes: Vec<Node>,
    /// Adverts under way: arrival, order of sending, sender, receiver, content.
    in_flight: BinaryHeap<Reverse<(Time, u64)>>,
    contents: BTreeMap<u64, (usize, usize, Heard)>,
    sent: u64,
    /// Until then the last fault excuses what is seen.
    excused: Time,
    trace: Vec<(Time, usize, Deed)>,
    violation: Option<Violation>,
}

impl Lan {
    /// A LAN without nodes or loss.
    pub fn new(seed: u64, latency: Duration) -> Self {
        Self {
            now: Time::from_nanos(1_000_000_000),
            random: seed,
            latency,
            loss_permille: 0,
            nodes: Vec::new(),
            in_flight: BinaryHeap::new(),
            contents: BTreeMap::new(),
            sent: 0,
            excused: Time::default(),
            trace: Vec::new(),
            violation: None,
        }
    }

    /// Adds a node and starts its router, VRID 1. Returns its index.
    pub fn add(&mut self, config: Config) -> usize {
        let router = Router::new(Vrid::MIN, config);
        self.nodes.push(Node { router, condition: Condition::Running, segment: 0, deaf_to: Vec::new() });
        let node = self.nodes.len() - 1;
        self.disturb();
        self.input(node, Router::startup);
        node
    }

    /// Time now.
    pub fn now(&self) -> Time {
        self.now
    }

    /// State of a node's router.
    pub fn state(&self, node: usize) -> State {
        self.nodes[node].router.state()
    }

    /// The running nodes that are Active.
    pub fn active(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&n| self.is_running(n) && self.state(n) == State::Active).collect()
    }

    /// What the routers did, in order.
    pub fn trace(&self) -> &[(Time, usize, Deed)] {
        &self.trace
    }

    /// The first breach of the invariant.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Longest time after a fault until there is one Active again: 3·A + skew of the node with the longest, and for the
    /// last advert before the fault, the new Active's, an answer to it and the yielding there and back.
    pub fn bound(&self) -> Duration {
        let patience = |node: &Node| node.router.config().interval.active_down(node.router.config().priority);
        self.nodes.iter().map(patience).max().unwrap_or_default() + self.latency * 4
    }

    /// Share of adverts lost from now on, in thousandths. With loss the invariant is not promised and not watched.
    pub fn lose(&mut self, permille: u64) {
        self.loss_permille = permille;
        self.disturb();
    }

    /// Splits the LAN: each node goes to the segment given for it.
    pub fn partition(&mut self, segments: &[usize]) {
        for (node, segment) in self.nodes.iter_mut().zip(segments) {
            node.segment = *segment;
        }
        self.disturb();
    }

    /// Joins all segments.
    pub fn heal(&mut self) {
        self.partition(&vec![0; self.nodes.len()]);
    }

    /// Makes a node not hear another: a fault in one direction.
    pub fn deafen(&mut self, node: usize, to: usize) {
        self.nodes[node].deaf_to.push(to);
        self.disturb();
    }

    /// Ends a node without a word.
    pub fn crash(&mut self, node: usize) {
        let config = self.nodes[node].router.config().clone();
        self.nodes[node].router = Router::new(Vrid::MIN, config);
        self.nodes[node].condition = Condition::Crashed;
        self.disturb();
    }

    /// Ends a running node in an orderly way.
    pub fn resign(&mut self, node: usize) {
        if self.is_running(node) {
            self.input(node, Router::shutdown);
            self.crash(node);
        }
    }

    /// Starts a node that was ended.
    pub fn restart(&mut self, node: usize) {
        if matches!(self.nodes[node].condition, Condition::Crashed) {
            self.nodes[node].condition = Condition::Running;
            self.disturb();
            self.input(node, Router::startup);
        }
    }

    /// Stops a running node from running.
    pub fn freeze(&mut self, node: usize, how: Freeze) {
        if self.is_running(node) {
            self.nodes[node].condition = Condition::Frozen { how, inbox: Vec::new() };
            self.disturb();
        }
    }

    /// Lets a frozen node run again: it reads what waits, then looks at its timer.
    pub fn thaw(&mut self, node: usize) {
        let Condition::Frozen { inbox, .. } = &mut self.nodes[node].condition else { return };
        let waiting = std::mem::take(inbox);
        self.nodes[node].condition = Condition::Running;
        self.disturb();
        for heard in waiting {
            self.input(node, |router, now| drop_verdict(router.handle_advert(heard, now)));
        }
        self.input(node, Router::handle_timeout);
    }

    /// Changes a running node's configuration.
    pub fn reconfigure(&mut self, node: usize, config: Config) {
        if self.is_running(node) {
            self.disturb();
            self.input(node, |router, now| router.reconfigure(config, now));
            // A Backup's timer still runs on what it was before: the longer patience counts.
            self.disturb();
        }
    }

    /// Lets this much time pass.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(next) = self.next_event().filter(|next| *next <= end) {
            self.advance(next);
            self.deliver();
            for node in 0..self.nodes.len() {
                if self.is_running(node) && self.nodes[node].router.poll_timeout() == Some(self.now) {
                    self.input(node, Router::handle_timeout);
                }
            }
        }
        self.advance(end);
    }

    fn disturb(&mut self) {
        self.excused = self.excused.max(self.now + self.bound());
    }

    fn is_running(&self, node: usize) -> bool {
        match self.nodes[node].condition {
            Condition::Running => true,
            Condition::Frozen { .. } | Condition::Crashed => false,
        }
    }

    fn next_event(&self) -> Option<Time> {
        let timers = (0..self.nodes.len()).filter(|&n| self.is_running(n));
        let timers = timers.filter_map(|n| self.nodes[n].router.poll_timeout());
        timers.chain(self.in_flight.peek().map(|Reverse((arrival, _))| *arrival)).min()
    }

    /// Moves time on; nothing happens on the way, so the segments stay as they are now.
    fn advance(&mut self, to: Time) {
        if to > self.excused && self.violation.is_none() && self.loss_permille == 0 {
            self.violation = self.unsettled().map(|(nodes, active)| Violation { at: to, nodes, active });
        }
        self.now = self.now.max(to);
    }

    /// A segment of running nodes that has not exactly one Active: its nodes, its Actives.
    fn unsettled(&self) -> Option<(Vec<usize>, Vec<usize>)> {
        let mut segments: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for node in (0..self.nodes.len()).filter(|&n| self.is_running(n)) {
            segments.entry(self.nodes[node].segment).or_default().push(node);
        }
        let with_active = segments.into_values().map(|nodes| {
            let active =
                nodes.iter().copied().filter(|&n| self.state(n) == State::Active).collect::<Vec<_>>();
            (nodes, active)
        });
        with_active.into_iter().find(|(_, active)| active.len() != 1)
    }

    /// Hands over the adverts that arrive now.
    fn deliver(&mut self) {
        while let Some(Reverse((_, number))) = self.in_flight.peek().copied().filter(|r| r.0.0 <= self.now) {
            self.in_flight.pop();
            let Some((from, to, heard)) = self.contents.remove(&number) else { continue };
            if self.nodes[from].segment != self.nodes[to].segment {
                continue;
            }
            match &mut self.nodes[to].condition {
                Condition::Running => {
                    self.input(to, |router, now| drop_verdict(router.handle_advert(heard, now)));
                }
                Condition::Frozen { how: Freeze::Process, inbox } => inbox.push(heard),
                Condition::Frozen { how: Freeze::Machine, .. } | Condition::Crashed => {}
            }
        }
    }

    /// One input to a node's router, and what it does about it.
    fn input(&mut self, node: usize, input: impl FnOnce(&mut Router, Time)) {
        input(&mut self.nodes[node].router, self.now);
        while let Some(action) = self.nodes[node].router.poll_action() {
            match action {
                Action::SendAdvert { priority } => {
                    let Config { interval, primary, .. } = *self.nodes[node].router.config();
                    self.broadcast(node, Heard { source: primary, priority, interval, version: Version::V3 });
                }
                Action::Transition { to, reason, from: _ } => {
                    self.trace.push((self.now, node, Deed::Became(to, reason)));
                }
                Action::Announce(what) => self.trace.push((self.now, node, Deed::Announced(what))),
            }
        }
    }

    fn broadcast(&mut self, from: usize, heard: Heard) {
        for to in (0..self.nodes.len()).filter(|&to| to != from) {
            let lost = self.roll() % 1000 < self.loss_permille;
            if lost || self.nodes[to].deaf_to.contains(&from) {
                continue;
            }
            self.sent += 1;
            self.in_flight.push(Reverse((self.now + self.latency, self.sent)));
            self.contents.insert(self.sent, (from, to, heard));
        }
    }

    /// SplitMix64: the next number of the seeded sequence.
    fn roll(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Address of a simulated node.
pub fn address(node: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, node + 1).into()
}

/// What became of an advert shows in the actions.
fn drop_verdict(_: crate::router::Verdict) {}
