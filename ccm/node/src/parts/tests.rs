use std::cell::RefCell;

use tokio::time::{Instant, sleep};

use super::*;

/// Longest time, of the test's virtual time, for which a test waits for a fault.
const LIMIT: Duration = Duration::from_hours(1);

/// Milliseconds between the panics of a part that runs for these times in seconds, one after the other, and the next starts.
async fn pauses(runs: &[u64]) -> Vec<u128> {
    let (parts, token) = (Arc::new(Parts::new()), CancellationToken::new());
    let (mut left, mut panicked, pauses) = (runs.iter(), None, RefCell::new(Vec::new()));
    let body = async || {
        if let Some(at) = panicked {
            pauses.borrow_mut().push(Instant::now().duration_since(at).as_millis());
        }
        let Some(seconds) = left.next() else { return };
        sleep(Duration::from_secs(*seconds)).await;
        panicked = Some(Instant::now());
        panic!("as the test orders");
    };
    parts.keep("part", &token, body).await;
    pauses.into_inner()
}

#[tokio::test(start_paused = true)]
async fn a_part_that_panics_again_is_started_again_after_twice_as_long_each_time_up_to_a_minute() {
    let first = RESTART.first.as_millis();
    let paused = pauses(&[0; 13]).await;
    let doubled = (0..13).map(|panics| (first << panics).min(60_000));
    assert!(
        paused.iter().zip(doubled).all(|(paused, wanted)| (wanted..=wanted + 1).contains(paused)),
        "{paused:?}"
    );
    assert_eq!(paused.len(), 13);
}

#[tokio::test(start_paused = true)]
async fn after_a_minute_without_a_panic_the_pauses_begin_anew() {
    let first = RESTART.first.as_millis();
    let paused = pauses(&[0, 0, 59, 61, 0]).await;
    let wanted = [first, 2 * first, 4 * first, first, 2 * first];
    assert!(
        paused.iter().zip(wanted).all(|(paused, wanted)| (wanted..=wanted + 1).contains(paused)),
        "{paused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_reported_and_counts_until_the_part_has_run_for_a_minute() {
    let (parts, token) = (Arc::new(Parts::new()), CancellationToken::new());
    let mut faults = parts.faults();
    let mut runs = 0;
    let body = async move || {
        runs += 1;
        assert!(runs > 1, "the first run");
        std::future::pending::<()>().await;
    };
    let task = tokio::spawn(parts.keep("part", &token, body));
    let other = tokio::spawn(parts.keep("other", &token, async || 7));
    assert_eq!(other.await.unwrap(), Some(7), "the result of a part that ends");
    tokio::time::timeout(LIMIT, faults.changed()).await.unwrap().unwrap();
    let status = || parts.status().into_iter().find(|part| part.thread == "part").unwrap();
    let error = status().error.unwrap();
    assert!(error.starts_with("part panicked") && error.contains("the first run"), "{error}");
    sleep(WELL_AFTER).await;
    assert_eq!((status().faults, status().error.is_some()), (1, true));
    sleep(RESTART.first * 2).await;
    assert_eq!((status().faults, status().error), (1, None));
    assert_eq!(parts.status()[0], HelperStatus::new("other"), "a part without faults is shown, too");
    assert!(!task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_part_that_waits_for_its_next_start_ends_with_the_process() {
    let (parts, token) = (Arc::new(Parts::new()), CancellationToken::new());
    let mut faults = parts.faults();
    let task = tokio::spawn(parts.keep("part", &token, async || panic!("as the test orders")));
    for _ in 0..12 {
        tokio::time::timeout(LIMIT, faults.changed()).await.unwrap().unwrap();
    }
    let before = Instant::now();
    token.cancel();
    assert_eq!(task.await.unwrap(), None::<()>);
    assert_eq!(Instant::now(), before);
}

#[tokio::test]
async fn a_panic_of_blocking_work_is_one_of_its_caller() {
    let caller = tokio::spawn(blocking(|| -> u8 { panic!("as the test orders") }));
    assert!(caller.await.unwrap_err().is_panic());
    assert_eq!(blocking(|| 7).await, Some(7));
}
