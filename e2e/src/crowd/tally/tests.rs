use super::*;

fn milliseconds(values: impl IntoIterator<Item = u64>) -> Vec<Duration> {
    values.into_iter().map(Duration::from_millis).collect()
}

#[test]
fn a_percentile_is_the_smallest_value_that_so_many_do_not_exceed() {
    for (values, p50, p99, max) in [
        (milliseconds([]), 0, 0, 0),
        (milliseconds([7]), 7, 7, 7),
        (milliseconds([9, 3]), 3, 9, 9),
        (milliseconds([3, 1, 2]), 2, 3, 3),
        (milliseconds((1..=100).rev()), 50, 99, 100),
        (milliseconds(1..=1000), 500, 990, 1000),
    ] {
        let tally = Tally { answered: values, ..Tally::default() };
        let wanted = milliseconds([p50, p99, max]);
        let Latencies { p50, p99, max } = tally.latencies();
        assert_eq!(vec![p50, p99, max], wanted, "{:?}", tally.answered);
    }
}

#[test]
fn a_tally_counts_answers_failures_and_broken_connections_each_by_itself() {
    let mut tally = Tally::default();
    tally.note(Ok(Duration::from_millis(3)), false);
    tally.note(Ok(Duration::from_millis(9)), true);
    tally.note(Err("connecting: timed out".into()), true);
    tally.note(Err("connecting: refused".into()), false);
    assert_eq!((tally.requests(), tally.failed, tally.broken), (4, 2, 2), "{tally:?}");
    assert_eq!(tally.errors.values().sum::<u64>(), 2, "{tally:?}");
    let mut both = tally.clone();
    both.merge(tally);
    assert_eq!((both.requests(), both.failed, both.broken), (8, 4, 4), "{both:?}");
    assert!(both.errors.values().all(|count| *count == 2), "{both:?}");
}
