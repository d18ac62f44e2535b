//! Named scenarios (the numbers are those of the project's catalogue of VRRP scenarios).

use super::*;

/// Scenarios 16, 18 and 64.
#[test]
fn the_highest_priority_becomes_active_and_no_other_ever_does() {
    let lan = lan(&[100, 200, 150]);
    assert_eq!(lan.active(), [1]);
    assert_eq!([0, 1, 2].map(|node| promotions(&lan, node)), [0, 1, 0]);
}

/// Scenario 18: a router that was Active alone yields to a better one that comes later.
#[test]
fn a_router_that_starts_later_with_a_higher_priority_takes_over() {
    let mut lan = Lan::new(1, Medium::faultless(LATENCY));
    lan.add(config(0, 2, 100, 100));
    lan.run_for(Duration::from_secs(1));
    assert_eq!(lan.active(), [0]);
    lan.add(config(1, 2, 200, 100));
    lan.run_for(lan.bound());
    assert_eq!(lan.active(), [1]);
    assert_eq!([0, 1].map(|node| promotions(&lan, node)), [1, 1]);
    assert_settled(&lan);
}

// shows: field-reports F-05; rfc9568 T4
/// From both sides: a crash is noticed not before 2·A + skew and not after 3·A + skew.
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

/// Nodes that were given one priority have one skew time: two of them take over in one moment, and the one with the lower address has
/// yielded when it has heard the other's advert. Priorities that differ by eight, as those that follow from nodes' addresses do, keep them
/// apart by 3 ms.
#[test]
fn backups_of_one_priority_are_active_beside_each_other_for_no_longer_than_an_advert_takes() {
    for (priorities, longest, takeovers) in
        [([201, 150, 150], LATENCY, 2), ([201, 150, 142], Duration::ZERO, 1)]
    {
        for phase in 0..20 {
            let mut lan = lan(&priorities);
            lan.run_for(Duration::from_millis(5) * phase);
            lan.crash(0);
            let (step, mut beside) = (Duration::from_micros(10), Duration::ZERO);
            let end = lan.now() + lan.bound();
            while lan.now() < end {
                lan.run_for(step);
                beside += if lan.active().len() > 1 { step } else { Duration::ZERO };
            }
            assert!(beside <= longest + step, "{beside:?} with {priorities:?}");
            assert_eq!(promotions(&lan, 1) + promotions(&lan, 2), takeovers, "{priorities:?}");
            assert_settled(&lan);
        }
    }
}

// shows: rfc9568 T5
/// Scenario 66.
#[test]
fn a_resignation_is_followed_within_the_skew() {
    let mut lan = lan(&[254, 200]);
    lan.resign(0);
    let took = time_until_active(&mut lan, 1);
    let skew = Interval::from_millis(100).unwrap().skew(Priority::new(200).unwrap());
    assert!(took <= skew + LATENCY * 2, "{took:?}");
}

// shows: field-reports F-21
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

// shows: field-reports F-21; rfc9568 B7
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
        let again = TraceEvent::Announced(Announce::Contention);
        let announced = lan.trace().iter().any(|e| e.at >= healed && e.node == 0 && e.event == again);
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
    assert_eq!((promotions(&lan, 0), promotions(&lan, 1)), (1, 0));
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
    lan.reconfigure(0, 0, config(0, 2, 200, 10_000));
    lan.run_for(Duration::from_mins(1));
    assert_eq!(lan.active(), [0]);
    assert_eq!((promotions(&lan, 0), promotions(&lan, 1)), (1, 0));
}

