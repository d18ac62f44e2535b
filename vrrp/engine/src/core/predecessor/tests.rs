use super::*;

const PROBE: Option<Duration> = Some(Duration::from_millis(60));

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn tenth() -> Interval {
    Interval::from_millis(100).unwrap()
}

#[test]
fn with_no_peer_heard_nobody_served() {
    assert_eq!(PredecessorTracker::started(at(1000)).at_takeover(PROBE, at(500_000)), Predecessor::Nobody);
}

#[test]
fn a_peer_that_was_active_before_the_router_was_started_served() {
    for first in [1000, 1001, 1100, 1150] {
        let mut predecessor = PredecessorTracker::started(at(1000));
        predecessor.heard(tenth(), at(first));
        assert_eq!(predecessor.at_takeover(PROBE, at(first)), Predecessor::Established, "heard at {first}");
    }
}

#[test]
fn a_peer_that_rose_while_the_router_listened_served_once_it_had_the_time_to_ask() {
    let mut predecessor = PredecessorTracker::started(at(1000));
    predecessor.heard(tenth(), at(1290));
    assert_eq!(predecessor.at_takeover(PROBE, at(1290)), Predecessor::Recent);
    // What follows does not put it off.
    predecessor.heard(tenth(), at(1390));
    assert_eq!(predecessor.at_takeover(PROBE, at(1409)), Predecessor::Recent);
    assert_eq!(predecessor.at_takeover(PROBE, at(1410)), Predecessor::Established);
}

#[test]
fn a_preempted_peer_yields_within_an_interval_and_nobody_else_does() {
    let [peer, other] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
    let mut predecessor = PredecessorTracker::started(at(1000));
    assert!(!predecessor.yields(peer, at(2000)), "it was not Active");
    predecessor.took_over(Some(peer), tenth(), at(2000));
    assert!(predecessor.yields(peer, at(2000)) && predecessor.yields(peer, at(2100)));
    assert!(!predecessor.yields(peer, at(2101)), "it has heard this node and goes on, or does not hear it");
    assert!(!predecessor.yields(other, at(2000)), "another one was not preempted");
    // The next time it was silent.
    predecessor.took_over(None, tenth(), at(3000));
    assert!(!predecessor.yields(peer, at(3000)), "it is back");
}

#[test]
fn where_nobody_asks_any_peer_that_is_active_serves() {
    let mut predecessor = PredecessorTracker::started(at(1000));
    predecessor.heard(tenth(), at(1290));
    assert_eq!(predecessor.at_takeover(None, at(1290)), Predecessor::Established);
}
