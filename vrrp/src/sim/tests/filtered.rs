//! Multicast is filtered, unicast passes.

use super::*;

const INTERVAL: Duration = Duration::from_millis(100);

/// Nodes with these priorities at 100 ms that fall back to unicast, run until one is Active.
fn fallback_lan(priorities: &[u8]) -> Lan {
    lan_with(priorities, |config| Config { unicast_fallback: true, ..config })
}

fn filter_both(lan: &mut Lan, one: usize, other: usize) {
    lan.filter(one, other);
    lan.filter(other, one);
}

fn filter_each(lan: &mut Lan, pairs: &[(usize, usize)]) {
    for (from, to) in pairs {
        lan.filter(*from, *to);
    }
}

fn filter_all(lan: &mut Lan) {
    let nodes = lan.nodes.len();
    for from in 0..nodes {
        for to in 0..nodes {
            lan.filter(from, to);
        }
    }
}

/// Adverts by unicast that a node sent since `since`.
fn unicast_since(lan: &Lan, node: usize, since: Time) -> usize {
    let sent = |e: &TraceEntry| match e.event {
        TraceEvent::Unicast(copies) if e.node == node && e.at >= since => copies,
        _ => 0,
    };
    lan.trace().iter().map(sent).sum()
}

/// What a node says of its first router's peers.
fn without_multicast(lan: &Lan, node: usize) -> Vec<IpAddr> {
    lan.nodes[node].routers[0].router.without_multicast(lan.now()).collect()
}

fn addresses(nodes: &[u8]) -> Vec<IpAddr> {
    nodes.iter().map(|node| address(Family::V4, *node)).collect()
}

/// How long two nodes were Active at once since `since`, in all, looked at every 50 µs for `duration`.
fn doubled(lan: &mut Lan, duration: Duration) -> Duration {
    const STEP: Duration = Duration::from_micros(50);
    let (end, mut doubled) = (lan.now() + duration, Duration::ZERO);
    while lan.now() < end {
        doubled += if lan.active().len() > 1 { STEP } else { Duration::ZERO };
        lan.run_for(STEP);
    }
    doubled
}

#[test]
fn without_fallback_all_become_active_where_multicast_passes_nowhere() {
    let mut lan = lan(&[200, 150, 100]);
    filter_all(&mut lan);
    lan.run_for(lan.bound());
    assert_eq!(lan.active(), [0, 1, 2]);
}

#[test]
fn where_multicast_passes_nowhere_from_the_start_one_becomes_active_and_no_other_ever_does() {
    let mut lan = Lan::new(1, Medium::faultless(LATENCY));
    for (node, priority) in (0..).zip([100, 200, 150]) {
        lan.add(Config { unicast_fallback: true, ..config(node, 3, priority, 100) });
    }
    filter_all(&mut lan);
    lan.run_for(Duration::from_mins(2));
    assert_eq!([0, 1, 2].map(|node| promotions(&lan, node)), [0, 1, 0]);
    assert_settled(&lan);
}

// shows: rfc9568 B8
#[test]
fn multicast_that_is_filtered_while_all_is_well_moves_nothing() {
    for filtered in [&[(0, 1)][..], &[(1, 0)], &[(0, 1), (1, 0)], &[(0, 1), (0, 2), (1, 2), (2, 1)]] {
        for phase in 0..20 {
            let mut lan = fallback_lan(&[200, 150, 100]);
            lan.run_for(Duration::from_millis(5) * phase);
            filter_each(&mut lan, filtered);
            lan.run_for(Duration::from_mins(1));
            assert_eq!([0, 1, 2].map(|node| promotions(&lan, node)), [1, 0, 0], "{filtered:?}, {phase}");
            assert_settled(&lan);
        }
    }
}

