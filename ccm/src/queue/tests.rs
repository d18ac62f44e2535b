use std::time::Duration;

use tokio::time::Instant;

use super::{Backoff, WorkQueue};
use crate::metrics::Metrics;

const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::new(BACKOFF, Metrics::unregistered("lease").queues.of("test"))
}

fn after(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

// shows: ccm-contract S-16
#[test]
fn back_off_doubles_from_5_to_300_seconds() {
    let delays: Vec<u64> = (1..=9).map(|failures| BACKOFF.delay(failures).as_secs()).collect();
    assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    assert_eq!(BACKOFF.delay(u32::MAX).as_secs(), 300);
}

#[test]
fn a_key_is_worked_on_once_at_a_time_and_comes_again_if_added_meanwhile() {
    let (mut queue, now) = (queue(), Instant::now());
    queue.add(&"a");
    queue.add(&"a");
    assert_eq!(queue.pop(now), Some("a"));
    assert_eq!(queue.pop(now), None);
    queue.add(&"a");
    assert_eq!(queue.pop(now), None, "still worked on");
    queue.done(&"a");
    assert_eq!(queue.pop(now), Some("a"), "the change that came meanwhile is not lost");
    queue.done(&"a");
    assert_eq!(queue.pop(now), None);
}

#[test]
fn retries_wait_for_their_time_and_forget_starts_over() {
    let (mut queue, start) = (queue(), Instant::now());
    for (at, next) in [(0, 5), (5, 15), (15, 35)] {
        queue.add(&"a");
        assert_eq!(queue.pop(after(start, at)), Some("a"));
        assert_eq!(queue.retry(&"a", after(start, at)), after(start, next));
        queue.done(&"a");
        assert_eq!(queue.next_due(true), Some(after(start, next)));
        assert_eq!(queue.pop(after(start, next) - Duration::from_millis(1)), None);
    }
    queue.forget(&"a");
    queue.add(&"a");
    assert_eq!(queue.next_due(true), None, "an add does not leave the delayed one behind");
    assert_eq!(queue.pop(start), Some("a"));
    assert_eq!(queue.retry(&"a", start), after(start, 5));
}

#[test]
fn a_delay_asked_for_is_kept_exactly_and_does_not_grow_the_back_off() {
    let (mut queue, start) = (queue(), Instant::now());
    queue.add(&"a");
    queue.pop(start);
    queue.add_at(&"a", after(start, 42));
    queue.done(&"a");
    assert_eq!(queue.pop(after(start, 41)), None);
    assert_eq!(queue.pop(after(start, 42)), Some("a"));
    assert_eq!(queue.retry(&"a", after(start, 42)), after(start, 47));
}

#[test]
fn a_change_overtakes_a_delay() {
    let (mut queue, start) = (queue(), Instant::now());
    queue.add_at(&"a", after(start, 300));
    queue.add(&"a");
    queue.add_at(&"a", after(start, 200));
    assert_eq!(queue.pop(start), Some("a"));
    queue.done(&"a");
    assert_eq!(queue.pop(after(start, 300)), None, "not done twice");
}

#[test]
fn the_earlier_of_two_delays_counts() {
    let (mut queue, start) = (queue(), Instant::now());
    queue.add_at(&"a", after(start, 10));
    queue.add_at(&"a", after(start, 20));
    assert_eq!(queue.next_due(true), Some(after(start, 10)));
    queue.add_at(&"a", after(start, 5));
    assert_eq!(queue.next_due(true), Some(after(start, 5)));
}

#[test]
fn an_overdue_key_wakes_nobody_who_has_no_room_for_it() {
    let (mut queue, start) = (queue(), Instant::now());
    queue.add_at(&"a", start);
    assert_eq!((queue.next_due(true), queue.next_due(false)), (Some(start), None));
}

#[test]
fn urgent_keys_come_first() {
    let (mut queue, now) = (queue(), Instant::now());
    for key in ["a", "b", "c"] {
        queue.add(&key);
    }
    queue.add_urgent(&"c");
    let order: Vec<_> = std::iter::from_fn(|| queue.pop(now)).collect();
    assert_eq!(order, ["c", "a", "b"]);
    queue.add_urgent(&"a");
    queue.add(&"a");
    queue.add(&"d");
    queue.done(&"a");
    assert_eq!(queue.pop(now), Some("a"), "urgency outlasts the work under way");
}

#[test]
fn a_delayed_key_that_falls_due_while_worked_on_waits_its_turn() {
    let (mut queue, start) = (queue(), Instant::now());
    queue.add(&"a");
    queue.pop(start);
    queue.add_at(&"a", start);
    assert_eq!(queue.pop(after(start, 1)), None);
    queue.done(&"a");
    assert_eq!(queue.pop(after(start, 1)), Some("a"));
}
