use std::net::Ipv4Addr;

use super::*;

const PROBE: Duration = Duration::from_millis(400);

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn addresses(count: u32) -> Vec<IpAddr> {
    (0..count).map(|n| Ipv4Addr::from(0xcb00_7100 + n).into()).collect()
}

fn listed(count: u32) -> Clearance {
    let mut clearance = Clearance::default();
    clearance.list(&addresses(count));
    clearance
}

/// Everything asked until `until`, as (milliseconds, addresses), looked at each time there is a deadline.
fn run(clearance: &mut Clearance, until: u64) -> Vec<(u64, usize)> {
    let mut asked = Vec::new();
    while let Some(due) = clearance.deadline().filter(|due| *due <= at(until)) {
        let ask = clearance.due(due, due, 1000);
        if !ask.is_empty() {
            asked.push((due.nanos() / 1_000_000, ask.len()));
        }
    }
    asked
}

#[test]
fn a_first_claim_asks_twice_and_waits_for_answers() {
    let mut clearance = listed(3);
    clearance.claim(Some(PROBE), Before::Nobody, at(1000));
    assert_eq!(clearance.cleared().count(), 0);
    assert_eq!(run(&mut clearance, 1399), [(1000, 3), (1200, 3)]);
    assert_eq!(clearance.cleared().count(), 0, "an answer may come until 1400");
    assert_eq!(run(&mut clearance, 10_000), []);
    assert_eq!(clearance.cleared().collect::<Vec<_>>(), addresses(3));
    assert_eq!(clearance.deadline(), None);
}

#[test]
fn an_answer_that_came_in_time_and_is_read_late_is_heard() {
    let mut clearance = listed(1);
    let [vip] = addresses(1)[..] else { unreachable!() };
    clearance.claim(Some(PROBE), Before::Nobody, at(1000));
    assert_eq!(run(&mut clearance, 1399), [(1000, 1), (1200, 1)]);
    assert!(clearance.due(at(5000), at(1399), 10).is_empty());
    assert!(!clearance.is_clear(vip), "what came since 1399 was not read");
    assert_eq!(clearance.heard(vip, at(5001)), Verdict::Taken);
}

#[test]
fn a_takeover_from_a_peer_or_without_probe_waits_for_nothing() {
    for (probe, before) in [(Some(PROBE), Before::Server), (None, Before::Server), (None, Before::Nobody)] {
        let mut clearance = listed(3);
        clearance.claim(probe, before, at(0));
        assert_eq!(clearance.cleared().count(), 3);
        assert_eq!(clearance.deadline(), None);
    }
}

/// Two addresses, the first of them unproven.
fn doubtful() -> (Clearance, [IpAddr; 2]) {
    let mut clearance = listed(2);
    let all = addresses(2);
    clearance.doubt(&Arc::new([all[0]].into()));
    (clearance, [all[0], all[1]])
}

#[test]
fn a_takeover_from_a_peer_asks_for_what_is_unproven_once_the_peer_has_heard_of_it() {
    let (mut clearance, [unproven, proven]) = doubtful();
    clearance.claim(Some(PROBE), Before::Server, at(1000));
    assert_eq!(clearance.cleared().collect::<Vec<_>>(), [proven]);
    // The peer's last answer to somebody, sent before it heard the advert.
    assert_eq!(clearance.heard(unproven, at(1001)), Verdict::Irrelevant);
    assert_eq!(run(&mut clearance, 1419), [(1020, 1), (1220, 1)]);
    assert!(!clearance.is_clear(unproven));
    assert_eq!(run(&mut clearance, 1420), []);
    assert!(clearance.is_clear(unproven));
}

#[test]
fn a_takeover_from_a_peer_that_may_have_been_asking_still_asks_for_everything_once_it_has_heard_of_it() {
    let mut clearance = listed(3);
    clearance.claim(Some(PROBE), Before::Newcomer, at(1000));
    assert_eq!(clearance.cleared().count(), 0);
    assert_eq!(run(&mut clearance, 1420), [(1020, 3), (1220, 3)]);
    assert_eq!(clearance.cleared().count(), 3);
}

#[test]
fn what_is_unproven_is_asked_for_at_each_takeover_until_it_is_proven() {
    let (mut clearance, [unproven, _]) = doubtful();
    for begin in [0, 10_000] {
        clearance.claim(Some(PROBE), Before::Server, at(begin));
        assert_eq!(run(&mut clearance, begin + 5000).len(), 2, "asked twice");
        assert!(clearance.is_clear(unproven));
        clearance.rest();
        assert!(!clearance.is_clear(unproven), "a peer may find a stranger before this node is Active again");
    }
    assert!(clearance.doubt(&Arc::default()));
    clearance.claim(Some(PROBE), Before::Server, at(20_000));
    assert!(clearance.is_clear(unproven));
    assert_eq!(clearance.deadline(), None);
}

#[test]
fn a_doubt_or_its_end_while_active_changes_nothing() {
    let (mut clearance, [unproven, proven]) = doubtful();
    clearance.claim(Some(PROBE), Before::Server, at(0));
    clearance.take_changed();
    clearance.doubt(&Arc::new([proven].into()));
    clearance.claim(Some(PROBE), Before::Nobody, at(10));
    assert!(!clearance.has_changed());
    assert!(clearance.is_clear(proven));
    assert_eq!(run(&mut clearance, 5000), [(20, 1), (220, 1)]);
    assert!(clearance.is_clear(unproven));
}

