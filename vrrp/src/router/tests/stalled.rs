//! Actives and Backups that were not run in time.

use super::*;

type Wake = fn(&mut Router, Time);

// shows: rfc9568 B5
/// The rule from both sides: an Active that was away for less than a peer's patience goes on, one nanosecond later it
/// yields; and nothing is sent before it listens, whatever wakes it.
#[test]
fn an_active_that_stalled_listens_before_it_speaks_whatever_wakes_it() {
    let on_time = START + Duration::from_nanos(2_874_999_999);
    let too_late = START + millis(2875);
    let wakes: [(&str, Wake); 5] = [
        ("timer", |router, now| router.handle_timeout(now)),
        ("inferior advert", |router, now| _ = router.handle_advert(advert(LOWER, 1, 1000), now)),
        ("resignation", |router, now| _ = router.handle_advert(advert(LOWER, 0, 1000), now)),
        ("shutdown", |router, now| router.shutdown(now)),
        ("reconfiguration", |router, now| {
            router.reconfigure(Config { addresses: [SECOND_VIP].into(), ..config() }, now);
        }),
    ];
    for (name, wake) in wakes {
        let mut punctual = router(State::Active, config(), START);
        wake(&mut punctual, on_time);
        let done = actions(&mut punctual);
        assert!(
            done.iter().any(|action| action.starts_with("advert") || action == "resign"),
            "{name}: {done:?}"
        );

        let mut late = router(State::Active, config(), START);
        wake(&mut late, too_late);
        let done = actions(&mut late);
        assert!(done[0].starts_with("active -> backup: not run"), "{name}: {done:?}");
        assert!(
            !done.iter().any(|a| a.starts_with("adv") || a.starts_with("ann") || a == "resign"),
            "{name}: {done:?}"
        );
        assert_ne!(late.state(), State::Active, "{name}");
    }
}

#[test]
fn an_active_without_peers_has_nobody_to_listen_to() {
    let mut router = router(State::Active, Config { peers: BTreeSet::new(), ..config() }, START);
    router.reconfigure(Config { peers: BTreeSet::new(), ..config() }, START);
    router.handle_timeout(START + Duration::from_mins(1));
    assert_eq!(router.state(), State::Active);
}

// shows: rfc9568 B6
#[test]
fn a_backup_that_stalled_listens_for_one_more_interval_and_only_one() {
    let mut router = router(State::Backup, config(), Time::default());
    for expected in [State::Backup, State::Active] {
        let due = router.poll_timeout().unwrap();
        router.handle_timeout(due + Duration::from_hours(1));
        assert_eq!(router.state(), expected);
    }
}

// shows: rfc9568 B5
/// The margin: two clocks of which one is 2 % slow and the other 2 % fast still agree that the active period ends first.
#[test]
fn the_active_period_ends_before_the_fastest_peer_takes_over() {
    for millis in [10, 100, 1000, 40_950] {
        let active = router(State::Active, Config { interval: interval(millis), ..config() }, START);
        let active_until = active.active_until().unwrap().since(START);
        let soonest = Versions::V3.active_down(interval(millis), Priority::OWNER);
        assert!(
            active_until.as_nanos() * 102 < soonest.as_nanos() * 98,
            "{millis} ms: {active_until:?} {soonest:?}"
        );
    }
}

#[test]
fn only_an_active_has_an_active_period_and_alone_it_has_no_end() {
    for state in [State::Initialize, State::Backup] {
        assert_eq!(router(state, config(), START).active_until(), None);
    }
    let alone = Config { peers: BTreeSet::new(), ..config() };
    assert_eq!(router(State::Active, alone, START).active_until(), Some(Time::from_nanos(u64::MAX)));
}

/// The timer of an stalled router is stale: what it hears when it wakes counts.
#[test]
fn a_backup_that_reads_its_adverts_before_its_timer_does_not_take_over() {
    let mut router = router(State::Backup, config(), START);
    let late = START + Duration::from_hours(1);
    router.handle_advert(advert(HIGHER, 200, 1000), late);
    router.handle_timeout(late);
    assert_eq!(router.state(), State::Backup);
    assert_eq!(actions(&mut router), [""; 0]);
}

/// An advert obeyed gives back the extra interval.
#[test]
fn a_backup_that_heard_an_active_may_stall_again() {
    let mut router = router(State::Backup, config(), START);
    for _ in 0..3 {
        let late = router.poll_timeout().unwrap() + Duration::from_hours(1);
        router.handle_timeout(late);
        assert_eq!(router.state(), State::Backup);
        router.handle_advert(advert(HIGHER, 200, 1000), late);
    }
}
