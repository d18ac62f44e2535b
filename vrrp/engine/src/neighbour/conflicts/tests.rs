use std::net::Ipv4Addr;

use super::*;

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn claim(host: u8) -> Claim {
    Claim { address: Ipv4Addr::new(203, 0, 113, 1).into(), mac: [2, 0, 0, 0, 0, host] }
}

/// Returns whether it was reported and whether the address was defended.
fn due(conflicts: &mut Conflicts<u8>, millis: u64) -> Vec<(bool, bool)> {
    conflicts.due(at(millis), |_, _| Contest::Stands).into_iter().map(|c| (c.report, c.defend)).collect()
}

#[test]
fn a_claim_is_a_conflict_when_it_has_stood_for_a_second() {
    let mut conflicts = Conflicts::new();
    conflicts.note(1, claim(1), at(10_000));
    assert_eq!(conflicts.deadline(), Some(at(11_000)));
    assert_eq!(due(&mut conflicts, 10_999), []);
    assert_eq!(due(&mut conflicts, 11_000), [(true, true)]);
    assert_eq!(conflicts.deadline(), None);
}

#[test]
fn a_hand_over_within_the_second_is_none() {
    let mut conflicts = Conflicts::new();
    conflicts.note(1, claim(1), at(0));
    assert_eq!(conflicts.due(at(1000), |_, _| Contest::Over), []);
    assert_eq!(due(&mut conflicts, 5000), [], "forgotten");
}

#[test]
fn a_claim_to_what_is_not_announced_yet_is_a_conflict_once_it_is() {
    let mut conflicts = Conflicts::new();
    conflicts.note(1, claim(1), at(0));
    for second in 1..100 {
        assert_eq!(conflicts.due(at(second * 1000), |_, _| Contest::Pending), []);
        assert_eq!(conflicts.deadline(), Some(at((second + 1) * 1000)), "not sooner");
    }
    assert_eq!(due(&mut conflicts, 100_000), [(true, true)]);
}

#[test]
fn a_claim_that_goes_on_is_reported_each_minute_and_defended_each_ten_seconds() {
    let mut conflicts = Conflicts::new();
    let (mut reports, mut defences) = (Vec::new(), Vec::new());
    for second in 0..130 {
        conflicts.note(1, claim(1), at(second * 1000));
        for (report, defend) in due(&mut conflicts, second * 1000 + 999) {
            reports.extend(report.then_some(second));
            defences.extend(defend.then_some(second));
        }
    }
    assert_eq!(reports, [1, 61, 121]);
    assert_eq!(defences.len(), 13);
    assert!(defences.windows(2).all(|pair| pair[1] - pair[0] >= 10), "{defences:?}");
}

#[test]
fn each_host_is_reported_and_the_address_defended_once() {
    let mut conflicts = Conflicts::new();
    conflicts.note(1, claim(1), at(0));
    conflicts.note(1, claim(2), at(0));
    let mut told = due(&mut conflicts, 1000);
    told.sort_unstable();
    assert_eq!(told, [(true, false), (true, true)]);
}

#[test]
fn a_flood_of_forged_claims_is_bounded() {
    let mut conflicts = Conflicts::new();
    for n in 0..5000_u32 {
        let address = Ipv4Addr::from(n).into();
        conflicts.note(1, Claim { address, ..claim(1) }, at(0));
    }
    assert_eq!(due(&mut conflicts, 1000).len(), LIMIT);
}
