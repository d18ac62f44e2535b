//! Preempt_Mode and the preemption delay.

use super::*;

const DELAY: Duration = Duration::from_secs(10);

fn delayed() -> Config {
    Config { preempt_delay: DELAY, ..config() }
}

/// Lets an Active of lower priority advertise each second until `router` is Active; how long that took since `from`.
fn preempted_after(router: &mut Router, from: Time) -> Option<Duration> {
    let mut now = from;
    for _ in 0..60 {
        router.handle_advert(advert(LOWER, 50, 1000), now);
        let next = now + interval(1000).duration();
        if router.poll_timeout().is_some_and(|due| due < next) {
            let due = router.poll_timeout().unwrap();
            router.handle_timeout(due);
            return Some(due.since(from));
        }
        now = next;
    }
    None
}

// shows: rfc9568 T21
/// The four outcomes (scenario 65). With the delay the last advert obeyed comes at 9 s, 3.6 s before the takeover.
#[test]
fn preempt_and_its_delay_have_four_outcomes() {
    for (preempt, preempt_delay, expected) in [
        (true, Duration::ZERO, Some(3_609_375)),
        (true, DELAY, Some(9_000_000 + 3_609_375)),
        (false, Duration::ZERO, None),
        (false, DELAY, None),
    ] {
        let mut router = router(State::Backup, Config { preempt, preempt_delay, ..config() }, START);
        let took = preempted_after(&mut router, START).map(|took| took.as_micros());
        assert_eq!(took, expected, "preempt {preempt} after {preempt_delay:?}");
    }
}

/// Scenario 62: the first inferior advert starts the delay; a better claim ends it.
#[test]
fn a_superior_or_equal_advert_starts_the_delay_anew() {
    for value in [100, 200] {
        let mut router = router(State::Backup, delayed(), START);
        for second in 0..9 {
            router.handle_advert(advert(LOWER, 50, 1000), START + Duration::from_secs(second));
        }
        let better = START + Duration::from_secs(9);
        router.handle_advert(advert(HIGHER, value, 1000), better);
        let took = preempted_after(&mut router, better + millis(1)).unwrap();
        assert_eq!(took.as_micros(), 9_000_000 + 3_609_375, "priority {value}");
    }
}

#[test]
fn a_silent_active_is_replaced_at_once_whatever_the_delay() {
    let mut router = router(State::Backup, delayed(), START);
    router.handle_advert(advert(LOWER, 50, 1000), START);
    let due = router.poll_timeout().unwrap();
    assert_eq!(due.since(START).as_micros(), 3_609_375);
    router.handle_timeout(due);
    assert_eq!(actions(&mut router)[1], "backup -> active: the Active is silent");
}

#[test]
fn a_resigning_active_is_replaced_at_once_whatever_the_delay() {
    let mut router = router(State::Backup, delayed(), START);
    router.handle_advert(advert(LOWER, 50, 1000), START);
    router.handle_advert(advert(LOWER, 0, 1000), START + millis(10));
    assert_eq!(router.poll_timeout(), Some(START + millis(10) + Duration::from_micros(609_375)));
}

// shows: rfc9568 B10
#[test]
fn a_restarted_router_waits_the_whole_delay_again() {
    let mut router = router(State::Backup, delayed(), START);
    router.handle_advert(advert(LOWER, 50, 1000), START);
    let later = START + DELAY;
    router.shutdown(later);
    router.startup(later);
    assert_eq!(router.handle_advert(advert(LOWER, 50, 1000), later), AdvertOutcome::Obeyed);
    let took = preempted_after(&mut router, later + Duration::from_secs(1)).unwrap();
    assert_eq!(took.as_micros(), 8_000_000 + 3_609_375);
}

// shows: rfc9568 T14
/// T14: the owner of the addresses takes them whatever is configured.
#[test]
fn an_owner_in_backup_preempts_whatever_preempt_and_delay_say() {
    let owner = Config { priority: Priority::OWNER, preempt: false, ..delayed() };
    let mut router = router(State::Backup, owner, START);
    assert_eq!(router.handle_advert(advert(HIGHER, 254, 1000), START), AdvertOutcome::Inferior);
    assert_eq!(
        router.poll_timeout(),
        Some(START + Versions::V3.active_down(interval(1000), Priority::OWNER))
    );
}

