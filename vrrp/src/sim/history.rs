//! Random histories: nodes, a LAN and the faults that befall them, all from one seed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::{BrokenInvariant, Clock, Freeze, Lan, Medium, Random, Violation, address};
use crate::router::{Config, State};
use crate::units::{Family, Interval, Priority, Versions};

/// Time an undisturbed packet takes.
const LATENCY: Duration = Duration::from_micros(300);

/// A node of a history.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Member {
    /// By how many millionths its clock is fast, or slow if negative.
    pub clock: i32,
    /// Versions of all its routers.
    pub versions: Versions,
    /// Priority of each of its routers.
    pub priorities: Vec<Priority>,
}

/// Something that befalls the nodes or the LAN. Nodes are named by index.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "named after the methods of `Lan`")]
pub enum Fault {
    Crash(usize),
    Resign(usize),
    Unplug(usize),
    Restart(usize),
    Freeze(usize, Freeze),
    Thaw(usize),
    Partition(Vec<usize>),
    Heal,
    Deafen(usize, usize),
    Undeafen,
    Filter(usize, usize),
    Unfilter,
    ChangeMedium(Medium),
    Priority { node: usize, router: usize, priority: Priority },
    Interval(usize, Interval),
    Preempt(usize, bool),
}

/// A run of the simulation: the nodes, their configuration and the faults.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct History {
    /// Seed that the history is generated from; also decides which packets are lost.
    pub seed: u64,
    /// Family of the routers.
    pub family: Family,
    /// The interval that all routers begin with.
    pub interval: Interval,
    /// Preempt_Mode that all routers begin with.
    pub preempt: bool,
    /// Preemption delay of all routers.
    pub preempt_delay: Duration,
    /// Time that each preferred peer gets to preempt first.
    pub preempt_turn: Duration,
    /// True if all routers also send unicast to peers that multicast does not reach. If so, it is filtered to the end.
    pub unicast_fallback: bool,
    /// Chance that an attacker sends recorded unicast to the group, in thousandths.
    pub replayed: u64,
    /// The nodes.
    pub members: Vec<Member>,
    /// The faults in order, each with the time since the one before.
    pub faults: Vec<(Duration, Fault)>,
}

