use super::*;

// shows: rfc9568 C5, C6
#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    assert_eq!(Vrid::new(0).unwrap_err().to_string(), "VRID 0 is out of range: use 1 to 255");
    assert_eq!(Vrid::try_from(256_u32).unwrap_err().to_string(), "VRID 256 is out of range: use 1 to 255");
    assert!(Priority::new(0).unwrap_err().to_string().contains("reserved for resigning"));
    assert_eq!(Interval::from_centiseconds(0), Err(InvalidInterval::Centiseconds(0)));
    assert_eq!(Interval::from_centiseconds(4096), Err(InvalidInterval::Centiseconds(4096)));
    assert_eq!(Interval::from_millis(0), Err(InvalidInterval::Range(0)));
    assert_eq!(Interval::from_millis(40_960), Err(InvalidInterval::Range(40_960)));
    assert_eq!(Interval::from_millis(15), Err(InvalidInterval::Granularity(15)));
}

// shows: rfc9568 C7
#[test]
fn the_longest_interval_is_exact() {
    let longest = Interval::from_millis(40_950).unwrap();
    assert_eq!(longest, Interval::MAX);
    assert_eq!((longest.centiseconds(), longest.millis()), (4095, 40_950));
}

#[test]
fn version_2_counts_whole_seconds_up_to_255() {
    assert_eq!(Interval::from_seconds(0), Err(InvalidInterval::Centiseconds(0)));
    for seconds in [1, 40, 41, 255] {
        let interval = Interval::from_seconds(seconds).unwrap();
        assert_eq!((interval.duration(), interval.seconds()), (Duration::from_secs(seconds.into()), seconds));
    }
    assert_eq!(Interval::from_millis(1990).unwrap().seconds(), 1);
}

#[test]
fn versions_are_checked_against_family_and_interval() {
    use Versions::{V2, V2AndV3, V3};
    let [second, fraction] = [1000, 1010].map(|millis| Interval::from_millis(millis).unwrap());
    let long = Interval::from_seconds(60).unwrap();
    for (versions, family, interval, expected) in [
        (V3, Family::V4, fraction, Ok(())),
        (V3, Family::V6, Interval::MIN, Ok(())),
        (V3, Family::V4, Interval::MAX, Ok(())),
        (V3, Family::V4, long, Err(InvalidVersions::TooLong(long))),
        (V2, Family::V4, second, Ok(())),
        (V2, Family::V4, long, Ok(())),
        (V2, Family::V4, fraction, Err(InvalidVersions::Fraction(fraction))),
        (V2, Family::V6, second, Err(InvalidVersions::Family)),
        (V2AndV3, Family::V4, second, Ok(())),
        (V2AndV3, Family::V4, fraction, Err(InvalidVersions::Fraction(fraction))),
        (V2AndV3, Family::V4, long, Err(InvalidVersions::TooLong(long))),
        (V2AndV3, Family::V6, second, Err(InvalidVersions::Family)),
    ] {
        assert_eq!(versions.check(family, interval), expected, "{versions:?} {family} {interval}");
    }
}

/// RFC 3768 §6.1 and RFC 9568 §6.1: priority 100 at 5 s.
#[test]
fn only_version_2_has_a_skew_that_does_not_depend_on_the_interval() {
    let (interval, priority) = (Interval::from_millis(5000).unwrap(), Priority::new(100).unwrap());
    for (versions, skew_micros) in
        [(Versions::V2, 609_375), (Versions::V3, 3_046_875), (Versions::V2AndV3, 3_046_875)]
    {
        let skew = Duration::from_micros(skew_micros);
        assert_eq!(versions.skew(interval, priority), skew, "{versions:?}");
        assert_eq!(versions.active_down(interval, priority), Duration::from_secs(15) + skew, "{versions:?}");
    }
}

// shows: rfc9568 I1, I2
/// Finding of others' engines: at 10 ms the skew of priority 254 is 78.125 µs, not 0.
#[test]
fn skew_and_active_down_interval_match_the_reference() {
    for (millis, priority, skew_nanos) in [
        (10, 254, 78_125),
        (100, 254, 781_250),
        (1000, 254, 7_812_500),
        (1000, 100, 609_375_000),
        (100, 200, 21_875_000),
        (10, 255, 39_062),
        (40_950, 1, 40_790_039_062),
    ] {
        let (interval, priority) = (Interval::from_millis(millis).unwrap(), Priority::new(priority).unwrap());
        assert_eq!(
            interval.skew(priority),
            Duration::from_nanos(skew_nanos),
            "{interval} priority {priority}"
        );
        assert_eq!(
            Versions::V3.active_down(interval, priority),
            interval.duration() * 3 + Duration::from_nanos(skew_nanos)
        );
    }
}

#[test]
fn time_saturates_instead_of_wrapping() {
    assert_eq!(Time::from_nanos(1).since(Time::from_nanos(2)), Duration::ZERO);
    assert_eq!(Time::from_nanos(u64::MAX) + Duration::from_secs(1), Time::from_nanos(u64::MAX));
}
