//! Nodes and a stranger on a LAN in virtual time: the state machine, what it knows of its predecessor, and what it claims.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_vrrp::{Action, Announce, ReceivedAdvert, Router, State, Time, TransitionReason};

use super::super::address_probe::ClaimOutcome;
use super::super::tracker::{RouterTracker, RouterView};
use crate::config::RouterConfig;
use crate::core::predecessor::{Predecessor, PredecessorTracker};
use crate::handle::ActiveState;

/// What a node did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Observed {
    Became(State, TransitionReason),
    Asked(IpAddr),
    Claimed(IpAddr),
    FoundTaken(IpAddr),
}

/// What was done, when and by which node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) at: Time,
    pub(super) node: usize,
    pub(super) observed: Observed,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Start,
    Advert(ReceivedAdvert),
    Query { from: usize, address: IpAddr },
    Answer(IpAddr),
}

/// How long what is sent is under way, and what a node's two threads take to look at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    pub(super) adverts: Duration,
    pub(super) frames: Duration,
}

struct Node {
    config: RouterConfig,
    router: Router,
    predecessor: PredecessorTracker,
    tracker: RouterTracker,
    addresses: Arc<[IpAddr]>,
    unproven: Arc<BTreeSet<IpAddr>>,
    active_state: ActiveState,
    active_until: Time,
    delays: Delays,
    /// It does nothing until then.
    frozen: Time,
}

impl Node {
    fn holds(&self, now: Time) -> bool {
        self.router.state() == State::Active && now < self.active_until
    }
}

pub(super) struct Lan {
    pub(super) now: Time,
    nodes: Vec<Node>,
    due: BTreeMap<(Time, u64), (usize, Event)>,
    count: u64,
    /// The addresses that another host has.
    pub(super) foreign_adverts: BTreeSet<IpAddr>,
    pub(super) log: Vec<Entry>,
}

const STRANGER_ANSWERS_AFTER: Duration = Duration::from_micros(700);
const FOREVER: Time = Time::from_nanos(u64::MAX);

impl Lan {
    pub(super) fn new(foreign_adverts: &[IpAddr]) -> Self {
        let foreign_adverts = foreign_adverts.iter().copied().collect();
        Self {
            now: Time::default(),
            nodes: Vec::new(),
            due: BTreeMap::new(),
            count: 0,
            foreign_adverts,
            log: Vec::new(),
        }
    }

    /// A node that is started later, and all whose addresses are unproven, or none.
    pub(super) fn add(&mut self, config: RouterConfig, start: Time, delays: Delays, unproven: bool) {
        let addresses: Arc<[IpAddr]> = config.addresses.iter().copied().collect();
        self.nodes.push(Node {
            router: Router::new(config.vrid, config.state_machine_config()),
            predecessor: PredecessorTracker::default(),
            tracker: RouterTracker::default(),
            unproven: Arc::new(addresses.iter().copied().filter(|_| unproven).collect()),
            addresses,
            active_state: ActiveState {
                active: false,
                takeover: 0,
                contentions: 0,
                predecessor: Predecessor::Nobody,
            },
            active_until: Time::default(),
            delays,
            frozen: Time::default(),
            config,
        });
        self.put(start, self.nodes.len() - 1, Event::Start);
    }