impl History {
    /// The history of this seed.
    pub fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let r = &mut random;
        let family = pick(r, &[Family::V4, Family::V4, Family::V6]);
        let mixes: &[&[Versions]] = match family {
            Family::V6 => &[&[Versions::V3]],
            Family::V4 => &[
                &[Versions::V3],
                &[Versions::V3],
                &[Versions::V2],
                &[Versions::V2AndV3],
                &[Versions::V3, Versions::V2AndV3],
                &[Versions::V2, Versions::V2AndV3],
                &[Versions::V2, Versions::V3, Versions::V2AndV3],
            ],
        };
        let mix = pick(r, mixes);
        let millis = if mix == [Versions::V3] { [10, 100, 1000] } else { [1000, 1000, 2000] };
        let interval = interval(pick(r, &millis));
        let (nodes, routers) = (2 + r.below(4), pick(r, &[1, 1, 1, 3]));
        let members = (0..nodes).map(|_| member(r, mix, routers)).collect();
        let preempt_delay = interval.duration() * pick(r, &[0, 0, 0, 5, 20]);
        let preempt_turn = interval.duration() * pick(r, &[0, 0, 5]);
        let mut history = Self {
            seed,
            family,
            interval,
            preempt: r.chance(700),
            preempt_delay,
            preempt_turn,
            unicast_fallback: false,
            replayed: 0,
            members,
            faults: Vec::new(),
        };
        for _ in 0..=r.below(24) {
            let intervals = pick(r, &[1, 3, 6, 12]);
            let after = r.duration(interval.duration() * intervals);
            let fault = history.fault(r);
            history.faults.push((after, fault));
        }
        history.filter();
        history
    }

    /// Has multicast filtered in half of the histories, between some nodes or all. By a seed of its own: the other half is as it
    /// would be without.
    fn filter(&mut self) {
        let r = &mut Random::new(!self.seed);
        self.unicast_fallback = r.chance(500);
        if !self.unicast_fallback {
            return;
        }
        let nodes = self.members.len();
        for _ in 0..r.below(4) {
            let (at, after) = (index(r, self.faults.len() + 1), r.duration(self.interval.duration() * 6));
            let rate = pick(r, &[200, 500, 1000]);
            let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
            let filtered = pairs.filter(|(from, to)| from != to && r.chance(rate));
            let filters = filtered.map(|(from, to)| (Duration::ZERO, Fault::Filter(from, to)));
            let faults: Vec<_> = [(after, Fault::Unfilter)].into_iter().chain(filters).collect();
            self.faults.splice(at..at, faults);
        }
        self.replayed = pick(r, &[0, 100, 1000]);
    }

    fn fault(&self, r: &mut Random) -> Fault {
        let nodes = self.members.len();
        let [node, other] = [0, 1].map(|_| index(r, nodes));
        let router = index(r, self.members[node].priorities.len());
        match r.below(20) {
            0 => Fault::Crash(node),
            1 => Fault::Resign(node),
            2 => Fault::Unplug(node),
            3 | 4 => Fault::Restart(node),
            5 | 6 => Fault::Freeze(node, Freeze::Process),
            7 => Fault::Freeze(node, Freeze::Machine),
            8 => Fault::Freeze(node, Freeze::Suspend),
            9..=11 => Fault::Thaw(node),
            12 => Fault::Partition((0..nodes).map(|_| index(r, 3)).collect()),
            13 => Fault::Heal,
            14 if node != other => Fault::Deafen(node, other),
            14 | 15 => Fault::Undeafen,
            16 => Fault::ChangeMedium(medium(r, self.interval.duration())),
            17 => Fault::Priority { node, router, priority: priority(r) },
            18 if self.members.iter().all(|m| m.versions == Versions::V3) => {
                Fault::Interval(node, interval(pick(r, &[10, 50, 100, 1000, 5000])))
            }
            _ => Fault::Preempt(node, r.chance(500)),
        }
    }

    /// Plays it, and then a while without faults in which all is to settle.
    pub fn play(&self) -> Lan {
        let mut lan = Lan::new(self.seed, Medium::faultless(LATENCY));
        lan.replay(self.replayed);
        for node in 0..self.members.len() {
            let clock = Clock::faster_by(self.members[node].clock);
            lan.add_node(
                clock,
                (0..self.members[node].priorities.len()).map(|router| self.config(node, router)),
            );
        }
        for (after, fault) in &self.faults {
            lan.run_for(*after);
            self.inflict(fault, &mut lan);
        }
        lan.undeafen();
        lan.heal();
        lan.change_medium(Medium::faultless(LATENCY));
        lan.run_for(lan.bound());
        if self.unicast_fallback {
            lan.run_for(lan.meeting());
        }
        if lan.unsettled().is_some() {
            // Someone may just be preempting.
            lan.run_for(lan.slowest * 3);
        }
        if self.all_understand_each_other() {
            lan.violation = lan.violation.take().or_else(|| lan.unsettled());
            let turns = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
            lan.run_for(self.preempt_delay + self.preempt_turn * turns + lan.bound() * 2);
            lan.violation = lan.violation.take().or_else(|| self.not_the_best(&lan));
            let calm = lan.now;
            lan.run_for(lan.bound() * 10);
            lan.violation = lan.violation.take().or_else(|| lan.restless(calm));
        }
        lan
    }

    /// The same with as few faults as needed to end in a violation.
    #[must_use]
    pub fn shortened(&self) -> Self {
        let mut shortest = self.clone();
        let mut length = shortest.faults.len();
        while length > 0 {
            let mut from = 0;
            while from < shortest.faults.len() {
                let mut shorter = shortest.clone();
                shorter.faults.drain(from..(from + length).min(shorter.faults.len()));
                if shorter.play().violation().is_some() {
                    shortest = shorter;
                } else {
                    from += length;
                }
            }
            length /= 2;
        }
        shortest
    }

    fn config(&self, node: usize, router: usize) -> Config {
        let addresses: Vec<_> =
            (0..).take(self.members.len()).map(|node| address(self.family, node)).collect();
        let primary = addresses[node];
        Config {
            priority: self.members[node].priorities[router],
            interval: self.interval,
            preempt: self.preempt,
            preempt_delay: self.preempt_delay,
            fit_from: Priority::LOWEST,
            preferred: self.preferred(node, router),
            preempt_turn: self.preempt_turn,
            versions: self.members[node].versions,
            primary,
            peers: addresses.into_iter().filter(|address| *address != primary).collect(),
            unknown_peers: false,
            unicast_fallback: self.unicast_fallback,
            addresses: [address(self.family, 200)].into(),
        }
    }

    /// The nodes whose priority is higher, as the nodes begin with it.
    fn preferred(&self, node: usize, router: usize) -> BTreeSet<IpAddr> {
        let own = self.members[node].priorities[router];
        let higher = self.members.iter().zip(0..).filter(|(other, _)| other.priorities[router] > own);
        higher.map(|(_, number)| address(self.family, number)).collect()
    }

    fn inflict(&self, fault: &Fault, lan: &mut Lan) {
        let change = |lan: &mut Lan, node: usize, change: &dyn Fn(Config) -> Config| {
            for router in 0..self.members[node].priorities.len() {
                let config = change(lan.config(node, router).clone());
                lan.reconfigure(node, router, config);
            }
        };
        match fault {
            Fault::Crash(node) => lan.crash(*node),
            Fault::Resign(node) => lan.resign(*node),
            Fault::Unplug(node) => lan.unplug(*node),
            Fault::Restart(node) => lan.restart(*node),
            Fault::Freeze(node, how) => lan.freeze(*node, *how),
            Fault::Thaw(node) => lan.thaw(*node),
            Fault::Partition(segments) => lan.partition(segments),
            Fault::Heal => lan.heal(),
            Fault::Deafen(node, to) => lan.deafen(*node, *to),
            Fault::Undeafen => lan.undeafen(),
            Fault::Filter(from, to) => lan.filter(*from, *to),
            Fault::Unfilter => lan.unfilter(),
            Fault::ChangeMedium(medium) => lan.change_medium(*medium),
            Fault::Priority { node, router, priority } => {
                let config = Config { priority: *priority, ..lan.config(*node, *router).clone() };
                lan.reconfigure(*node, *router, config);
            }
            Fault::Interval(node, interval) => {
                change(lan, *node, &|config| Config { interval: *interval, ..config });
            }
            Fault::Preempt(node, preempt) => {
                change(lan, *node, &|config| Config { preempt: *preempt, ..config });
            }
        }
    }

    fn all_understand_each_other(&self) -> bool {
        let speaks = |versions| self.members.iter().any(|member| member.versions == versions);
        !(speaks(Versions::V2) && speaks(Versions::V3))
    }

    /// If all preempt: a settled segment whose Active is not of the highest priority there.
    fn not_the_best(&self, lan: &Lan) -> Option<Violation> {
        (0..self.members[0].priorities.len()).find_map(|router| {
            let running: Vec<_> = (0..self.members.len()).filter(|&node| lan.is_running(node)).collect();
            let priority = |node: &usize| lan.config(*node, router).priority;
            let all_preempt = running.iter().all(|node| lan.config(*node, router).preempt);
            let best = running.iter().map(priority).max()?;
            let active = lan.active_of(router);
            let served = active.iter().any(|node| priority(node) == best);
            let broken = BrokenInvariant::Unsettled { nodes: running, active };
            (all_preempt && !served).then_some(Violation { at: lan.now, router, broken })
        })
    }
}

