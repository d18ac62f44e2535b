//! Unicast where multicast does not arrive; what comes of it among several, the simulator tells.

use super::*;

fn falling_back() -> Config {
    Config { unicast_fallback: true, ..config() }
}

fn by_unicast(heard: ReceivedAdvert) -> ReceivedAdvert {
    ReceivedAdvert { unicast: true, ..heard }
}

/// A Backup that heard HIGHER, its Active, just now, and is ready for an input.
fn backup_of_higher(config: Config) -> Router {
    let mut router = router(State::Backup, config, START);
    assert_eq!(router.handle_advert(advert(HIGHER, 200, 1000), START), AdvertOutcome::Obeyed);
    router
}

#[test]
fn a_question_is_answered_by_an_active_once_and_obeyed_by_nobody() {
    let question = |source| by_unicast(advert(source, 0, 1000));
    let mut active = router(State::Active, falling_back(), START);
    let timer = active.poll_timeout();
    for expected in [&["advert 100 to [192.0.2.5]"][..], &[]] {
        assert_eq!(active.handle_advert(question(LOWER), START), AdvertOutcome::Asked);
        assert_eq!(actions(&mut active), expected);
    }
    assert_eq!((active.state(), active.poll_timeout()), (State::Active, timer));
    let mut backup = backup_of_higher(falling_back());
    let timer = backup.poll_timeout();
    assert_eq!(backup.handle_advert(question(LOWER), START), AdvertOutcome::Asked);
    assert_eq!((backup.poll_timeout(), backup.poll_action()), (timer, None));
    let mut stopped = router(State::Initialize, falling_back(), START);
    assert_eq!(stopped.handle_advert(question(LOWER), START), AdvertOutcome::NotRunning);
    assert_eq!(active.handle_advert(question(STRANGER), START), AdvertOutcome::NotAPeer);
}

/// By unicast as by multicast, and to a router without fallback either is one.
#[test]
fn priority_0_of_the_active_is_its_resignation() {
    for config in [falling_back(), config()] {
        for resignation in [advert(HIGHER, 0, 1000), by_unicast(advert(HIGHER, 0, 1000))] {
            let mut backup = backup_of_higher(config.clone());
            assert_eq!(backup.handle_advert(resignation, START), AdvertOutcome::Obeyed);
            assert_eq!(backup.poll_timeout(), Some(START + interval(1000).skew(priority(100))));
        }
    }
}

// shows: rfc9568 T5
/// No trailer says where an advert goes to: a question that was recorded and is sent to the group cannot be told from a resignation.
#[test]
fn priority_0_of_a_peer_that_is_not_active_moves_nothing_by_multicast_as_by_unicast() {
    for config in [falling_back(), config()] {
        for heard in [advert(LOWER, 0, 1000), by_unicast(advert(LOWER, 0, 1000))] {
            let mut obeying = backup_of_higher(config.clone());
            let mut preempting = router(State::Backup, config.clone(), START);
            preempting.handle_advert(advert(HIGHER, 50, 1000), START);
            for backup in [&mut obeying, &mut preempting] {
                let timer = backup.poll_timeout();
                assert_eq!(backup.handle_advert(heard, START), AdvertOutcome::Asked);
                assert_eq!((backup.poll_timeout(), backup.poll_action()), (timer, None));
            }
        }
    }
}

/// The Active obeyed last is followed although an inferior one was heard since: until that yields there are two.
#[test]
fn the_active_that_is_followed_resigns_though_an_inferior_one_was_heard_since_and_that_one_cannot() {
    for (source, expected) in [(HIGHER, AdvertOutcome::Obeyed), (LOWER, AdvertOutcome::Asked)] {
        let mut backup = backup_of_higher(config());
        assert_eq!(backup.handle_advert(advert(LOWER, 50, 1000), START), AdvertOutcome::Inferior);
        assert_eq!(backup.handle_advert(advert(source, 0, 1000), START), expected);
    }
}

// shows: rfc9568 T5
#[test]
fn a_backup_that_knows_no_active_obeys_a_resignation_to_the_group_and_no_question() {
    for (heard, expected) in [
        (advert(LOWER, 0, 1000), AdvertOutcome::Obeyed),
        (by_unicast(advert(LOWER, 0, 1000)), AdvertOutcome::Asked),
    ] {
        let mut backup = router(State::Backup, falling_back(), START);
        assert_eq!(backup.handle_advert(heard, START), expected);
    }
}

#[test]
fn a_backup_asks_an_active_that_is_silent_once_before_it_takes_over() {
    let mut backup = backup_of_higher(falling_back());
    let due = START + Versions::V3.active_down(interval(1000), priority(100));
    assert_eq!(backup.poll_timeout(), Some(START + millis(2609) + Duration::from_micros(375)));
    backup.handle_timeout(backup.poll_timeout().unwrap());
    assert_eq!(actions(&mut backup), ["ask [192.0.2.20]"]);
    assert_eq!(backup.poll_timeout(), Some(due));
    backup.handle_timeout(due);
    assert_eq!(backup.state(), State::Active);
    assert_eq!(backup.copies(), [LOWER, HIGHER], "the first advert is for each peer by itself, too");
}