#[test]
fn after_heavy_loss_the_routers_settle() {
    for seed in 0..50 {
        let mut lan = Lan::new(seed, Medium::faultless(LATENCY));
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

// shows: rfc9568 T13
/// Scenario 12 and T13: an inferior that thinks it is Active costs an answer, its parting advert and an answer to that.
#[test]
fn a_contention_is_settled_with_four_adverts() {
    for phase in 0..20 {
        let mut lan = lan(&[200, 100]);
        lan.partition(&[0, 1]);
        lan.run_for(lan.bound() + Duration::from_millis(5) * phase);
        lan.heal();
        let healed = lan.now();
        // One interval and the transit: one regular advert of either at most, and what it provokes.
        lan.run_for(Duration::from_millis(100) + LATENCY * 4);
        assert_eq!(lan.active(), [0]);
        assert!(adverts_since(&lan, healed) <= 5, "phase {phase}: {:#?}", lan.trace());
    }
}

// shows: rfc9568 T23
/// T23: a peer that hears nothing and is heard is answered advert for advert, for as long as it lasts.
#[test]
fn a_deaf_inferior_that_advertises_fast_does_not_make_the_active_storm() {
    let mut lan = Lan::new(1, Medium::faultless(LATENCY));
    lan.add(config(0, 2, 200, 1000));
    lan.add(config(1, 2, 100, 10));
    lan.deafen(1, 0);
    lan.run_for(Duration::from_secs(10));
    assert_eq!(lan.active(), [0, 1]);
    let since = lan.now();
    lan.run_for(Duration::from_secs(10));
    let by = |node| {
        lan.trace()
            .iter()
            .filter(|e| e.at >= since && e.node == node && e.event == TraceEvent::Advertised)
            .count()
    };
    assert!(by(1) <= 1001, "{}", by(1));
    assert!(by(0) <= by(1) + 11, "{} for {}", by(0), by(1));
}

/// Scenario 61: a router that runs late, again and again, by less than its active period, is Active all the time.
#[test]
fn an_active_that_is_often_late_stays_active() {
    let mut lan = lan(&[200, 100]);
    for late in [50, 150, 187] {
        for _ in 0..20 {
            lan.freeze(0, Freeze::Process);
            lan.run_for(Duration::from_millis(late));
            lan.thaw(0);
            lan.run_for(Duration::from_millis(100));
        }
    }
    assert_eq!((promotions(&lan, 0), promotions(&lan, 1)), (1, 0));
    assert_settled(&lan);
}

/// Scenario 63: a Backup that waits for a slow Active learns of a faster one and of its end in time.
#[test]
fn a_faster_active_shortens_what_its_backups_wait() {
    let mut lan = Lan::new(1, Medium::faultless(LATENCY));
    lan.add(config(0, 2, 200, 100));
    lan.add(config(1, 2, 100, 10_000));
    lan.run_for(Duration::from_secs(1));
    lan.crash(0);
    assert!(time_until_active(&mut lan, 1) <= Duration::from_millis(400));
}

// shows: rfc9568 B10
/// Scenarios 62 and 65: a returning node waits for the delay; the Active meanwhile is replaced at once if it dies.
#[test]
fn with_a_delay_a_returning_router_waits_before_it_preempts() {
    let delay = Duration::from_secs(5);
    let delayed =
        |priorities: &[u8]| lan_with(priorities, |config| Config { preempt_delay: delay, ..config });
    let mut lan = delayed(&[200, 100]);
    assert_eq!(lan.active(), [0]);
    lan.crash(0);
    lan.run_for(lan.bound());
    lan.restart(0);
    let took = time_until_active(&mut lan, 0);
    assert!(took >= delay && took <= delay + lan.bound(), "{took:?}");
    lan.crash(0);
    lan.run_for(lan.bound());
    lan.restart(0);
    lan.run_for(Duration::from_secs(1));
    lan.crash(1);
    assert!(time_until_active(&mut lan, 0) <= lan.bound());
    assert_settled(&lan);
}

/// Scenario 67: whatever the flapping does, a router takes the addresses once for each time that it gives them up.
#[test]
fn a_flapping_active_takes_and_leaves_its_addresses_once_each_time() {
    let mut lan = lan(&[200, 100]);
    for _ in 0..20 {
        lan.unplug(0);
        lan.run_for(lan.bound());
        lan.restart(0);
        lan.run_for(lan.bound());
    }
    let became = |node, active: bool| {
        let is = |e: &&TraceEntry| matches!(&e.event, TraceEvent::Became(to, _) if (*to == State::Active) == active && e.node == node);
        lan.trace().iter().filter(is).count()
    };
    // Node 0: into Active 21 times, out of it 20 times and from Initialize to Backup 21 times.
    assert_eq!((became(0, true), became(0, false)), (21, 41));
    assert_eq!((became(1, true), became(1, false)), (20, 21));
    assert_settled(&lan);
}

/// Scenario 68: a timer set before an advert must not fire after it.
#[test]
fn a_backup_that_is_always_kept_waiting_never_takes_over() {
    let mut lan = Lan::new(3, Medium { jitter: Duration::from_millis(90), ..Medium::faultless(LATENCY) });
    lan.add(config(0, 2, 200, 100));
    lan.add(config(1, 2, 1, 100));
    lan.run_for(Duration::from_mins(10));
    assert_eq!((promotions(&lan, 0), promotions(&lan, 1)), (1, 0));
}

/// Scenario 90: what a step of the wall clock is to a monotonic one: nothing. A suspended Backup misses adverts, and its
/// timer runs on from where it stood.
#[test]
fn a_suspended_backup_does_not_disturb_the_active() {
    let mut lan = lan(&[200, 100]);
    for _ in 0..10 {
        lan.freeze(1, Freeze::Suspend);
        lan.run_for(Duration::from_secs(5));
        lan.thaw(1);
        lan.run_for(Duration::from_millis(150));
    }
    assert_eq!((promotions(&lan, 0), promotions(&lan, 1)), (1, 0));
}

// shows: rfc9568 T23
/// Erratum 8298: the owner with the higher address stays, the other tries again after each silence only.
#[test]
fn two_owners_end_with_one_active() {
    let mut lan = lan(&[255, 255, 100]);
    assert_eq!(lan.active(), [1]);
    assert_settled(&lan);
    lan.crash(1);
    lan.run_for(lan.bound());
    assert_eq!(lan.active(), [0]);
    lan.restart(1);
    lan.run_for(LATENCY * 4);
    assert_eq!(lan.active(), [1]);
    assert_settled(&lan);
}

/// Priorities follow health while all runs: the addresses follow the priorities.
#[test]
fn when_priorities_change_places_so_do_the_states() {
    let mut lan = lan(&[200, 100]);
    for (down, up) in [(0, 1), (1, 0)] {
        for (node, value) in [(down, 50), (up, 150)] {
            let changed = Config { priority: Priority::new(value).unwrap(), ..lan.config(node, 0).clone() };
            lan.reconfigure(node, 0, changed);
        }
        lan.run_for(lan.bound());
        assert_eq!(lan.active(), [up]);
        assert_settled(&lan);
    }
}
