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
        let ask = clearance.due(due, 1000);
        if !ask.is_empty() {
            asked.push((due.nanos() / 1_000_000, ask.len()));
        }
    }
    asked
}

#[test]
fn a_first_claim_asks_twice_and_waits_for_answers() {
    let mut clearance = listed(3);
    clearance.claim(Some(PROBE), at(1000));
    assert_eq!(clearance.cleared().count(), 0);
    assert_eq!(run(&mut clearance, 1399), [(1000, 3), (1200, 3)]);
    assert_eq!(clearance.cleared().count(), 0, "an answer may come until 1400");
    assert_eq!(run(&mut clearance, 10_000), []);
    assert_eq!(clearance.cleared().collect::<Vec<_>>(), addresses(3));
    assert_eq!(clearance.deadline(), None);
}

#[test]
fn a_takeover_from_a_peer_or_without_probe_waits_for_nothing() {
    let mut clearance = listed(3);
    clearance.claim(None, at(0));
    assert_eq!(clearance.cleared().count(), 3);
    assert_eq!(clearance.deadline(), None);
}

#[test]
fn an_address_that_is_taken_is_asked_for_again_soon_and_claimed_when_it_is_free() {
    let mut clearance = listed(2);
    let all = addresses(2);
    clearance.claim(Some(PROBE), at(0));
    assert_eq!(clearance.due(at(0), 10), all);
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
    clearance.claim(Some(PROBE), at(0));
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    while let Some(due) = clearance.deadline().filter(|due| *due <= at(200_000)) {
        assert_eq!(clearance.due(due, 10), [vip]);
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
fn a_takeover_from_a_peer_claims_even_what_was_taken() {
    let mut clearance = listed(1);
    let vip = addresses(1)[0];
    clearance.claim(Some(PROBE), at(0));
    clearance.due(at(0), 1);
    clearance.heard(vip, at(1));
    clearance.rest();
    assert_eq!(clearance.deadline(), None, "a Backup asks nothing");
    clearance.claim(None, at(5));
    assert!(clearance.is_clear(vip));
}

#[test]
fn what_was_cleared_once_is_not_asked_for_again() {
    let mut clearance = listed(1);
    clearance.claim(None, at(0));
    clearance.rest();
    clearance.claim(Some(PROBE), at(10_000));
    assert_eq!(run(&mut clearance, 20_000), []);
    assert_eq!(clearance.cleared().count(), 1);
}

#[test]
fn only_the_added_address_is_asked_for_and_the_removed_is_forgotten() {
    let mut clearance = listed(2);
    clearance.claim(None, at(0));
    let all = addresses(3);
    clearance.list(&all[1..]);
    clearance.claim(Some(PROBE), at(100));
    assert_eq!(clearance.cleared().collect::<Vec<_>>(), [all[1]]);
    assert_eq!(clearance.due(at(100), 10), [all[2]]);
    assert_eq!(clearance.heard(all[0], at(110)), Verdict::Irrelevant);
    assert_eq!(clearance.heard(all[1], at(110)), Verdict::Conflict);
}

#[test]
fn the_time_to_answer_counts_from_the_question_and_not_from_its_turn() {
    let mut clearance = listed(100);
    clearance.claim(Some(PROBE), at(0));
    assert_eq!(clearance.due(at(0), 60).len(), 60);
    // The sender's pace leaves the rest for later.
    assert_eq!(clearance.due(at(150), 60).len(), 40);
    assert_eq!(run(&mut clearance, 399), [(200, 60), (350, 40)]);
    assert_eq!(run(&mut clearance, 400), []);
    assert_eq!(clearance.cleared().count(), 60);
}

#[test]
fn a_change_is_told_once() {
    let mut clearance = listed(1);
    clearance.claim(None, at(0));
    assert!(clearance.take_changed());
    assert!(!clearance.take_changed());
    clearance.claim(None, at(1));
    assert!(!clearance.take_changed(), "nothing new");
}
