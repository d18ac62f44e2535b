use super::*;

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// Numbers that look like chance and are the same each time.
fn chance() -> impl FnMut(u64) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn the_earliest_comes_first_and_a_stopped_timer_not_at_all() {
    let mut deadlines = Deadlines::new();
    assert_eq!(deadlines.first(), None);
    let [a, b, c] = ["a", "b", "c"].map(|key| deadlines.add(key));
    deadlines.set(a, Some(at(30)));
    deadlines.set(b, Some(at(10)));
    deadlines.set(c, Some(at(20)));
    assert_eq!(deadlines.first(), Some((at(10), "b")));
    deadlines.set(b, Some(at(40)));
    assert_eq!(deadlines.first(), Some((at(20), "c")));
    deadlines.set(c, None);
    assert_eq!(deadlines.first(), Some((at(30), "a")));
    deadlines.remove(a);
    assert_eq!(deadlines.first(), Some((at(40), "b")));
    let d = deadlines.add("d");
    assert_eq!(d, a, "a slot is used again");
    deadlines.set(d, Some(at(5)));
    assert_eq!(deadlines.first(), Some((at(5), "d")));
}

#[test]
fn after_any_history_the_first_is_the_one_a_plain_search_finds() {
    let mut random = chance();
    let mut deadlines = Deadlines::new();
    let mut plain: Vec<(TimerId, Option<Time>)> = (0..200).map(|key| (deadlines.add(key), None)).collect();
    for _ in 0..20_000 {
        let key = usize::try_from(random(200)).unwrap();
        let due = (random(4) > 0).then(|| at(random(1000)));
        plain[key].1 = due;
        deadlines.set(plain[key].0, due);
        let earliest = plain.iter().filter_map(|(_, due)| *due).min();
        assert_eq!(deadlines.first().map(|(due, _)| due), earliest);
        if let Some((due, key)) = deadlines.first() {
            assert_eq!(plain[key].1, Some(due));
        }
    }
}

#[test]
fn setting_timers_again_and_again_leaves_one_entry_each() {
    let mut deadlines = Deadlines::new();
    let slots: Vec<TimerId> = (0..10).map(|key| deadlines.add(key)).collect();
    let room = deadlines.heap.capacity();
    for round in 0..10_000 {
        for timer_id in &slots {
            deadlines.set(*timer_id, Some(at(round)));
        }
    }
    assert_eq!(deadlines.heap.len(), 10);
    assert_eq!(deadlines.heap.capacity(), room);
}
