use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_burst_goes_at_once_and_then_one_call_each_interval() {
    let limit = RateLimit::new(20.0, 3).expect("a limit");
    let start = Instant::now();
    let mut bucket = TokenBucket::new(limit, start);
    let rows = [
        (0, Ok(())),
        (0, Ok(())),
        (0, Ok(())),
        (0, Err(ms(50))),
        (20, Err(ms(30))),
        (50, Ok(())),
        (50, Err(ms(50))),
        // It fills up to the burst and no further.
        (10_000, Ok(())),
        (10_000, Ok(())),
        (10_000, Ok(())),
        (10_000, Err(ms(50))),
    ];
    for (row, (at, expected)) in rows.into_iter().enumerate() {
        let taken = bucket
            .take(start + ms(at))
            .map_err(|wait| ms(u64::try_from(wait.as_micros().div_ceil(1000)).expect("small")));
        assert_eq!(taken, expected, "row {row}, at {at} ms");
    }
}

#[test]
fn waiting_as_long_as_it_says_is_enough_at_any_rate() {
    for per_second in [0.001, 0.3, 7.0, 20.0, 5000.0] {
        let mut now = Instant::now();
        let mut bucket = TokenBucket::new(RateLimit::new(per_second, 1).expect("a limit"), now);
        assert_eq!(bucket.take(now), Ok(()));
        let wait = bucket.take(now).expect_err("empty");
        now += wait + ms(1);
        assert_eq!(bucket.take(now), Ok(()), "{per_second} per second, after {wait:?}");
    }
}

#[test]
fn time_that_goes_back_fills_nothing() {
    let start = Instant::now() + ms(1000);
    let mut bucket = TokenBucket::new(RateLimit::new(10.0, 1).expect("a limit"), start);
    assert_eq!(bucket.take(start), Ok(()));
    assert_eq!(bucket.take(start - ms(500)), Err(ms(100)));
    assert_eq!(bucket.take(start), Err(ms(100)));
}

// shows: ccm-contract 287
#[test]
fn the_flags_ask_for_no_limit_one_or_nonsense() {
    let limit = |per_second, burst| Ok(Some(RateLimit { per_second, burst }));
    let rows = [
        (None, None, Ok(None)),
        (Some(-1.0), None, Ok(None)),
        (Some(-1.0), Some(5), Ok(None)),
        (Some(50.0), None, limit(50.0, 30)),
        (None, Some(100), limit(20.0, 100)),
        (Some(0.5), Some(1), limit(0.5, 1)),
        (Some(0.0), None, Err(RateLimitError::PerSecond(0.0))),
        (Some(f64::INFINITY), None, Err(RateLimitError::PerSecond(f64::INFINITY))),
        (None, Some(0), Err(RateLimitError::Burst)),
    ];
    for (per_second, burst, expected) in rows {
        assert_eq!(RateLimit::from_flags(per_second, burst), expected, "{per_second:?} {burst:?}");
    }
    assert!(matches!(RateLimit::from_flags(Some(f64::NAN), None), Err(RateLimitError::PerSecond(_))));
}
