//! Several nodes on a LAN with faults, in virtual time: nothing waits, nothing is random but by seed.
//!
//! Each node runs one or more virtual routers by a clock of its own. The LAN looks after every step at the invariants of
//! [`invariants`] and keeps the first that is broken as a [`Violation`]. [`history`] makes
//! random nodes and faults from a seed, and shortens those that break one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::router::fallback::TURN;
use crate::router::{Action, Announce, Config, ReceivedAdvert, Router, State, TransitionReason};
use crate::units::{Family, Interval, Time, Vrid};

mod checks;
mod clock;
mod delivery;
mod faults;
pub mod history;
pub mod invariants;
mod medium;
mod random;
#[cfg(test)]
mod tests;

pub use clock::Clock;
pub use invariants::{BrokenInvariant, Violation};
use invariants::{LostAdverts, RouterRecord, active_down};
pub use medium::Medium;
pub use random::Random;

/// Most steps at one instant: with more, there is no end of them.
const MAX_STEPS_AT_ONCE: usize = 100_000;

/// Kind of a stop: it decides what the node finds when it runs again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a packet is kept or not, a clock goes or not")]
pub enum Freeze {
    /// A stopped process: packets sent meanwhile wait in its socket.
    Process,
    /// A stopped machine whose clock catches up: packets sent meanwhile are lost.
    Machine,
    /// A suspended machine: packets sent meanwhile are lost, and its clock has stood still.
    Suspend,
}

/// Action of a router.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TraceEvent {
    /// Changed its state.
    Became(State, TransitionReason),
    /// Announced its addresses.
    Announced(Announce),
    /// Sent an advert.
    Advertised,
    /// Sent it by unicast, too, or by unicast alone, to so many nodes.
    Unicast(usize),
}

/// Action of a router, with its time and place.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TraceEntry {
    /// Time of the action.
    pub at: Time,
    /// Index of the node.
    pub node: usize,
    /// Index of the virtual router on it.
    pub router: usize,
    /// The action.
    pub event: TraceEvent,
}

#[derive(Debug)]
enum RunState {
    Running,
    Frozen { how: Freeze, since: Time, inbox: Vec<Packet> },
    Crashed,
}

#[derive(Debug)]
struct SimRouter {
    router: Router,
    record: RouterRecord,
    /// Time at which the node next checks its timer.
    wake: Option<Time>,
}

#[derive(Debug)]
struct Node {
    routers: Vec<SimRouter>,
    clock: Clock,
    run_state: RunState,
    segment: usize,
    deaf_to: BTreeSet<usize>,
    /// Nodes whose multicast does not reach it.
    filtered: BTreeSet<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    from: usize,
    to: usize,
    router: usize,
    heard: ReceivedAdvert,
}

/// Order of events at one instant: packets come first, as the engine reads before it checks its timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum EventOrder {
    Arrival,
    Wake,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrival(Packet),
    Wake { node: usize, router: usize },
}

/// The LAN and its nodes.
#[derive(Debug)]
pub struct Lan {
    now: Time,
    random: Random,
    medium: Medium,
    /// The longest transit of any medium so far: its packets may still be under way.
    slowest: Duration,
    /// The longest interval before a change: a Backup may have learned it and not yet the new one.
    longest: Interval,
    nodes: Vec<Node>,
    queue: BTreeMap<(Time, EventOrder, u64), Event>,
    queued: u64,
    lost_adverts: LostAdverts,
    /// Unicast that is recorded and sent to the group, in thousandths.
    replayed: u64,
    trace: Vec<TraceEntry>,
    violation: Option<Violation>,
}

impl Lan {
    /// A LAN without nodes.
    pub fn new(seed: u64, medium: Medium) -> Self {
        Self {
            now: Time::from_nanos(1_000_000_000),
            random: Random::new(seed),
            medium,
            slowest: medium.slowest(),
            longest: Interval::MIN,
            nodes: Vec::new(),
            queue: BTreeMap::new(),
            queued: 0,
            lost_adverts: LostAdverts::default(),
            replayed: 0,
            trace: Vec::new(),
            violation: None,
        }
    }

    /// Adds a node with one virtual router and a true clock, and starts it. Returns its index.
    pub fn add(&mut self, config: Config) -> usize {
        self.add_node(Clock::default(), [config])
    }