/// Formats a report on a failed history: how to play it again, the shortest form, and how it ended.
pub fn report(history: &History) -> String {
    let shortest = history.shortened();
    let lan = shortest.play();
    let ending = lan.trace().iter().rev().take(60).collect::<Vec<_>>();
    let ending: Vec<String> = ending
        .iter()
        .rev()
        .map(|e| {
            format!("  {:>12} µs node {} router {}: {:?}", e.at.nanos() / 1000, e.node, e.router, e.event)
        })
        .collect();
    let states: Vec<State> = (0..shortest.members.len()).map(|node| lan.state(node)).collect();
    format!(
        "seed {seed}: {violation}\n\
         play it again: WINDLASS_SIM_SEED={seed} cargo test -p windlass-vrrp --lib histories\n\
         shortest form: {shortest:#?}\nstates at the end: {states:?}\nlast events:\n{}",
        ending.join("\n"),
        seed = history.seed,
        violation = lan.violation().map_or_else(String::new, ToString::to_string),
    )
}

fn member(r: &mut Random, mix: &[Versions], routers: u64) -> Member {
    let rates = [-10_000, -100, 0, 0, 100, 10_000];
    Member {
        clock: pick(r, &rates),
        versions: pick(r, mix),
        priorities: (0..routers).map(|_| priority(r)).collect(),
    }
}

/// Ties, neighbours and owners are more frequent than by mere chance.
fn priority(r: &mut Random) -> Priority {
    let any = u8::try_from(1 + r.below(254)).unwrap_or(1);
    Priority::new(pick(r, &[any, any, 100, 100, 101, 200, 254, 1, 255])).unwrap_or(Priority::OWNER)
}

/// Packets overtake each other but arrive within half an interval.
fn medium(r: &mut Random, interval: Duration) -> Medium {
    Medium {
        latency: LATENCY,
        jitter: r.duration(interval / 10),
        loss: pick(r, &[0, 0, 10, 100, 400]),
        duplicated: pick(r, &[0, 0, 100]),
        held: pick(r, &[0, 0, 100]),
        held_for: r.duration(interval / 3),
    }
}

fn interval(millis: u32) -> Interval {
    Interval::from_millis(millis).unwrap_or(Interval::SECOND)
}

fn index(r: &mut Random, length: usize) -> usize {
    usize::try_from(r.below(u64::try_from(length).unwrap_or(1))).unwrap_or(0)
}

fn pick<T: Copy>(r: &mut Random, from: &[T]) -> T {
    from[index(r, from.len())]
}
