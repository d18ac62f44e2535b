use super::*;

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// By how much the wall clock is ahead, in milliseconds, unless it is set.
const AHEAD: u64 = 1_000_000;

fn seen(millis: u64) -> Clocks {
    set_by(0, millis)
}

/// The clocks after the wall clock was set by so much.
fn set_by(step: i64, millis: u64) -> Clocks {
    Clocks { now: at(millis), ahead: AHEAD.wrapping_add_signed(step).wrapping_mul(1_000_000) }
}

/// What the kernel writes on a packet that arrives at this time.
fn stamp(millis: u64) -> u64 {
    (AHEAD + millis) * 1_000_000
}

#[test]
fn a_queue_that_was_empty_is_known_until_the_last_look() {
    let mut backlog = Backlog::new(100, seen(0));
    assert_eq!(backlog.read_through(at(5)), at(5));
    backlog.emptied(seen(7));
    assert_eq!(backlog.read_through(at(7)), at(7));
    assert_eq!(backlog.read_through(at(9)), at(9));
}

#[test]
fn what_may_still_wait_is_not_known_however_often_one_looks() {
    let mut backlog = Backlog::new(100, seen(0));
    backlog.emptied(seen(1));
    backlog.read(40, seen(10));
    assert_eq!(backlog.read_through(at(20)), at(1));
    backlog.emptied(seen(21));
    assert_eq!(backlog.read_through(at(21)), at(21));
}

#[test]
fn under_a_flood_what_had_arrived_is_known_after_as_many_packets_as_fit() {
    let mut backlog = Backlog::new(100, seen(0));
    backlog.read(40, seen(10));
    backlog.read(40, seen(12));
    assert_eq!(backlog.read_through(at(14)), Time::default());
    backlog.read(40, seen(14));
    // The 100 packets that may have waited at 10 are read.
    assert_eq!(backlog.read_through(at(16)), at(10));
    backlog.read(60, seen(16));
    assert_eq!(backlog.read_through(at(18)), at(10));
    backlog.read(60, seen(18));
    assert_eq!(backlog.read_through(at(20)), at(14));
}

#[test]
fn all_that_arrived_before_the_packet_that_comes_next_is_known() {
    let mut backlog = Backlog::new(100, seen(0));
    backlog.emptied(seen(1));
    backlog.read(40, seen(10));
    backlog.next_is_of(stamp(7), seen(11));
    // Less what the order may be wrong by.
    assert_eq!(backlog.read_through(at(11)), at(6));
    backlog.read(40, seen(12));
    backlog.next_is_of(stamp(13), seen(13));
    assert_eq!(backlog.read_through(at(13)), at(12));
    // Out of order by more: what was known stays known, also when the count is over.
    backlog.next_is_of(stamp(8), seen(14));
    backlog.read(40, seen(15));
    assert_eq!(backlog.read_through(at(15)), at(12));
}

#[test]
fn stamps_are_not_believed_while_the_wall_clock_may_have_been_set_since_they_were_made() {
    for step in [-1_000_001, -500, -2, 2, 500] {
        let mut backlog = Backlog::new(100, seen(0));
        backlog.emptied(seen(1));
        backlog.read(50, seen(10));
        backlog.next_is_of(stamp(7), set_by(step, 11));
        assert_eq!(backlog.read_through(at(11)), at(1), "set by {step} ms");
        backlog.read(50, set_by(step, 12));
        backlog.read(60, set_by(step, 14));
        // These may have waited since before it was set.
        backlog.next_is_of(stamp(14), set_by(step, 15));
        assert_eq!(backlog.read_through(at(15)), at(10), "set by {step} ms");
        backlog.read(40, set_by(step, 16));
        let made_since = set_by(step, 15).ahead.wrapping_add(at(15).nanos());
        backlog.next_is_of(made_since, set_by(step, 16));
        assert_eq!(backlog.read_through(at(16)), at(14), "set by {step} ms");
    }
}

#[test]
fn a_stamp_of_the_future_is_not_believed() {
    let mut backlog = Backlog::new(100, seen(0));
    backlog.emptied(seen(12));
    backlog.read(40, seen(13));
    backlog.next_is_of(stamp(20), seen(14));
    assert_eq!(backlog.read_through(at(14)), at(12));
}
