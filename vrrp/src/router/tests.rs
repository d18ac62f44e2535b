use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::*;
use crate::units::{Version, Versions};

mod changes;
mod delay;
mod fallback;
mod stalled;
mod table;
mod ties;
mod versions;

const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
const LOWER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 5));
const HIGHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 20));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 66));
const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
const SECOND_VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 2));

/// When the tests begin.
const START: Time = Time::from_nanos(100_000_000_000);

fn priority(value: u8) -> Priority {
    Priority::new(value).unwrap()
}

fn interval(millis: u32) -> Interval {
    Interval::from_millis(millis).unwrap()
}

fn millis(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// Priority 100, 1 s: Skew_Time 609.375 ms, Active_Down_Interval 3609.375 ms.
fn config() -> Config {
    Config {
        priority: priority(100),
        interval: interval(1000),
        preempt: true,
        preempt_delay: Duration::ZERO,
        fit_from: Priority::LOWEST,
        preferred: BTreeSet::new(),
        preempt_turn: Duration::ZERO,
        versions: Versions::V3,
        primary: OWN,
        peers: [LOWER, HIGHER].into(),
        unknown_peers: false,
        unicast_fallback: false,
        addresses: [VIP].into(),
    }
}

/// A version 3 advert; priority 0 resigns.
fn advert(source: IpAddr, value: u8, millis: u32) -> ReceivedAdvert {
    ReceivedAdvert {
        source,
        priority: Priority::new(value).ok(),
        interval: interval(millis),
        version: Version::V3,
        unicast: false,
    }
}

/// The actions of one input, in words.
fn actions(router: &mut Router) -> Vec<String> {
    let actions: Vec<Action> = std::iter::from_fn(|| router.poll_action()).collect();
    actions
        .into_iter()
        .map(|action| match action {
            Action::SendAdvert { priority: Some(priority) } => format!("advert {priority}"),
            Action::SendAdvert { priority: None } => "resign".to_owned(),
            Action::SendUnicast { priority: Some(priority) } => {
                format!("advert {priority} to {:?}", router.copies())
            }
            Action::SendUnicast { priority: None } => format!("ask {:?}", router.copies()),
            Action::Transition { from, to, reason } => format!("{from} -> {to}: {reason}"),
            Action::Announce(Announce::Takeover) => "announce".to_owned(),
            Action::Announce(Announce::Contention) => "announce again".to_owned(),
            Action::Announce(Announce::Added(added)) => format!("announce added {added:?}"),
        })
        .collect()
}

/// A router that has been in `state` since `now`; an Active has just sent an advert.
fn router(state: State, config: Config, now: Time) -> Router {
    let mut router = Router::new(Vrid::MIN, config);
    match state {
        State::Initialize => {}
        State::Backup => router.enter_backup(TransitionReason::Startup, None, None, now),
        State::Active => router.promote(TransitionReason::ActiveSilent, now),
    }
    while router.poll_action().is_some() {}
    assert_eq!(router.state(), state);
    router
}

// shows: rfc9568 T15
#[test]
fn the_outcome_tells_what_became_of_an_advert() {
    let now = START;
    let outcome = |state, heard| router(state, config(), now).handle_advert(heard, now);
    for (state, heard, expected) in [
        (State::Initialize, advert(LOWER, 200, 1000), AdvertOutcome::NotRunning),
        (State::Backup, advert(LOWER, 200, 1000), AdvertOutcome::Obeyed),
        (State::Backup, advert(LOWER, 50, 1000), AdvertOutcome::Inferior),
        (State::Backup, advert(LOWER, 0, 1000), AdvertOutcome::Obeyed),
        (State::Active, advert(LOWER, 200, 1000), AdvertOutcome::Obeyed),
        (State::Active, advert(LOWER, 50, 1000), AdvertOutcome::Inferior),
        (State::Active, advert(STRANGER, 255, 1000), AdvertOutcome::NotAPeer),
        (State::Active, advert(OWN, 255, 1000), AdvertOutcome::OwnAddress),
    ] {
        assert_eq!(outcome(state, heard), expected, "{state} hears {heard:?}");
    }
}

// shows: rfc9568 T1, T4
#[test]
fn an_owner_is_active_as_soon_as_it_starts() {
    let owner = Config { priority: Priority::OWNER, ..config() };
    let mut router = router(State::Initialize, owner, Time::default());
    router.startup(Time::default());
    let expected = ["advert 255", "initialize -> active: started as owner of the addresses", "announce"]
        .map(String::from);
    assert_eq!(actions(&mut router), expected);
}

// shows: rfc9568 B1
#[test]
fn who_serves_the_addresses_already_is_active_as_soon_as_it_starts_and_gives_way_as_any_active() {
    let now = Time::default();
    let mut router = router(State::Initialize, config(), now);
    router.startup_in_service(now);
    let expected = [
        "advert 100",
        "initialize -> active: started with addresses that this node served in another virtual router",
        "announce",
    ];
    assert_eq!(actions(&mut router), expected.map(String::from));
    router.startup_in_service(now);
    assert_eq!(actions(&mut router), [""; 0], "it runs already");
    assert_eq!(router.handle_advert(advert(LOWER, 50, 1000), now), AdvertOutcome::Inferior);
    assert_eq!(router.handle_advert(advert(LOWER, 200, 1000), now), AdvertOutcome::Obeyed);
    assert_eq!(router.state(), State::Backup);
}

// shows: rfc9568 T6
#[test]
fn without_preempt_a_backup_obeys_an_active_of_lower_priority() {
    let now = Time::default();
    let mut router = router(State::Backup, Config { preempt: false, ..config() }, now);
    let later = now + Duration::from_secs(3);
    assert_eq!(router.handle_advert(advert(LOWER, 1, 1000), later), AdvertOutcome::Obeyed);
    assert_eq!(router.poll_timeout(), Some(later + Versions::V3.active_down(interval(1000), priority(100))));
    assert_eq!(router.active(), Some(LOWER));
}

#[test]
fn the_reason_of_a_takeover_tells_silence_resignation_and_preemption_apart() {
    for (last_heard, expected) in [
        (advert(HIGHER, 200, 1000), TransitionReason::ActiveSilent),
        (advert(HIGHER, 0, 1000), TransitionReason::ActiveResigned),
        (advert(HIGHER, 50, 1000), TransitionReason::Preempted),
    ] {
        let mut router = router(State::Backup, config(), Time::default());
        router.handle_advert(last_heard, Time::default());
        router.handle_timeout(router.poll_timeout().unwrap());
        let announced = std::iter::from_fn(|| router.poll_action()).find_map(|action| match action {
            Action::Transition { reason, .. } => Some(reason),
            Action::SendAdvert { .. } | Action::SendUnicast { .. } | Action::Announce(_) => None,
        });
        assert_eq!(announced, Some(expected));
    }
}