#[test]
fn an_active_is_missed_from_the_question_until_it_is_heard_or_replaced() {
    let missing = || {
        let mut backup = backup_of_higher(falling_back());
        assert!(!backup.misses_active());
        backup.handle_timeout(backup.poll_timeout().unwrap());
        assert!(backup.misses_active());
        backup
    };
    let due = START + Versions::V3.active_down(interval(1000), priority(100));
    // By itself, by another, by one that it is to preempt; after a resignation nobody is missed.
    for (source, value) in [(HIGHER, 200), (LOWER, 150), (LOWER, 50), (HIGHER, 0)] {
        let mut backup = missing();
        backup.handle_advert(advert(source, value, 1000), due);
        assert!(!backup.misses_active(), "{value}");
    }
    let mut successor = missing();
    successor.handle_timeout(due);
    assert_eq!((successor.state(), successor.misses_active()), (State::Active, false));
    let mut nobody = router(State::Backup, falling_back(), START);
    nobody.handle_timeout(nobody.poll_timeout().unwrap());
    assert!(!nobody.misses_active(), "it knew of none");
}

#[test]
fn a_backup_that_has_heard_no_active_asks_all_once_before_it_takes_over() {
    let mut backup = router(State::Backup, falling_back(), START);
    backup.handle_timeout(backup.poll_timeout().unwrap());
    assert_eq!(actions(&mut backup), ["ask [192.0.2.5, 192.0.2.20]"]);
    assert_eq!(backup.poll_timeout(), Some(START + Versions::V3.active_down(interval(1000), priority(100))));
}

#[test]
fn who_is_known_to_be_there_or_is_one_of_many_is_not_asked() {
    let down = Versions::V3.active_down(interval(1000), priority(100));
    let many = (1..=17).map(|host| [203, 0, 113, host].into()).collect();
    let nobody = router(State::Backup, Config { peers: many, ..falling_back() }, START);
    assert_eq!(nobody.poll_timeout(), Some(START + down), "no Active was heard, and there are many peers");
    let mut preempting = backup_of_higher(falling_back());
    preempting.handle_advert(advert(HIGHER, 50, 1000), START);
    assert_eq!(preempting.poll_timeout(), Some(START + down), "it is heard, and to be replaced");
    let mut parted = backup_of_higher(falling_back());
    parted.reconfigure(Config { peers: [LOWER].into(), ..falling_back() }, START);
    assert_eq!(parted.poll_timeout(), Some(START + down), "it is no peer any more");
    let mut resigned = backup_of_higher(falling_back());
    resigned.handle_advert(advert(HIGHER, 0, 1000), START);
    assert_eq!(resigned.poll_timeout(), Some(START + interval(1000).skew(priority(100))));
}

#[test]
fn a_backup_that_hears_unicast_alone_asks_every_five_intervals_and_tells_of_it_after_sixteen() {
    let mut backup = backup_of_higher(falling_back());
    let (mut asked, mut told) = (Vec::new(), None);
    for second in 1..=20 {
        let now = START + Duration::from_secs(second);
        backup.handle_advert(by_unicast(advert(HIGHER, 200, 1000)), now);
        if !actions(&mut backup).is_empty() {
            asked.push(second);
        }
        if backup.without_multicast(now).eq([HIGHER]) {
            told = told.or(Some(second));
        }
    }
    assert_eq!((asked, told), (vec![5, 10, 15, 20], Some(16)));
    let now = START + Duration::from_secs(21);
    backup.hear_again(HIGHER, false, now);
    assert_eq!(
        backup.without_multicast(now).count(),
        0,
        "the copy by multicast of what was heard by unicast"
    );
}

#[test]
fn a_lesser_claim_and_a_question_are_worth_sixteen_adverts_by_unicast() {
    for heard in [advert(LOWER, 50, 1000), by_unicast(advert(LOWER, 0, 1000))] {
        let mut active = router(State::Active, falling_back(), START);
        active.handle_advert(heard, START);
        let mut copied = 0;
        for _ in 0..30 {
            active.handle_timeout(active.poll_timeout().unwrap());
            copied += active.copies().iter().filter(|peer| **peer == LOWER).count();
        }
        assert_eq!(copied, 15, "and one at once");
    }
}

#[test]
fn each_peer_has_its_turn_and_one_that_is_told_anyway_needs_none() {
    let mut active = router(State::Active, falling_back(), START);
    let mut turns = Vec::new();
    for _ in 0..21 {
        active.handle_timeout(active.poll_timeout().unwrap());
        turns.extend(active.poll_turn());
    }
    assert_eq!(turns, [LOWER, HIGHER, LOWER, HIGHER]);
    let now = START + Duration::from_secs(21);
    active.handle_advert(by_unicast(advert(LOWER, 0, 1000)), now);
    let next: Vec<_> = (0..9)
        .filter_map(|_| {
            active.handle_timeout(active.poll_timeout().unwrap());
            active.poll_turn()
        })
        .collect();
    assert_eq!(next, [HIGHER]);
}

#[test]
fn without_fallback_nothing_goes_by_unicast() {
    let mut active = router(State::Active, config(), START);
    active.handle_advert(by_unicast(advert(LOWER, 50, 1000)), START);
    for _ in 0..20 {
        active.handle_timeout(active.poll_timeout().unwrap());
        assert!(active.copies().is_empty() && active.poll_turn().is_none());
    }
}