    /// All nodes learn that their addresses were announced.
    pub(super) fn prove(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node].unproven = Arc::default();
            self.follow(node);
        }
    }

    /// Nothing is heard of a node for so long, and it hears nothing.
    pub(super) fn freeze(&mut self, node: usize, span: Duration) {
        self.nodes[node].frozen = self.now + span;
    }

    /// For good.
    pub(super) fn crash(&mut self, node: usize) {
        self.nodes[node].frozen = FOREVER;
    }

    pub(super) fn active(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].holds(self.now)).collect()
    }

    /// What was done since.
    pub(super) fn since(&self, begin: Time) -> impl Iterator<Item = &Entry> {
        self.log.iter().filter(move |entry| entry.at >= begin)
    }

    pub(super) fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some((at, next)) = self.next().filter(|(at, _)| *at <= end) {
            self.now = at.max(self.now);
            match next {
                Next::Event(key) => {
                    if let Some((node, event)) = self.due.remove(&key) {
                        self.happen(node, event);
                    }
                }
                Next::Timer(node) => {
                    let now = self.now;
                    self.nodes[node].router.handle_timeout(now);
                    self.act(node);
                }
                Next::Probe(node) => {
                    self.follow(node);
                    // A question does not end before what came until then was read: the thread reads it now.
                    if self.nodes[node].tracker.deadline().is_some_and(|due| due <= self.now) {
                        self.read(node);
                    }
                }
            }
        }
        self.now = end;
    }

    fn next(&self) -> Option<(Time, Next)> {
        let event =
            self.due.iter().map(|(key, (node, _))| (key.0.max(self.nodes[*node].frozen), Next::Event(*key)));
        let nodes = || self.nodes.iter().enumerate();
        let timers = nodes().filter_map(|(at, node)| {
            node.router.poll_timeout().map(|due| (due.max(node.frozen), Next::Timer(at)))
        });
        let probes = nodes().filter_map(|(at, node)| {
            node.tracker.deadline().map(|due| (due.max(node.frozen), Next::Probe(at)))
        });
        // The thread that asks does what is due before it reads what came meanwhile, the one that elects after it.
        let all = probes.chain(event).chain(timers);
        all.min_by_key(|(at, _)| *at).filter(|(at, _)| *at < FOREVER)
    }

    /// Has a node read all that came.
    fn read(&mut self, at: usize) {
        let came = self.due.iter().filter(|((came, _), (node, _))| *node == at && *came <= self.now);
        for key in came.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some((node, event)) = self.due.remove(&key) {
                self.happen(node, event);
            }
        }
    }

    /// Until when a node has read all that came.
    fn read_until(&self, at: usize) -> Time {
        let unread = self.due.iter().filter(|(_, (node, _))| *node == at).map(|((came, _), _)| *came);
        unread.min().map_or(self.now, |came| came.min(self.now))
    }

    fn put(&mut self, at: Time, node: usize, event: Event) {
        self.count += 1;
        self.due.insert((at, self.count), (node, event));
    }

    fn note(&mut self, node: usize, observed: Observed) {
        self.log.push(Entry { at: self.now, node, observed });
    }

    fn happen(&mut self, node: usize, event: Event) {
        let now = self.now;
        match event {
            Event::Start => {
                self.nodes[node].predecessor = PredecessorTracker::started(now);
                self.nodes[node].router.startup(now);
            }
            Event::Advert(heard) => {
                let Node { predecessor, router, .. } = &mut self.nodes[node];
                predecessor.heard(heard.interval, now);
                router.handle_advert(heard, now);
            }
            Event::Query { from, address } => {
                let answers = &self.nodes[node];
                if answers.tracker.answers(address) && answers.holds(now) {
                    self.put(now + self.nodes[from].delays.frames, from, Event::Answer(address));
                }
                return;
            }
            Event::Answer(address) => {
                if self.nodes[node].holds(now)
                    && self.nodes[node].tracker.note_claim(address, now) == ClaimOutcome::Taken
                {
                    self.note(node, Observed::FoundTaken(address));
                }
                return;
            }
        }
        self.act(node);
    }

    /// Does what the state machine wants.
    fn act(&mut self, at: usize) {
        let now = self.now;
        while let Some(action) = self.nodes[at].router.poll_action() {
            let node = &mut self.nodes[at];
            match action {
                Action::SendAdvert { priority } => {
                    node.active_until =
                        now + node.router.config().active_period().unwrap_or(Duration::from_hours(1));
                    let heard = ReceivedAdvert {
                        source: node.config.source,
                        priority,
                        interval: node.config.interval,
                        version: node.config.versions.sent()[0],
                        unicast: false,
                    };
                    for to in (0..self.nodes.len()).filter(|to| *to != at) {
                        self.put(now + self.nodes[to].delays.adverts, to, Event::Advert(heard));
                    }
                }
                Action::Transition { from: _, to, reason } => {
                    if to == State::Active {
                        node.active_state.takeover += 1;
                        node.active_state.predecessor = node.predecessor.at_takeover(node.config.probe, now);
                    }
                    self.note(at, Observed::Became(to, reason));
                }
                Action::Announce(Announce::Contention) => node.active_state.contentions += 1,
                Action::SendUnicast { .. } | Action::Announce(Announce::Takeover | Announce::Added(_)) => {}
            }
        }
        self.follow(at);
    }

    /// As the neighbour thread does: follows, asks, follows.
    fn follow(&mut self, at: usize) {
        let now = self.now;
        self.look(at);
        if self.nodes[at].tracker.deadline().is_none_or(|due| due > now) {
            return;
        }
        let heard = self.read_until(at);
        for address in self.nodes[at].tracker.probes(now, heard, 1000) {
            self.note(at, Observed::Asked(address));
            for to in (0..self.nodes.len()).filter(|to| *to != at) {
                self.put(now + self.nodes[to].delays.frames, to, Event::Query { from: at, address });
            }
            if self.foreign_adverts.contains(&address) {
                self.put(now + STRANGER_ANSWERS_AFTER, at, Event::Answer(address));
            }
        }
        self.look(at);
    }

    fn look(&mut self, at: usize) {
        let now = self.now;
        let active = self.nodes[at].holds(now);
        let Node { config, tracker, addresses, unproven, active_state, .. } = &mut self.nodes[at];
        active_state.active = active;
        let (bound, forced, in_service) = (Arc::default(), Arc::default(), BTreeSet::new());
        let view = RouterView {
            active_state: *active_state,
            addresses,
            bound: &bound,
            hold: config.hold,
            probe: config.probe,
            unproven,
            forced: &forced,
            in_service: &in_service,
            link: Some(1),
        };
        let changes = tracker.follow(&view, now);
        tracker.take_cleared();
        let claimed = changes.iter().filter_map(|change| change.claimed()).flatten();
        for address in claimed.copied().collect::<Vec<_>>() {
            self.note(at, Observed::Claimed(address));
        }
    }
}

enum Next {
    Event((Time, u64)),
    Timer(usize),
    Probe(usize),
}
