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
fn when_all_places_are_taken_one_is_free_as_soon_as_the_oldest_is_forgotten() {
    let mut seen = Sightings::new();
    for n in 0..LIMIT {
        assert!(seen.note(n, at(u64::from(n > 0))));
    }
    for second in 2..60 {
        assert!(!seen.note(LIMIT, at(second)));
    }
    assert!(!seen.note(1, at(60)), "not before 61");
    assert!(seen.note(LIMIT, at(60)));
    assert!(!seen.note(LIMIT + 1, at(60)));
    assert!(seen.note(1, at(61)));
}
