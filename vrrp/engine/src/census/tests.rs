use super::*;

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn the_same_thing_is_reported_once_a_minute() {
    let mut seen = Sightings::new();
    let reports: Vec<bool> = [0, 1, 59, 60, 61].map(|second| seen.note("x", at(second))).into();
    assert_eq!(reports, [true, false, false, true, false]);
}

#[test]
fn a_flood_of_forged_things_is_bounded_and_forgotten() {
    let mut seen = Sightings::new();
    let reported = (0..5000).filter(|n| seen.note(*n, at(0))).count();
    assert_eq!(reported, LIMIT);
    assert!(!seen.note(9999, at(59)));
    assert!(seen.note(9999, at(60)));
}

#[test]
fn a_claim_is_a_conflict_only_if_it_outlives_the_grace_and_we_are_still_active() {
    let mut claims = Claims::new();
    claims.note("vip", at(10));
    assert_eq!(claims.deadline(), Some(at(11)));
    assert!(claims.due(at(10), |_| true).is_empty());
    assert_eq!(claims.due(at(11), |_| true), ["vip"]);
    assert_eq!(claims.deadline(), None);
    // Handed over within the grace: no conflict.
    claims.note("other", at(20));
    assert!(claims.due(at(21), |_| false).is_empty());
    // Rate limit.
    claims.note("vip", at(30));
    assert!(claims.due(at(31), |_| true).is_empty());
    claims.note("vip", at(71));
    assert_eq!(claims.due(at(72), |_| true), ["vip"]);
}