// shows: rfc9568 B9
/// Whichever is there first, and whichever direction is filtered: a lesser one does not become Active, a better one does as anywhere.
#[test]
fn a_router_that_starts_where_it_hears_nothing_finds_the_active_by_asking() {
    for filtered in [&[(0, 1)][..], &[(1, 0)], &[(0, 1), (1, 0)]] {
        for (first, second) in [(200, 100), (100, 200)] {
            let mut lan = Lan::new(1, Medium::faultless(LATENCY));
            lan.add(Config { unicast_fallback: true, ..config(0, 2, first, 100) });
            lan.run_for(Duration::from_secs(1));
            lan.add(Config { unicast_fallback: true, ..config(1, 2, second, 100) });
            filter_each(&mut lan, filtered);
            let doubled = doubled(&mut lan, Duration::from_secs(2));
            let best = usize::from(second > first);
            assert!(doubled <= LATENCY + Duration::from_micros(50), "{filtered:?}: {doubled:?}");
            assert_eq!(promotions(&lan, 1), best);
            assert_eq!(lan.active(), [best]);
            let since = promotions(&lan, 0) + promotions(&lan, 1);
            lan.run_for(Duration::from_mins(10));
            assert_eq!(promotions(&lan, 0) + promotions(&lan, 1), since, "{filtered:?}: it is quiet");
            assert_settled(&lan);
        }
    }
}

// shows: rfc9568 B9
/// A switch that was restarted has forgotten who listens to the group.
#[test]
fn two_actives_that_were_parted_meet_again_though_no_multicast_passes_any_more() {
    let mut lan = fallback_lan(&[200, 100, 50]);
    lan.partition(&[0, 1, 1]);
    filter_both(&mut lan, 0, 1);
    filter_both(&mut lan, 0, 2);
    lan.run_for(Duration::from_mins(10));
    assert_eq!(lan.active(), [0, 1]);
    lan.heal();
    lan.run_for(lan.meeting());
    assert_eq!(lan.active(), [0]);
    let promoted = [0, 1, 2].map(|node| promotions(&lan, node));
    lan.run_for(Duration::from_mins(10));
    assert_eq!([0, 1, 2].map(|node| promotions(&lan, node)), promoted);
}

#[test]
fn both_sides_tell_between_whom_multicast_does_not_pass_and_when_it_passes_again_unicast_ends() {
    let mut lan = fallback_lan(&[200, 150, 100]);
    assert_eq!([0, 1, 2].map(|node| without_multicast(&lan, node)), [addresses(&[]), vec![], vec![]]);
    lan.filter(0, 2);
    lan.run_for(INTERVAL * 25);
    assert_eq!(without_multicast(&lan, 0), addresses(&[2]));
    assert_eq!(without_multicast(&lan, 1), addresses(&[]));
    assert_eq!(without_multicast(&lan, 2), addresses(&[0]));
    lan.unfilter();
    lan.run_for(INTERVAL * 2);
    assert_eq!(without_multicast(&lan, 2), addresses(&[]));
    lan.run_for(INTERVAL * 20);
    assert_eq!(without_multicast(&lan, 0), addresses(&[]));
    let since = lan.now();
    lan.run_for(Duration::from_mins(1));
    assert!(unicast_since(&lan, 0, since) <= 12, "the turns go on");
    assert_eq!(unicast_since(&lan, 1, since) + unicast_since(&lan, 2, since), 0);
    assert_eq!([0, 1, 2].map(|node| promotions(&lan, node)), [1, 0, 0]);
}

#[test]
fn on_a_healthy_lan_a_new_active_tells_each_peer_by_unicast_once_and_then_one_in_five_seconds() {
    for (nodes, expected) in [(2, 12), (3, 12), (13, 12), (31, 30)] {
        let priorities: Vec<u8> = (0..nodes).map(|node| 254 - node).collect();
        let mut lan = fallback_lan(&priorities);
        let asked = if nodes <= 17 { nodes - 1 } else { 0 };
        assert_eq!(unicast_since(&lan, 0, Time::default()), usize::from(asked + nodes - 1), "{nodes} nodes");
        let since = lan.now();
        lan.run_for(Duration::from_mins(1));
        assert_eq!(unicast_since(&lan, 0, since), expected, "{nodes} nodes");
        for node in 1..usize::from(nodes) {
            assert_eq!(unicast_since(&lan, node, since), 0, "a Backup says nothing");
        }
    }
}

