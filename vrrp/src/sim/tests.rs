use proptest::prelude::*;

use super::*;
use crate::units::{Interval, Priority, Versions};

const LATENCY: Duration = Duration::from_micros(300);

fn config(node: u8, nodes: u8, priority: u8, millis: u32) -> Config {
    Config {
        priority: Priority::new(priority).unwrap(),
        interval: Interval::from_millis(millis).unwrap(),
        preempt: true,
        preempt_delay: Duration::ZERO,
        versions: Versions::V3,
        primary: address(node),
        peers: (0..nodes).filter(|n| *n != node).map(address).collect(),
        addresses: [Ipv4Addr::new(203, 0, 113, 1).into()].into(),
    }
}

/// Nodes with these priorities at 100 ms, run until one is Active.
fn lan(priorities: &[u8]) -> Lan {
    let mut lan = Lan::new(1, LATENCY);
    let nodes = u8::try_from(priorities.len()).unwrap();
    for (node, priority) in (0..).zip(priorities) {
        lan.add(config(node, nodes, *priority, 100));
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
    assert!(lan.violation().is_none(), "{}\n{:#?}", lan.violation().unwrap(), lan.trace());
}

#[test]
fn the_highest_priority_becomes_active_and_no_other_ever_does() {
    let lan = lan(&[100, 200, 150]);
    assert_eq!(lan.active(), [1]);
    let became_active =
        lan.trace().iter().filter(|(_, _, deed)| matches!(deed, Deed::Became(State::Active, _)));
    assert_eq!(became_active.count(), 1, "{:#?}", lan.trace());
}

/// vrrp.md §5.1, from both sides: a crash is noticed not before 2·A + skew and not after 3·A + skew.
#[test]
fn a_crash_is_made_good_within_three_intervals_and_skew() {
    for phase in 0..20 {
        let mut lan = lan(&[200, 100]);
        lan.run_for(Duration::from_millis(5) * phase);
        lan.crash(0);
        let took = time_until_active(&mut lan, 1);
        let skew = Interval::from_millis(100).unwrap().skew(Priority::new(100).unwrap());
        let slack = LATENCY + Duration::from_micros(50);
        assert!(took <= Duration::from_millis(300) + skew + slack, "{took:?}");
        assert!(took + slack >= Duration::from_millis(200) + skew, "{took:?}");
        assert_settled(&lan);
    }
}

#[test]
fn a_resignation_is_followed_within_the_skew() {
    let mut lan = lan(&[254, 200]);
    lan.resign(0);
    let took = time_until_active(&mut lan, 1);
    let skew = Interval::from_millis(100).unwrap().skew(Priority::new(200).unwrap());
    assert!(took <= skew + LATENCY * 2, "{took:?}");
}

#[test]
fn a_partition_has_one_active_on_each_side_and_one_after_it() {
    let mut lan = lan(&[200, 150, 100, 50]);
    lan.partition(&[0, 0, 1, 1]);
    lan.run_for(lan.bound() * 2);
    assert_eq!(lan.active(), [0, 2]);
    lan.heal();
    lan.run_for(lan.bound() * 2);
    assert_eq!(lan.active(), [0]);
    assert_settled(&lan);
}

/// keepalived #166: after a partition the winner must announce again, whoever speaks first, else hosts on the other side
/// keep the loser's entry.
#[test]
fn the_winner_of_a_healed_partition_announces_again_whoever_speaks_first() {
    for phase in 0..20 {
        let mut lan = lan(&[200, 100]);
        lan.partition(&[0, 1]);
        lan.run_for(lan.bound() + Duration::from_millis(5) * phase);
        assert_eq!(lan.active(), [0, 1]);
        lan.heal();
        let healed = lan.now();
        lan.run_for(Duration::from_millis(200));
        let again = (0, Deed::Announced(Announce::Contention));
        let announced =
            lan.trace().iter().any(|(at, node, deed)| *at >= healed && (*node, deed) == (again.0, &again.1));
        assert!(announced, "phase {phase}: {:#?}", lan.trace());
    }
}

/// Scenario 88: whatever waits in its socket, a frozen Active listens first; the peer that took over is not disturbed until
/// the frozen one has listened.
#[test]
fn an_active_that_was_frozen_says_nothing_before_it_has_listened() {
    for how in [Freeze::Process, Freeze::Machine] {
        let mut lan = lan(&[200, 100]);
        lan.freeze(0, how);
        lan.run_for(Duration::from_secs(5));
        assert_eq!(lan.active(), [1]);
        lan.thaw(0);
        assert_eq!(lan.state(0), State::Backup, "{how:?}");
        let thawed = lan.now();
        time_until_active(&mut lan, 0);
        let listened = lan.now().since(thawed);
        assert!(listened >= Duration::from_millis(300), "{how:?}: {listened:?}");
        assert_settled(&lan);
    }
}

#[test]
fn an_active_that_was_frozen_only_shortly_stays_active() {
    let mut lan = lan(&[200, 100]);
    lan.freeze(0, Freeze::Process);
    lan.run_for(Duration::from_millis(150));
    lan.thaw(0);
    assert_eq!(lan.state(0), State::Active);
    lan.run_for(lan.bound() * 2);
    assert_eq!(lan.active(), [0]);
}

#[test]
fn a_backup_whose_machine_was_paused_does_not_disturb_the_active() {
    let mut lan = lan(&[200, 100]);
    lan.freeze(1, Freeze::Machine);
    lan.run_for(Duration::from_secs(5));
    lan.thaw(1);
    lan.run_for(Duration::from_secs(5));
    let became_active =
        |n| lan.trace().iter().filter(move |t| t.1 == n && matches!(t.2, Deed::Became(State::Active, _)));
    assert_eq!((became_active(0).count(), became_active(1).count()), (1, 0));
}

/// Scenario 89: the better router hears nothing and claims; the other hears it and yields within two adverts.
#[test]
fn with_a_one_way_fault_the_router_that_hears_yields() {
    let mut lan = lan(&[100, 200]);
    assert_eq!(lan.active(), [1]);
    lan.deafen(1, 0);
    lan.run_for(Duration::from_secs(5));
    assert_eq!(lan.active(), [1]);
    lan.crash(1);
    lan.run_for(lan.bound());
    assert_eq!(lan.active(), [0]);
    lan.restart(1);
    lan.run_for(lan.bound() + Duration::from_millis(200));
    assert_eq!(lan.active(), [1]);
}

#[test]
fn a_longer_interval_told_by_the_active_does_not_look_like_silence() {
    let mut lan = lan(&[200, 100]);
    lan.reconfigure(0, config(0, 2, 200, 10_000));
    lan.run_for(Duration::from_mins(1));
    assert_eq!(lan.active(), [0]);
    let became_active = lan.trace().iter().filter(|t| matches!(t.2, Deed::Became(State::Active, _)));
    assert_eq!(became_active.count(), 1);
}

#[test]
fn after_heavy_loss_the_routers_settle() {
    for seed in 0..50 {
        let mut lan = Lan::new(seed, LATENCY);
        for node in 0..4 {
            lan.add(config(node, 4, 250 - 40 * node, 100));
        }
        lan.lose(400);
        lan.run_for(Duration::from_mins(1));
        lan.lose(0);
        lan.run_for(lan.bound() * 3);
        assert_eq!(lan.active(), [0], "seed {seed}");
        assert_settled(&lan);
    }
}

/// The watch itself can see: a router that never hears its peer breaks the invariant, and it says so.
#[test]
fn the_watch_reports_two_actives_that_persist() {
    let mut lan = lan(&[200, 100]);
    lan.deafen(1, 0);
    lan.run_for(lan.bound() * 3);
    let violation = lan.violation().expect("two Actives");
    assert_eq!(violation.active, [0, 1]);
    assert!(violation.to_string().ends_with("nodes [0, 1] are Active among [0, 1]"), "{violation}");
}

#[derive(Clone, Debug)]
enum Fault {
    Crash(usize),
    Resign(usize),
    Restart(usize),
    FreezeProcess(usize),
    FreezeMachine(usize),
    Thaw(usize),
    Partition(Vec<usize>),
    Heal,
    Priority(usize, u8),
}

fn fault(nodes: usize) -> impl Strategy<Value = Fault> {
    let node = 0..nodes;
    prop_oneof![
        node.clone().prop_map(Fault::Crash),
        node.clone().prop_map(Fault::Resign),
        node.clone().prop_map(Fault::Restart),
        node.clone().prop_map(Fault::FreezeProcess),
        node.clone().prop_map(Fault::FreezeMachine),
        node.clone().prop_map(Fault::Thaw),
        proptest::collection::vec(0..3_usize, nodes).prop_map(Fault::Partition),
        Just(Fault::Heal),
        (node, 1..=254_u8).prop_map(|(node, priority)| Fault::Priority(node, priority)),
    ]
}

fn inflict(lan: &mut Lan, fault: &Fault, configs: &mut [Config]) {
    match fault {
        Fault::Crash(node) => lan.crash(*node),
        Fault::Resign(node) => lan.resign(*node),
        Fault::Restart(node) => lan.restart(*node),
        Fault::FreezeProcess(node) => lan.freeze(*node, Freeze::Process),
        Fault::FreezeMachine(node) => lan.freeze(*node, Freeze::Machine),
        Fault::Thaw(node) => lan.thaw(*node),
        Fault::Partition(segments) => lan.partition(segments),
        Fault::Heal => lan.heal(),
        Fault::Priority(node, priority) => {
            configs[*node].priority = Priority::new(*priority).unwrap();
            lan.reconfigure(*node, configs[*node].clone());
        }
    }
}

fn scenario() -> impl Strategy<Value = (Vec<u8>, bool, u32, Vec<(Fault, u64)>)> {
    (2..=5_usize).prop_flat_map(|nodes| {
        let priorities = proptest::collection::vec(1..=254_u8, nodes);
        let interval = prop_oneof![Just(10_u32), Just(100), Just(1000)];
        // Faults come at any phase, from at once to some intervals later.
        let faults = proptest::collection::vec((fault(nodes), 0..600_u64), 1..25);
        (priorities, any::<bool>(), interval, faults)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// I3: equal priorities, with and without preempt, at every interval, whatever the faults.
    #[test]
    fn one_active_per_segment_within_the_bound_after_any_faults(
        (priorities, preempt, millis, faults) in scenario()
    ) {
        let mut lan = Lan::new(7, LATENCY);
        let nodes = u8::try_from(priorities.len()).unwrap();
        let mut configs: Vec<Config> = (0..nodes)
            .zip(&priorities)
            .map(|(node, priority)| Config { preempt, ..config(node, nodes, *priority, millis) })
            .collect();
        for config in &configs {
            lan.add(config.clone());
        }
        for (fault, hundredths_of_an_interval) in &faults {
            lan.run_for(Duration::from_millis(u64::from(millis)) * u32::try_from(*hundredths_of_an_interval).unwrap() / 100);
            inflict(&mut lan, fault, &mut configs);
        }
        lan.run_for(lan.bound() * 3);
        prop_assert!(lan.violation().is_none(), "{}\n{:#?}", lan.violation().unwrap(), lan.trace());
    }
}
