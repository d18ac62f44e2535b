use super::*;

#[test]
fn each_timer_is_in_the_bucket_of_its_lateness() {
    let meter = LatenessMeter::default();
    for micros in [0, 50, 51, 1_000, 499_999, 500_001, 7_000_000] {
        meter.note(Duration::from_micros(micros));
    }
    let lateness = meter.read();
    assert_eq!(lateness.counts, [2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(lateness.counts.len(), lateness.bounds_seconds.len() + 1);
    assert_eq!(lateness.max, Duration::from_secs(7));
    assert_eq!(lateness.sum, Duration::from_micros(8_001_101));
    assert_eq!(meter.take_recent(), Duration::from_secs(7));
    meter.note(Duration::from_millis(3));
    meter.note(Duration::from_millis(2));
    assert_eq!(meter.take_recent(), Duration::from_millis(3));
    assert_eq!((meter.take_recent(), meter.read().max), (Duration::ZERO, Duration::from_secs(7)));
}
