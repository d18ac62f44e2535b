//! Version 2's own rules, and both versions at once.

use super::*;

fn in_v2(heard: ReceivedAdvert) -> ReceivedAdvert {
    ReceivedAdvert { version: Version::V2, ..heard }
}

// shows: rfc9568 I4
/// RFC 3768 §6.1: skew in seconds whatever the interval; RFC 9568 §6.1: a share of the interval.
#[test]
fn the_skew_of_version_2_does_not_depend_on_the_interval() {
    for (versions, millis, down_micros) in [
        (Versions::V2, 1000, 3_609_375),
        (Versions::V2, 10_000, 30_609_375),
        (Versions::V3, 10_000, 36_093_750),
        (Versions::V3, 10, 36_093),
        (Versions::V2AndV3, 10_000, 36_093_750),
    ] {
        let config = Config { versions, interval: interval(millis), ..config() };
        let router = router(State::Backup, config, START);
        let timer = router.poll_timeout().unwrap().since(START);
        assert_eq!(timer.as_micros(), down_micros, "{versions:?} {millis} ms");
    }
}

// shows: rfc9568 R11
/// R11: dropped in every state, whoever sends it, with priority 0 too.
#[test]
fn in_version_2_an_advert_with_another_interval_is_dropped() {
    let v2 = Config { versions: Versions::V2, ..config() };
    for state in [State::Backup, State::Active] {
        for value in [0, 50, 100, 200] {
            let mut router = router(state, v2.clone(), START);
            let timer = router.poll_timeout();
            let outcome = router.handle_advert(in_v2(advert(HIGHER, value, 2000)), START + millis(100));
            assert_eq!(outcome, AdvertOutcome::IntervalMismatch, "{state} {value}");
            assert_eq!((router.state(), router.poll_timeout()), (state, timer), "{state} {value}");
            assert_eq!(actions(&mut router), [""; 0], "{state} {value}");
        }
    }
}

// shows: rfc9568 I4
#[test]
fn a_version_3_interval_learned_before_the_change_to_version_2_does_not_count_any_more() {
    let mut router = router(State::Backup, config(), START);
    router.handle_advert(advert(HIGHER, 200, 5000), START);
    router.reconfigure(Config { versions: Versions::V2, ..config() }, START);
    assert_eq!(router.poll_timeout(), Some(START + Duration::from_micros(3_609_375)));
}

// shows: rfc9568 V2
/// RFC 9568 §8.4.2: the Backup times out by the rate of the Active, in seconds or centiseconds.
#[test]
fn with_both_versions_a_backup_adopts_the_interval_of_a_version_2_active() {
    let both = Config { versions: Versions::V2AndV3, ..config() };
    let mut router = router(State::Backup, both, START);
    assert_eq!(router.handle_advert(in_v2(advert(HIGHER, 200, 2000)), START), AdvertOutcome::Obeyed);
    assert_eq!(router.poll_timeout(), Some(START + Duration::from_micros(7_218_750)));
}

// shows: rfc9568 V3
/// An Active would else answer each advert of a peer twice.
#[test]
fn of_an_advert_in_both_versions_one_counts() {
    let both = Config { versions: Versions::V2AndV3, ..config() };
    for state in [State::Backup, State::Active] {
        let mut router = router(state, both.clone(), START);
        assert_eq!(router.handle_advert(advert(LOWER, 50, 1000), START), AdvertOutcome::Inferior);
        actions(&mut router);
        let timer = router.poll_timeout();
        let copy = in_v2(advert(LOWER, 50, 1000));
        assert_eq!(router.handle_advert(copy, START + millis(1)), AdvertOutcome::Superseded, "{state}");
        assert_eq!(actions(&mut router), [""; 0], "{state}");
        assert_eq!(router.poll_timeout(), timer);
        // Another peer is not meant.
        assert_eq!(
            router.handle_advert(in_v2(advert(HIGHER, 50, 1000)), START + millis(2)),
            AdvertOutcome::Inferior,
            "{state}"
        );
    }
}

// shows: rfc9568 V3
/// From both sides: until an Active_Down_Interval after its last version 3 advert, and not longer.
#[test]
fn a_peer_that_went_back_to_version_2_counts_again_after_the_active_down_interval() {
    let both = Config { versions: Versions::V2AndV3, ..config() };
    let patience = 3_609_375_000;
    for (after, expected) in [(patience - 1, AdvertOutcome::Superseded), (patience, AdvertOutcome::Obeyed)] {
        let mut router = router(State::Backup, both.clone(), START);
        router.handle_advert(advert(HIGHER, 200, 1000), START);
        assert_eq!(
            router.handle_advert(in_v2(advert(HIGHER, 200, 1000)), START + Duration::from_nanos(after)),
            expected
        );
    }
}

#[test]
fn a_peer_that_was_removed_and_came_back_is_not_remembered_as_upgraded() {
    let both = Config { versions: Versions::V2AndV3, ..config() };
    let mut router = router(State::Backup, both.clone(), START);
    router.handle_advert(advert(HIGHER, 200, 1000), START);
    router.reconfigure(Config { peers: [LOWER].into(), ..both.clone() }, START);
    router.reconfigure(both, START);
    assert_eq!(router.handle_advert(in_v2(advert(HIGHER, 200, 1000)), START), AdvertOutcome::Obeyed);
}