// shows: rfc9568 T14
/// T14: Preempt_Mode is no reason to give up what one has.
#[test]
fn an_active_yields_to_a_superior_one_and_to_no_other_whatever_preempt_and_delay_say() {
    for preempt in [false, true] {
        let config = Config { preempt, ..delayed() };
        let mut yielding = router(State::Active, config.clone(), START);
        yielding.handle_advert(advert(LOWER, 101, 1000), START);
        assert_eq!(yielding.state(), State::Backup);
        let mut staying = router(State::Active, config, START);
        staying.handle_advert(advert(HIGHER, 99, 1000), START);
        assert_eq!(staying.state(), State::Active);
    }
}

#[test]
fn a_shorter_delay_counts_from_the_first_advert_heard() {
    let mut router = router(State::Backup, delayed(), START);
    router.handle_advert(advert(LOWER, 50, 1000), START);
    router.reconfigure(Config { preempt_delay: Duration::from_secs(2), ..delayed() }, START);
    assert_eq!(router.handle_advert(advert(LOWER, 50, 1000), START + millis(1999)), AdvertOutcome::Obeyed);
    assert_eq!(router.handle_advert(advert(LOWER, 50, 1000), START + millis(2000)), AdvertOutcome::Inferior);
}

/// An Active that is not fit, say because a check of its own fails, is not protected by the delay; and who is fit does not wait until
/// the Active would count as silent.
#[test]
fn an_active_that_is_not_fit_is_replaced_without_the_delay() {
    for (fit_from, expected) in [(50, 9_000_000 + 3_609_375), (51, 609_375), (100, 609_375), (101, 3_609_375)]
    {
        let fit_from = Priority::new(fit_from).unwrap();
        let mut router = router(State::Backup, Config { fit_from, ..delayed() }, START);
        let took = preempted_after(&mut router, START).unwrap();
        assert_eq!(took.as_micros(), expected, "fit from {fit_from}");
    }
}

/// The skew time may be longer than the interval of the Active that is to be replaced.
#[test]
fn further_adverts_of_an_active_that_is_not_fit_do_not_put_its_replacement_off() {
    let config = Config { fit_from: Priority::new(60).unwrap(), ..config() };
    let mut router = router(State::Backup, config, START);
    router.handle_advert(advert(LOWER, 90, 1000), START);
    for after in [100, 300, 500, 700] {
        router.handle_advert(advert(LOWER, 50, 200), START + millis(after));
    }
    let due = router.poll_timeout().unwrap();
    assert_eq!(due.since(START).as_micros(), 100_000 + 609_375);
    router.handle_timeout(due);
    assert_eq!(router.state(), State::Active);
}

/// Where two are Active, as after a partition, the one that is not fit is for the other to drive out.
#[test]
fn one_that_is_not_fit_beside_a_fit_active_does_not_have_that_replaced() {
    let fit_from = Priority::new(60).unwrap();
    let mut router = router(State::Backup, Config { fit_from, ..delayed() }, START);
    let mut now = START;
    for _ in 0..20 {
        router.handle_advert(advert(HIGHER, 150, 1000), now);
        let obeyed = router.poll_timeout();
        router.handle_advert(advert(LOWER, 50, 1000), now + millis(100));
        assert_eq!(router.poll_timeout(), obeyed);
        now = now + millis(1000);
        router.handle_timeout(now);
    }
    assert_eq!(router.state(), State::Backup);
}

/// Each peer that comes before has its turn to preempt, but for the Active itself.
#[test]
fn those_that_come_before_are_left_their_turn_to_preempt() {
    let turn = Duration::from_secs(3);
    for (preferred, turns) in [(vec![], 0), (vec![LOWER], 0), (vec![HIGHER], 1), (vec![HIGHER, LOWER], 1)] {
        let config =
            Config { preferred: preferred.iter().copied().collect(), preempt_turn: turn, ..config() };
        let mut router = router(State::Backup, config, START);
        let took = preempted_after(&mut router, START).unwrap();
        // The last advert obeyed comes a second before the turns are over.
        let obeyed = Duration::from_secs(3 * turns).saturating_sub(Duration::from_secs(1));
        let expected = obeyed + Duration::from_micros(3_609_375);
        assert_eq!(took, expected, "{preferred:?}");
    }
}
