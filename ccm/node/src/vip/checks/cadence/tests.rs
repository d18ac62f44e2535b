use super::*;

#[test]
fn attempts_begin_an_interval_apart_and_those_that_were_missed_are_left_out() {
    let start = Instant::now();
    let ms = Duration::from_millis;
    // (beginnings so far, when the last attempt was over, when the next begins), in ms from the start
    for (over, expected) in [
        (0, 500),
        (3, 500),
        (499, 500),
        // The whole interval was used up, and a little more: the rhythm stays.
        (500, 500),
        (502, 500),
        (999, 500),
        // An attempt or more was missed.
        (1000, 1000),
        (1001, 1000),
        (1600, 1500),
        (3_600_000, 3_600_000),
        (3_600_250, 3_600_000),
    ] {
        let mut cadence = Cadence::new(start, ms(500));
        assert_eq!(cadence.next(), start);
        cadence.advance(start + ms(over));
        assert_eq!(cadence.next(), start + ms(expected), "{over}");
    }
}

#[test]
fn attempts_that_take_all_their_time_do_not_shift_the_rhythm() {
    let start = Instant::now();
    let interval = Duration::from_millis(500);
    let mut cadence = Cadence::new(start, interval);
    for number in 1..1000 {
        cadence.advance(cadence.next() + interval + Duration::from_millis(2));
        assert_eq!(cadence.next(), start + interval * number);
    }
}

#[test]
fn a_process_stood_still_if_it_is_late_by_an_interval_and_by_a_quarter_of_a_second() {
    let due = Instant::now();
    for (interval, late, expected) in [
        (500, 0, false),
        (500, 499, false),
        (500, 500, true),
        (50, 249, false),
        (50, 250, true),
        (60_000, 59_999, false),
    ] {
        let cadence = Cadence::new(due, Duration::from_millis(interval));
        assert_eq!(cadence.stalled(due, due + Duration::from_millis(late)), expected, "{interval} {late}");
    }
    let cadence = Cadence::new(due, Duration::from_millis(500));
    assert!(!cadence.stalled(due + Duration::from_secs(9), due), "early is not late");
}
