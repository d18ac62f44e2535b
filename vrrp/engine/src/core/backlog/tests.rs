use super::*;

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

#[test]
fn a_queue_that_was_empty_is_known_until_the_last_look() {
    let mut backlog = Backlog::new(100);
    assert_eq!(backlog.read_through(at(5)), at(5));
    backlog.emptied(at(7));
    assert_eq!(backlog.read_through(at(7)), at(7));
    assert_eq!(backlog.read_through(at(9)), at(9));
}

#[test]
fn what_may_still_wait_is_not_known_however_often_one_looks() {
    let mut backlog = Backlog::new(100);
    backlog.emptied(at(1));
    backlog.read(40, at(10));
    assert_eq!(backlog.read_through(at(20)), at(1));
    backlog.emptied(at(21));
    assert_eq!(backlog.read_through(at(21)), at(21));
}

#[test]
fn under_a_flood_what_had_arrived_is_known_after_as_many_packets_as_fit() {
    let mut backlog = Backlog::new(100);
    backlog.read(40, at(10));
    backlog.read(40, at(12));
    assert_eq!(backlog.read_through(at(14)), Time::default());
    backlog.read(40, at(14));
    // The 100 packets that may have waited at 10 are read.
    assert_eq!(backlog.read_through(at(16)), at(10));
    backlog.read(60, at(16));
    assert_eq!(backlog.read_through(at(18)), at(10));
    backlog.read(60, at(18));
    assert_eq!(backlog.read_through(at(20)), at(14));
}
