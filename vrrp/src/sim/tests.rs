use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::*;
use crate::units::{Interval, Priority, Versions};

mod clocks;
mod filtered;
mod histories;
mod invariants;
mod scenarios;
mod versions;

const LATENCY: Duration = Duration::from_micros(300);

fn config(node: u8, nodes: u8, priority: u8, millis: u32) -> Config {
    let address = |node| address(Family::V4, node);
    Config {
        priority: Priority::new(priority).unwrap(),
        interval: Interval::from_millis(millis).unwrap(),
        preempt: true,
        preempt_delay: Duration::ZERO,
        fit_from: Priority::LOWEST,
        preferred: BTreeSet::new(),
        preempt_turn: Duration::ZERO,
        versions: Versions::V3,
        primary: address(node),
        peers: (0..nodes).filter(|n| *n != node).map(address).collect(),
        unknown_peers: false,
        unicast_fallback: false,
        addresses: [Ipv4Addr::new(203, 0, 113, 1).into()].into(),
    }
}

/// Nodes with these priorities at 100 ms, run until one is Active.
fn lan(priorities: &[u8]) -> Lan {
    lan_with(priorities, |config| config)
}

/// The same, of a changed configuration.
fn lan_with(priorities: &[u8], change: impl Fn(Config) -> Config) -> Lan {
    let mut lan = Lan::new(1, Medium::faultless(LATENCY));
    let nodes = u8::try_from(priorities.len()).unwrap();
    for (node, priority) in (0..).zip(priorities) {
        lan.add(change(config(node, nodes, *priority, 100)));
    }
    lan.run_for(lan.bound() * 2);
    lan
}

/// The time from now until the only Active is `expected`.
fn time_until_active(lan: &mut Lan, expected: usize) -> Duration {
    let start = lan.now();
    while lan.active() != [expected] {
        lan.run_for(Duration::from_micros(50));
        assert!(lan.now().since(start) < Duration::from_mins(1), "{:?} are Active", lan.active());
    }
    lan.now().since(start)
}

fn assert_settled(lan: &Lan) {
    let violation = lan.violation().cloned().or_else(|| lan.unsettled());
    assert!(violation.is_none(), "{}\n{:#?}", violation.unwrap(), lan.trace());
}

/// How often a node became Active.
fn promotions(lan: &Lan, node: usize) -> usize {
    let became = |e: &&TraceEntry| e.node == node && matches!(e.event, TraceEvent::Became(State::Active, _));
    lan.trace().iter().filter(became).count()
}

/// How many adverts were sent since `since`.
fn adverts_since(lan: &Lan, since: Time) -> usize {
    lan.trace().iter().filter(|e| e.at >= since && e.event == TraceEvent::Advertised).count()
}
