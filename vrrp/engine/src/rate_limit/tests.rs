use super::*;

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn the_same_thing_is_reported_once_a_minute() {
    let mut limiter = RateLimiter::new();
    let reports: Vec<bool> = [0, 1, 59, 60, 61].map(|second| limiter.permits("x", at(second))).into();
    assert_eq!(reports, [true, false, false, true, false]);
}

#[test]
fn a_flood_of_forged_things_is_bounded_and_forgotten() {
    let mut limiter = RateLimiter::new();
    let reported = (0..5000).filter(|n| limiter.permits(*n, at(0))).count();
    assert_eq!(reported, MAX_ENTRIES);
    assert!(!limiter.permits(9999, at(59)));
    assert!(limiter.permits(9999, at(60)));
}

#[test]
fn when_all_places_are_taken_one_is_free_as_soon_as_the_oldest_is_forgotten() {
    let mut limiter = RateLimiter::new();
    for n in 0..MAX_ENTRIES {
        assert!(limiter.permits(n, at(u64::from(n > 0))));
    }
    for second in 2..60 {
        assert!(!limiter.permits(MAX_ENTRIES, at(second)));
    }
    assert!(!limiter.permits(1, at(60)), "not before 61");
    assert!(limiter.permits(MAX_ENTRIES, at(60)));
    assert!(!limiter.permits(MAX_ENTRIES + 1, at(60)));
    assert!(limiter.permits(1, at(61)));
}