#[test]
fn an_address_that_is_taken_is_asked_for_again_soon_and_claimed_when_it_is_free() {
    let mut clearance = listed(2);
    let all = addresses(2);
    clearance.claim(Some(PROBE), Before::Nobody, at(0));
    assert_eq!(clearance.due(at(0), at(0), 10), all);
    assert_eq!(clearance.heard(all[0], at(50)), Verdict::Taken);
    assert_eq!(clearance.heard(all[0], at(51)), Verdict::Irrelevant, "told once");
    assert_eq!(run(&mut clearance, 1049), [(200, 1)]);
    assert_eq!(clearance.cleared().collect::<Vec<_>>(), [all[1]]);
    // The other station is still there after a second, and gone after two.
    assert_eq!(run(&mut clearance, 1050), [(1050, 1)]);
    assert_eq!(clearance.heard(all[0], at(1060)), Verdict::Irrelevant, "told a second ago");
    assert_eq!(run(&mut clearance, 2459), [(2060, 1), (2260, 1)]);
    assert!(!clearance.is_clear(all[0]));
    run(&mut clearance, 2460);
    assert!(clearance.is_clear(all[0]));
}

#[test]
fn an_address_that_stays_taken_is_asked_for_and_told_of_each_minute() {
    let mut clearance = listed(1);
    let vip = addresses(1)[0];
    clearance.claim(Some(PROBE), Before::Nobody, at(0));
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    while let Some(due) = clearance.deadline().filter(|due| *due <= at(200_000)) {
        assert_eq!(clearance.due(due, due, 10), [vip]);
        let answer = due + Duration::from_millis(10);
        asked.push(due.nanos() / 1_000_000);
        match clearance.heard(vip, answer) {
            Verdict::Taken => told.push(answer.nanos() / 1_000_000),
            Verdict::Irrelevant => {}
            Verdict::Conflict => panic!("claimed at {due:?}"),
        }
    }
    assert_eq!(asked[..4], [0, 1010, 2020, 3030], "each second");
    assert_eq!(asked[9..], [9090, 10_100, 70_110, 130_120, 190_130], "for ten seconds, then each minute");
    assert_eq!(told, [10, 70_120, 130_130, 190_140]);
}

#[test]
fn a_takeover_from_a_peer_asks_for_what_was_another_stations_within_a_minute_and_claims_it_after_it() {
    let mut clearance = listed(1);
    let vip = addresses(1)[0];
    clearance.claim(Some(PROBE), Before::Nobody, at(0));
    clearance.due(at(0), at(0), 1);
    clearance.heard(vip, at(1));
    clearance.rest();
    assert_eq!(clearance.deadline(), None, "a Backup asks nothing");
    clearance.claim(Some(PROBE), Before::Server, at(60_000));
    assert_eq!(clearance.due(at(60_020), at(60_020), 1), [vip]);
    clearance.rest();
    clearance.claim(Some(PROBE), Before::Server, at(60_100));
    assert!(clearance.is_clear(vip), "nobody answered the last question, and a peer was Active since");

    let mut clearance = listed(1);
    clearance.claim(Some(PROBE), Before::Nobody, at(0));
    clearance.due(at(0), at(0), 1);
    clearance.heard(vip, at(1));
    clearance.rest();
    clearance.claim(Some(PROBE), Before::Server, at(60_001));
    assert!(clearance.is_clear(vip), "the peer has had it for long");
}

#[test]
fn what_was_cleared_once_is_not_asked_for_again() {
    let mut clearance = listed(1);
    clearance.claim(Some(PROBE), Before::Server, at(0));
    clearance.rest();
    clearance.claim(Some(PROBE), Before::Nobody, at(10_000));
    assert_eq!(run(&mut clearance, 20_000), []);
    assert_eq!(clearance.cleared().count(), 1);
}

#[test]
fn only_the_added_address_is_asked_for_and_the_removed_is_forgotten() {
    let mut clearance = listed(2);
    clearance.claim(Some(PROBE), Before::Server, at(0));
    let all = addresses(3);
    clearance.list(&all[1..]);
    clearance.claim(Some(PROBE), Before::Nobody, at(100));
    assert_eq!(clearance.cleared().collect::<Vec<_>>(), [all[1]]);
    assert_eq!(clearance.due(at(100), at(100), 10), [all[2]]);
    assert_eq!(clearance.heard(all[0], at(110)), Verdict::Irrelevant);
    assert_eq!(clearance.heard(all[1], at(110)), Verdict::Conflict);
}

#[test]
fn the_time_to_answer_counts_from_the_question_and_not_from_its_turn() {
    let mut clearance = listed(100);
    clearance.claim(Some(PROBE), Before::Nobody, at(0));
    assert_eq!(clearance.due(at(0), at(0), 60).len(), 60);
    // The sender's pace leaves the rest for later.
    assert_eq!(clearance.due(at(150), at(150), 60).len(), 40);
    assert_eq!(run(&mut clearance, 399), [(200, 60), (350, 40)]);
    assert_eq!(run(&mut clearance, 400), []);
    assert_eq!(clearance.cleared().count(), 60);
}

#[test]
fn a_change_is_told_once() {
    let mut clearance = listed(1);
    clearance.claim(Some(PROBE), Before::Server, at(0));
    assert!(clearance.take_changed());
    assert!(!clearance.take_changed());
    clearance.claim(Some(PROBE), Before::Server, at(1));
    assert!(!clearance.take_changed(), "nothing new");
}