    /// Adds a node with these virtual routers, VRID 1 and up, and starts them. Returns its index.
    pub fn add_node(&mut self, clock: Clock, configs: impl IntoIterator<Item = Config>) -> usize {
        let sim_router = |(vrid, config)| {
            let vrid = Vrid::new(vrid).unwrap_or(Vrid::MIN);
            SimRouter { router: Router::new(vrid, config), record: RouterRecord::new(), wake: None }
        };
        let routers: Vec<SimRouter> = (1..=u8::MAX).zip(configs).map(sim_router).collect();
        let run_state = RunState::Crashed;
        let (deaf_to, filtered) = (BTreeSet::new(), BTreeSet::new());
        self.nodes.push(Node { routers, clock, run_state, segment: 0, deaf_to, filtered });
        let node = self.nodes.len() - 1;
        self.restart(node);
        node
    }

    /// Time now.
    pub fn now(&self) -> Time {
        self.now
    }

    /// State of a node's first router.
    pub fn state(&self, node: usize) -> State {
        self.nodes[node].routers[0].router.state()
    }

    /// Configuration of one of a node's routers.
    pub fn config(&self, node: usize, router: usize) -> &Config {
        self.nodes[node].routers[router].router.config()
    }

    /// The running nodes whose first router is Active.
    pub fn active(&self) -> Vec<usize> {
        self.active_of(0)
    }

