//! Clocks that differ, and machines whose clock stands still.

use super::*;

#[test]
fn a_clock_shows_an_instant_first_when_it_says_so() {
    for rate in [-10_000, -1, 0, 1, 333, 10_000] {
        let mut clock = Clock::faster_by(rate);
        for pause in [0, 12_345] {
            clock.stand_still(Duration::from_nanos(pause));
            for clock_time in [100_000, 123_456_789, 3_600_000_000_000] {
                let clock_time = Time::from_nanos(clock_time);
                let when = clock.when(clock_time);
                assert!(clock.read(when) >= clock_time, "{rate} {clock_time:?}");
                assert!(clock.read(Time::from_nanos(when.nanos() - 1)) < clock_time, "{rate} {clock_time:?}");
            }
        }
    }
}

// shows: rfc9568 B5
/// The fastest peer, with the shortest skew, must not take over from the slowest Active that was just away long enough to
/// keep its active period: the margin of `Config::active_period`, from both sides.
#[test]
fn a_peer_with_a_faster_clock_takes_over_only_after_the_active_period_of_the_frozen_active() {
    for millis in [10, 100, 1000] {
        let mut lan = Lan::new(1, Medium::faultless(Duration::ZERO));
        lan.add_node(Clock::faster_by(-10_000), [config(0, 2, 254, millis)]);
        lan.add_node(Clock::faster_by(10_000), [config(1, 2, 253, millis)]);
        lan.run_for(lan.bound() * 2);
        assert_eq!(lan.active(), [0]);
        lan.freeze(0, Freeze::Process);
        while lan.active().is_empty() {
            lan.run_for(Duration::from_micros(10));
        }
        lan.thaw(0);
        assert_eq!(lan.active(), [1], "{millis} ms");
        assert_settled(&lan);
    }
}

// shows: rfc9568 B13
/// Its clock does not tell that it was away, but the first advert does.
#[test]
fn a_suspended_active_yields_to_the_first_advert_of_the_one_that_took_over() {
    for (priorities, survivor) in [([200, 100], 0), ([100, 200], 1)] {
        let mut lan = lan(&priorities);
        let was_active = lan.active()[0];
        lan.freeze(was_active, Freeze::Suspend);
        lan.run_for(lan.bound() * 3);
        assert_eq!(lan.active(), [1 - was_active]);
        lan.thaw(was_active);
        lan.run_for(Duration::from_millis(100) + LATENCY * 2);
        assert_eq!(lan.active(), [survivor]);
        assert_settled(&lan);
    }
}

/// Stopped again before it has advertised, it still does not know how long it was silent (seed 4711158445).
#[test]
fn a_suspended_active_that_is_frozen_again_is_excused_until_it_has_advertised() {
    let millis = Duration::from_millis;
    let mut lan = lan(&[200, 100]);
    let count = adverts_since(&lan, Time::default());
    while adverts_since(&lan, Time::default()) == count {
        lan.run_for(millis(1));
    }
    lan.freeze(0, Freeze::Suspend);
    lan.run_for(millis(300));
    lan.thaw(0);
    lan.freeze(0, Freeze::Machine);
    lan.run_for(millis(80));
    assert_eq!(lan.active(), [1]);
    lan.thaw(0);
    assert_eq!(lan.active(), [0, 1]);
    lan.run_for(millis(200));
    assert_eq!(lan.active(), [0]);
    assert_settled(&lan);
}

#[test]
fn routers_whose_clocks_differ_by_two_percent_do_not_disturb_each_other() {
    for (fast, slow) in [(0, 1), (1, 0)] {
        let mut rates = [0; 2];
        (rates[fast], rates[slow]) = (10_000, -10_000);
        let mut lan = Lan::new(1, Medium::faultless(LATENCY));
        for (node, priority) in [(0, 250), (1, 50)] {
            lan.add_node(Clock::faster_by(rates[usize::from(node)]), [config(node, 2, priority, 10)]);
        }
        lan.run_for(Duration::from_mins(1));
        assert_eq!((promotions(&lan, 0), promotions(&lan, 1)), (1, 0));
        assert_settled(&lan);
    }
}
