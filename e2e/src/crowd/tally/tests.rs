use super::*;

#[test]
fn latencies_are_those_of_the_answers_and_0_without_any() {
    assert_eq!(Tally::default().latencies(), Latencies::default());
    let [p50, p99, max] = [50, 99, 100].map(Duration::from_millis);
    let answered = (1..=100).rev().map(Duration::from_millis).collect();
    assert_eq!(Tally { answered, ..Tally::default() }.latencies(), Latencies { p50, p99, max });
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