    /// The running nodes on which this router is Active.
    pub fn active_of(&self, router: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&n| self.is_active(n, router)).collect()
    }

    /// Actions of the routers, in order.
    pub fn trace(&self) -> &[TraceEntry] {
        &self.trace
    }

    /// The first invariant that was broken.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Longest time after a fault until there is one Active again: 3·A + skew of the node with the longest, for the longest
    /// interval that any node has ever advertised, by clocks that may be 2 % slow; and for the last advert before the fault, the
    /// new Active's, an answer to it and the yielding the transit there and back.
    pub fn bound(&self) -> Duration {
        let configs =
            self.nodes.iter().flat_map(|node| &node.routers).map(|sim_router| sim_router.router.config());
        let longest = configs.clone().map(|c| c.interval).chain([self.longest]).max().unwrap_or(self.longest);
        let patience = configs.map(|config| active_down(config, longest.duration())).max();
        patience.unwrap_or_default() * 102 / 100 + self.slowest * 4
    }

    /// Longest time after which two Actives have met by unicast, if multicast passes nowhere: a turn for each peer, and what
    /// comes of it.
    pub fn meeting(&self) -> Duration {
        let configs =
            self.nodes.iter().flat_map(|node| &node.routers).map(|sim_router| sim_router.router.config());
        let turn = configs.map(|c| c.interval.duration()).max().unwrap_or_default() + TURN;
        turn * u32::try_from(self.nodes.len()).unwrap_or(u32::MAX) * 102 / 100 + self.bound()
    }

    /// Segments in which now, for some router, not exactly one of the running nodes is Active.
    pub fn unsettled(&self) -> Option<Violation> {
        let routers = self.nodes.iter().map(|node| node.routers.len()).max().unwrap_or_default();
        (0..routers).find_map(|router| {
            let mut segments: BTreeMap<usize, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
            let running =
                (0..self.nodes.len()).filter(|&n| self.is_running(n) && router < self.nodes[n].routers.len());
            for node in running {
                let (nodes, active) = segments.entry(self.nodes[node].segment).or_default();
                nodes.push(node);
                active.extend(self.is_active(node, router).then_some(node));
            }
            let (nodes, active) = segments.into_values().find(|(_, active)| active.len() != 1)?;
            Some(Violation { at: self.now, router, broken: BrokenInvariant::Unsettled { nodes, active } })
        })
    }

    /// Changes the configuration of one of a running node's routers.
    pub fn reconfigure(&mut self, node: usize, router: usize, config: Config) {
        if self.is_running(node) {
            self.longest = self.longest.max(self.config(node, router).interval);
            self.input(node, router, |router, now| router.reconfigure(config, now));
            self.nodes[node].routers[router].record.reconfigured(self.now);
        }
    }

    /// Advances time by `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut steps_now = 0;
        while let Some((key, event)) = self.queue.pop_first() {
            if key.0 > end {
                self.queue.insert(key, event);
                break;
            }
            steps_now = if key.0 > self.now { 0 } else { steps_now + 1 };
            if steps_now > MAX_STEPS_AT_ONCE {
                self.record_violation(0, BrokenInvariant::Stuck);
                break;
            }
            self.advance(key.0);
            match event {
                Event::Arrival(packet) => self.deliver(packet),
                Event::Wake { node, router } => self.wake(node, router),
            }
        }
        self.advance(end);
    }

    fn is_running(&self, node: usize) -> bool {
        match self.nodes[node].run_state {
            RunState::Running => true,
            RunState::Frozen { .. } | RunState::Crashed => false,
        }
    }

    fn is_active(&self, node: usize, router: usize) -> bool {
        let state = self.nodes[node].routers.get(router).map(|sim_router| sim_router.router.state());
        self.is_running(node) && state == Some(State::Active)
    }

    /// Returns the time that a node's clock shows.
    fn clock_time(&self, node: usize) -> Time {
        self.nodes[node].clock.read(self.now)
    }

    /// Moves time on. All that was due is done and nothing happens on the way, so the invariants must hold now and until
    /// just before `to`.
    fn advance(&mut self, to: Time) {
        if to > self.now {
            self.now = Time::from_nanos(to.nanos().saturating_sub(1));
            self.check();
            self.now = to;
        }
    }

    fn wake(&mut self, node: usize, router: usize) {
        if self.nodes[node].routers[router].wake != Some(self.now) {
            return;
        }
        self.nodes[node].routers[router].wake = None;
        if self.is_running(node) {
            self.input(node, router, Router::handle_timeout);
        }
    }

    fn input_all(&mut self, node: usize, input: impl Fn(&mut Router, Time)) {
        for router in 0..self.nodes[node].routers.len() {
            self.input(node, router, &input);
        }
    }

    /// Gives one input to a node's router, and carries out its actions.
    fn input(&mut self, node: usize, router: usize, input: impl FnOnce(&mut Router, Time)) {
        let clock_time = self.clock_time(node);
        input(&mut self.nodes[node].routers[router].router, clock_time);
        let mut adverts = 0;
        while let Some(action) = self.nodes[node].routers[router].router.poll_action() {
            let event = match action {
                Action::SendAdvert { priority } => {
                    adverts += 1;
                    let machine = &mut self.nodes[node].routers[router].router;
                    let turn = machine.poll_turn();
                    let copies: Vec<_> = machine.copies().iter().copied().chain(turn).collect();
                    self.nodes[node].routers[router].record.advertised(self.now, priority);
                    self.send(node, router, priority, true, &copies);
                    if !copies.is_empty() {
                        let event = TraceEvent::Unicast(copies.len());
                        self.trace.push(TraceEntry { at: self.now, node, router, event });
                    }
                    TraceEvent::Advertised
                }
                Action::SendUnicast { priority } => {
                    adverts += 1;
                    let copies = self.nodes[node].routers[router].router.copies().to_vec();
                    if priority.is_none() {
                        self.nodes[node].routers[router].record.asked();
                    }
                    self.send(node, router, priority, false, &copies);
                    TraceEvent::Unicast(copies.len())
                }
                Action::Transition { from, to, reason } => {
                    let record = &mut self.nodes[node].routers[router].record;
                    if !record.became(from, to, reason, self.now, clock_time) {
                        self.record_violation(router, BrokenInvariant::TransitionOrder(node));
                    }
                    self.check_resignation(node, router);
                    TraceEvent::Became(to, reason)
                }
                Action::Announce(what) => TraceEvent::Announced(what),
            };
            self.trace.push(TraceEntry { at: self.now, node, router, event });
        }
        if adverts > 1 {
            self.record_violation(router, BrokenInvariant::AdvertStorm(node));
        }
        self.schedule(node, router);
    }

    /// Sees to it that the node looks at its timer in time.
    fn schedule(&mut self, node: usize, router: usize) {
        let Node { routers, clock, .. } = &mut self.nodes[node];
        let sim_router = &mut routers[router];
        let wake = sim_router.router.poll_timeout().map(|due| clock.when(due).max(self.now));
        if let Some(at) = wake.filter(|_| wake != sim_router.wake) {
            self.queued += 1;
            self.queue.insert((at, EventOrder::Wake, self.queued), Event::Wake { node, router });
        }
        sim_router.wake = wake;
    }
}

/// Primary address of a simulated node.
pub fn address(family: Family, node: u8) -> IpAddr {
    let host = u16::from(node) + 1;
    match family {
        Family::V4 => Ipv4Addr::new(192, 0, 2, node.saturating_add(1)).into(),
        Family::V6 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host).into(),
    }
}