// shows: rfc9568 B8
#[test]
fn who_is_only_late_costs_a_few_packets() {
    let mut lan = fallback_lan(&[200, 100]);
    let since = lan.now();
    lan.freeze(0, Freeze::Process);
    lan.run_for(Duration::from_millis(270));
    lan.thaw(0);
    lan.run_for(Duration::from_secs(3));
    assert_eq!((promotions(&lan, 0), promotions(&lan, 1)), (1, 0));
    assert_eq!(unicast_since(&lan, 1, since), 1, "the question");
    assert!((1..=18).contains(&unicast_since(&lan, 0, since)), "{}", unicast_since(&lan, 0, since));
    assert_eq!(without_multicast(&lan, 0), addresses(&[]));
}

/// One question of each Backup, and the first advert of the next Active.
#[test]
fn a_dead_active_is_asked_once_and_replaced_as_soon_as_without_fallback() {
    let mut lan = fallback_lan(&[200, 150, 100]);
    lan.crash(0);
    let crashed = lan.now();
    let took = time_until_active(&mut lan, 1);
    let skew = Interval::from_millis(100).unwrap().skew(Priority::new(150).unwrap());
    assert!(took <= INTERVAL * 3 + skew + LATENCY + Duration::from_micros(50), "{took:?}");
    lan.run_for(Duration::from_secs(3));
    assert_eq!((unicast_since(&lan, 1, crashed), unicast_since(&lan, 2, crashed)), (1 + 2, 1));
}

#[test]
fn a_resignation_reaches_by_unicast_whom_multicast_does_not_reach() {
    let mut lan = fallback_lan(&[254, 200]);
    filter_both(&mut lan, 0, 1);
    lan.run_for(Duration::from_secs(5));
    assert_eq!(lan.active(), [0]);
    lan.resign(0);
    let took = time_until_active(&mut lan, 1);
    let skew = Interval::from_millis(100).unwrap().skew(Priority::new(200).unwrap());
    assert!(took <= skew + LATENCY * 2, "{took:?}");
}

// shows: rfc9568 T5
/// One Backup hears the Active by unicast alone and asks for more of it. An attacker sends each question to the other Backup as if to the
/// group, where it looks like a resignation.
#[test]
fn recorded_questions_move_nothing_when_they_are_sent_to_the_group() {
    let mut lan = fallback_lan(&[200, 150, 100]);
    lan.replay(1000);
    lan.filter(0, 2);
    lan.run_for(Duration::from_mins(1));
    assert_eq!([0, 1, 2].map(|node| promotions(&lan, node)), [1, 0, 0]);
    assert_settled(&lan);
}

#[test]
fn the_preemption_delay_holds_by_unicast_too() {
    let delay = Duration::from_secs(5);
    let mut lan =
        lan_with(&[200, 100], |config| Config { unicast_fallback: true, preempt_delay: delay, ..config });
    assert_eq!(lan.active(), [0]);
    filter_both(&mut lan, 0, 1);
    let lower = Config { priority: Priority::new(50).unwrap(), ..lan.config(0, 0).clone() };
    let higher = Config { priority: Priority::new(200).unwrap(), ..lower.clone() };
    lan.reconfigure(0, 0, lower);
    lan.run_for(delay * 2);
    assert_eq!(lan.active(), [1]);
    lan.reconfigure(0, 0, higher);
    lan.run_for(Duration::from_secs(1));
    assert_eq!(lan.active(), [1], "the delay");
    lan.run_for(delay);
    assert_eq!(lan.active(), [0]);
}

/// One that comes back hears by asking that another is Active, and leaves it in place for the delay.
#[test]
fn the_preemption_delay_holds_for_one_that_starts_and_hears_nothing() {
    let delay = Duration::from_secs(5);
    let falling_back = |config| Config { unicast_fallback: true, preempt_delay: delay, ..config };
    let mut lan = lan_with(&[200, 100], falling_back);
    filter_both(&mut lan, 0, 1);
    lan.crash(0);
    lan.run_for(lan.bound());
    lan.restart(0);
    let took = time_until_active(&mut lan, 0);
    assert!(took >= delay && took <= delay + lan.bound() * 2, "{took:?}");
    assert_eq!((promotions(&lan, 0), promotions(&lan, 1)), (2, 1));
}
