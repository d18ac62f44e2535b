use std::time::Duration;

use windlass_engine::{Family, TransitionReason, Vrid};

use super::super::activity::CONFIRM_AFTER;
use super::*;

const WALL: Timestamp = Timestamp::UNIX_EPOCH;

fn key(vrid: u8) -> RouterKey {
    RouterKey { interface: "eth0".into(), family: Family::V4, vrid: Vrid::new(vrid).unwrap() }
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

fn entered(state: State) -> Event {
    Event::StateChanged { key: key(64), state, reason: TransitionReason::ActiveSilent }
}

fn claimed(last: &[u8]) -> Event {
    Event::AddressesClaimed { key: key(64), addresses: last.iter().copied().map(address).collect() }
}

fn taken(last: u8) -> Event {
    Event::AddressTaken { key: key(64), address: address(last), mac: [2, 0, 0, 0, 0, last] }
}

fn told(events: &[Event], now: Instant) -> EngineState {
    let engine_state = EngineState::default();
    for event in events {
        engine_state.record(event, now, WALL);
    }
    engine_state
}

fn claims(engine_state: &EngineState, now: Instant) -> Option<Vec<IpAddr>> {
    engine_state.activities(now).remove(&key(64)).map(|activity| activity.claimed.into_iter().collect())
}

#[test]
fn what_is_claimed_is_known_from_the_takeover_to_its_end_whichever_is_told_first() {
    let now = Instant::now();
    let (active, backup) = (entered(State::Active), entered(State::Backup));
    for events in [[active.clone(), claimed(&[1, 2])], [claimed(&[1, 2]), active.clone()]] {
        assert_eq!(claims(&told(&events, now), now), Some(vec![address(1), address(2)]));
    }
    assert_eq!(claims(&told(std::slice::from_ref(&active), now), now), Some(vec![]));
    assert_eq!(claims(&told(&[claimed(&[1])], now), now), None, "not Active");
    assert_eq!(claims(&told(&[active.clone(), claimed(&[1]), backup.clone()], now), now), None);
    assert_eq!(claims(&told(&[active.clone(), claimed(&[1]), backup, active], now), now), Some(vec![]));
}

#[test]
fn an_address_that_is_no_longer_the_routers_is_forgotten() {
    let now = Instant::now();
    let engine_state = told(&[entered(State::Active), claimed(&[1, 2]), taken(3)], now);
    engine_state.restrict(&[(key(64), &[address(2)].into())].into());
    assert_eq!(claims(&engine_state, now), Some(vec![address(2)]));
    assert_eq!(engine_state.next_confirmation(now), None);
    engine_state.restrict(&BTreeMap::new());
    assert_eq!(claims(&engine_state, now), Some(vec![]));
}

#[test]
fn a_host_with_our_address_is_reported_once_it_is_believed_and_until_the_address_is_claimed() {
    let now = Instant::now();
    let engine_state = told(&[entered(State::Active), taken(7)], now);
    assert_eq!(engine_state.duplicates(now, |_| true), []);
    assert_eq!(engine_state.next_confirmation(now), Some(now + CONFIRM_AFTER));
    let later = now + CONFIRM_AFTER;
    let expected =
        DuplicateAddress { interface: "eth0".into(), address: address(7), mac: "02:00:00:00:00:07".into() };
    assert_eq!(engine_state.duplicates(later, |_| true), std::slice::from_ref(&expected));
    assert_eq!(engine_state.next_confirmation(later), None);
    // The Service was given another address; what was seen stays for ten minutes.
    engine_state.restrict(&[(key(64), &BTreeSet::new())].into());
    assert_eq!(engine_state.duplicates(later + Duration::from_secs(599), |_| true), [expected]);
    assert_eq!(engine_state.duplicates(later + Duration::from_mins(10), |_| true), []);

    let engine_state = told(&[entered(State::Active), taken(7)], now);
    assert_eq!(engine_state.duplicates(later, |_| true).len(), 1);
    engine_state.record(&claimed(&[7]), later, WALL);
    assert_eq!(engine_state.duplicates(later, |_| true), []);
    assert_eq!(claims(&engine_state, later), Some(vec![address(7)]));
}

#[test]
fn a_host_that_claims_what_this_node_announces_is_reported_at_once_and_outlives_a_takeover() {
    let now = Instant::now();
    let conflict = Event::AddressConflict { interface: "eth0".into(), address: address(1), mac: [2; 6] };
    let engine_state = told(&[entered(State::Active), claimed(&[1]), conflict, claimed(&[1])], now);
    assert_eq!(engine_state.duplicates(now, |_| true).len(), 1);
    assert_eq!(engine_state.conflicts(), BTreeMap::from([("eth0".to_owned(), 1)]));
}

#[test]
fn the_first_to_claim_what_this_node_answers_for_is_known_until_it_was_silent_for_ten_minutes() {
    let now = Instant::now();
    let claim = |interface: &str, last: u8, host: u8| Event::AddressConflict {
        interface: interface.into(),
        address: address(last),
        mac: [host; 6],
    };
    let engine_state = told(&[entered(State::Active), claimed(&[1, 2])], now);
    engine_state.to_report.take();
    for heard in [claim("eth0", 1, 7), claim("eth1", 2, 7), claim("eth0", 3, 7)] {
        engine_state.record(&heard, now, WALL);
    }
    assert_eq!(engine_state.to_report.take(), Changed::addresses(&[address(1), address(2), address(3)]));
    let claimants = |second: u64| {
        let at = now + Duration::from_secs(second);
        let activity = engine_state.activities(at).remove(&key(64)).unwrap();
        let of = |last: u8| activity.claimant(address(last), at).map(|claimant| claimant.mac[0]);
        [of(1), of(2), of(3)]
    };
    let hear = |second: u64, host: u8| {
        engine_state.record(&claim("eth0", 1, host), now + Duration::from_secs(second), WALL);
    };
    assert_eq!(claimants(0), [Some(7), None, None]);
    hear(60, 7);
    hear(600, 8);
    assert_eq!(claimants(659), [Some(7), None, None]);
    assert_eq!(claimants(660), [None, None, None]);
    hear(700, 8);
    assert_eq!(claimants(700), [Some(8), None, None]);
}

#[test]
fn who_claimed_an_address_before_this_node_did_is_no_claimant() {
    let now = Instant::now();
    let conflict = Event::AddressConflict { interface: "eth0".into(), address: address(1), mac: [2; 6] };
    let has_claimant = |events: &[Event]| {
        let activity = told(events, now).activities(now).remove(&key(64)).unwrap();
        activity.claimant(address(1), now).is_some()
    };
    let again = || [entered(State::Active), claimed(&[1]), conflict.clone()];
    assert!(has_claimant(&again()));
    assert!(has_claimant(&[again().as_slice(), &[claimed(&[1])]].concat()), "it was claimed all the time");
    assert!(!has_claimant(&[again().as_slice(), &[taken(1), claimed(&[1])]].concat()), "it was yielded");
    assert!(!has_claimant(&[entered(State::Active), conflict.clone(), claimed(&[1])]));
    let engine_state = told(&again(), now);
    engine_state.forget(&key(64), &[address(1)]);
    engine_state.record(&claimed(&[1]), now, WALL);
    assert_eq!(engine_state.activities(now)[&key(64)].claimant(address(1), now), None);
}

#[test]
fn between_whom_multicast_does_not_pass_is_known_and_of_an_active_who_does_not_hear_it() {
    let now = Instant::now();
    let without = |last: &[u8]| Event::WithoutMulticast {
        key: key(64),
        peers: last.iter().copied().map(address).collect(),
    };
    let backup = told(&[entered(State::Backup), without(&[1])], now);
    assert_eq!(backup.without_multicast(), [("eth0".to_owned(), address(1))].into());
    assert!(backup.activities(now).is_empty());
    let active = told(&[entered(State::Active), without(&[1, 2])], now);
    assert_eq!(active.without_multicast().len(), 2);
    assert_eq!(active.activities(now)[&key(64)].deaf, [address(1), address(2)].into());
    active.record(&without(&[]), now, WALL);
    assert_eq!(active.without_multicast(), BTreeSet::new());
    assert_eq!(active.activities(now)[&key(64)].deaf, BTreeSet::new());
}

#[test]
fn a_host_to_which_an_address_in_service_is_yielded_is_counted_once_and_has_it_until_it_is_claimed() {
    let now = Instant::now();
    let conflict = Event::AddressConflict { interface: "eth0".into(), address: address(1), mac: [2; 6] };
    let engine_state = told(&[entered(State::Active), claimed(&[1, 2]), conflict, taken(1)], now);
    assert_eq!(claims(&engine_state, now), Some(vec![address(2)]));
    assert_eq!(
        (engine_state.taken(), engine_state.conflicts()),
        (vec![address(1)], [("eth0".to_owned(), 1)].into())
    );
    engine_state.record(&claimed(&[1]), now, WALL);
    assert_eq!(claims(&engine_state, now), Some(vec![address(1), address(2)]));
    assert_eq!((engine_state.taken(), engine_state.duplicates(now, |_| true)), (vec![], vec![]));
}
