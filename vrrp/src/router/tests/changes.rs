//! Changes of the configuration, and the cadence.

use super::*;

// shows: rfc9568 T10
#[test]
fn adverts_keep_their_cadence_when_the_driver_is_a_little_late() {
    let mut router = router(State::Active, config(), START);
    for tick in 1..=10_u32 {
        let due = router.poll_timeout().unwrap();
        assert_eq!(due, START + interval(1000).duration() * tick);
        router.handle_timeout(due + Duration::from_millis(30));
        assert_eq!(actions(&mut router), ["advert 100"]);
    }
}

// shows: rfc9568 B11
/// Backups whose timer still runs on the old interval must hear of the longer one before it ends.
#[test]
fn an_active_tells_changes_at_once_and_stays_active() {
    let soon = START + Duration::from_millis(1);
    for (name, changed, expected) in [
        ("interval", Config { interval: interval(5000), ..config() }, vec!["advert 100"]),
        ("priority", Config { priority: priority(7), ..config() }, vec!["advert 7"]),
        (
            "source",
            Config { primary: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 11)), ..config() },
            vec!["advert 100"],
        ),
        ("versions", Config { versions: Versions::V2AndV3, ..config() }, vec!["advert 100"]),
        ("an address less", Config { addresses: BTreeSet::new(), ..config() }, vec!["advert 100"]),
        ("preempt", Config { preempt: false, ..config() }, vec![]),
        ("peers", Config { peers: [LOWER].into(), ..config() }, vec![]),
        ("nothing", config(), vec![]),
    ] {
        let mut router = router(State::Active, config(), START);
        router.reconfigure(changed, soon);
        assert_eq!(actions(&mut router), expected, "{name}");
        assert_eq!(router.state(), State::Active, "{name}");
    }
}

#[test]
fn a_peer_that_is_one_no_longer_is_not_obeyed_any_more() {
    let mut router = router(State::Backup, config(), Time::default());
    router.reconfigure(Config { peers: [LOWER].into(), ..config() }, Time::default());
    assert_eq!(router.handle_advert(advert(HIGHER, 200, 1000), Time::default()), AdvertOutcome::NotAPeer);
    assert_eq!(router.handle_advert(advert(LOWER, 200, 1000), Time::default()), AdvertOutcome::Obeyed);
}

// shows: rfc9568 B11
/// The timer counts from the last advert obeyed, whatever the priority was then. Skew at 1 s: 256 - priority in 1/256 s.
#[test]
fn a_backup_whose_priority_changes_waits_as_long_as_the_new_one_says() {
    for (value, expected) in [(200, 3_218_750), (100, 3_609_375), (1, 3_996_093)] {
        let mut router = router(State::Backup, config(), START);
        let heard = START + millis(200);
        router.handle_advert(advert(HIGHER, 200, 1000), heard);
        router.reconfigure(Config { priority: priority(value), ..config() }, heard + millis(700));
        assert_eq!(router.poll_timeout().unwrap().since(heard).as_micros(), expected, "priority {value}");
        assert_eq!(actions(&mut router), [""; 0]);
    }
}

#[test]
fn a_backup_whose_priority_is_raised_late_takes_over_at_once_and_does_not_look_stalled() {
    let mut router = router(State::Backup, Config { priority: priority(1), ..config() }, START);
    let late = START + millis(3500);
    router.reconfigure(Config { priority: priority(250), ..config() }, late);
    assert_eq!(router.poll_timeout(), Some(late));
    router.handle_timeout(late);
    assert_eq!(router.state(), State::Active);
}

#[test]
fn a_change_does_not_hide_that_a_backup_stalled() {
    let mut router = router(State::Backup, config(), START);
    let late = START + Duration::from_mins(1);
    router.reconfigure(Config { priority: priority(200), ..config() }, late);
    router.handle_timeout(late);
    assert_eq!(router.state(), State::Backup);
}

#[test]
fn after_a_resignation_a_changed_priority_counts_for_the_skew() {
    let mut router = router(State::Backup, config(), START);
    router.handle_advert(advert(HIGHER, 0, 1000), START);
    router.reconfigure(Config { priority: priority(200), ..config() }, START + millis(1));
    assert_eq!(router.poll_timeout(), Some(START + Duration::from_micros(218_750)));
}

// shows: rfc9568 I3
/// Until it hears an Active a Backup counts with its own interval, thereafter with the Active's (version 3).
#[test]
fn a_changed_interval_counts_for_a_backup_that_has_heard_no_active() {
    for (heard_before, expected) in [(false, 36_093_750_u64), (true, 3_609_375)] {
        let mut router = router(State::Backup, config(), START);
        if heard_before {
            router.handle_advert(advert(HIGHER, 200, 1000), START);
        }
        router.reconfigure(Config { interval: interval(10_000), ..config() }, START + millis(100));
        assert_eq!(router.poll_timeout(), Some(START + Duration::from_micros(expected)), "{heard_before}");
    }
}

#[test]
fn a_much_shorter_interval_makes_a_waiting_backup_take_over_at_once() {
    let mut router = router(State::Backup, Config { interval: interval(10_000), ..config() }, START);
    let later = START + Duration::from_secs(10);
    router.reconfigure(Config { interval: interval(10), ..config() }, later);
    router.handle_timeout(later);
    assert_eq!(router.state(), State::Active);
}

// shows: rfc9568 T7
/// T7: a Backup raised above the Active ignores it from then on; the timer is that of the last advert obeyed.
#[test]
fn a_backup_raised_above_the_active_preempts_within_the_active_down_interval() {
    let mut router = router(State::Backup, config(), START);
    router.handle_advert(advert(HIGHER, 150, 1000), START);
    router.reconfigure(Config { priority: priority(200), ..config() }, START + millis(10));
    let heard = START + millis(1000);
    assert_eq!(router.handle_advert(advert(HIGHER, 150, 1000), heard), AdvertOutcome::Inferior);
    assert_eq!(router.poll_timeout(), Some(START + Duration::from_micros(3_218_750)));
}

/// An Active lowered below the others stays until one of them says so.
#[test]
fn an_active_whose_priority_falls_yields_when_a_better_one_speaks() {
    let mut router = router(State::Active, config(), START);
    router.reconfigure(Config { priority: priority(10), ..config() }, START);
    assert_eq!(router.state(), State::Active);
    router.handle_advert(advert(LOWER, 11, 1000), START + millis(5));
    assert_eq!(router.state(), State::Backup);
}
