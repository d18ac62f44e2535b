use super::*;

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn addresses(count: u32) -> Arc<[Ipv4Addr]> {
    (0..count).map(|n| Ipv4Addr::from(0xcb00_7100 + n)).collect()
}

type Plan = Schedule<&'static str, &'static str>;

/// Everything sent up to `until`, as (milliseconds, router, addresses), taken each time the schedule says.
fn run(plan: &mut Plan, from: u64, until: u64) -> Vec<(u64, &'static str, usize)> {
    let (mut now, mut sent) = (at(from), Vec::new());
    loop {
        match plan.next(now) {
            Next::Send(via, batch) => sent.push((now.nanos() / 1_000_000, via, batch.len())),
            Next::Wait(due) if due <= at(until) => now = due,
            Next::Wait(_) | Next::Idle => return sent,
        }
    }
}

#[test]
fn a_takeover_is_announced_at_once_then_repeated_then_refreshed_each_minute() {
    let mut plan = Plan::new();
    plan.takeover("a", "a", addresses(2), at(0));
    let sent = run(&mut plan, 0, 130_000);
    assert_eq!(sent, [0, 200, 1000, 5000, 65_000, 125_000].map(|millis| (millis, "a", 2)));
}

#[test]
fn the_newest_takeover_goes_first_and_repeats_wait_for_first_bursts() {
    let mut plan = Plan::new();
    plan.takeover("old", "old", addresses(100), at(0));
    assert!(matches!(plan.next(at(0)), Next::Send("old", batch) if batch.len() == BATCH));
    plan.takeover("new", "new", addresses(40), at(1));
    let order: Vec<_> = run(&mut plan, 1, 100).into_iter().map(|(_, via, count)| (via, count)).collect();
    assert_eq!(order, [("new", 32), ("new", 8), ("old", 32), ("old", 32), ("old", 4)]);
    plan.takeover("third", "third", addresses(1), at(200));
    assert!(matches!(plan.next(at(200)), Next::Send("third", _)));
}

#[test]
fn a_withdrawn_router_is_not_announced_any_more_even_within_a_burst() {
    let mut plan = Plan::new();
    plan.takeover("a", "a", addresses(100), at(0));
    assert!(matches!(plan.next(at(0)), Next::Send("a", _)));
    plan.withdraw(&"a");
    assert_eq!(plan.next(at(0)), Next::Idle);
}

#[test]
fn contention_is_announced_at_once_but_not_in_a_storm() {
    let mut plan = Plan::new();
    plan.takeover("a", "a", addresses(1), at(0));
    run(&mut plan, 0, 10_000);
    // A peer that does not hear us contests every 10 ms for a second.
    let mut sent = 0;
    for millis in (20_000..21_000).step_by(10) {
        plan.contention(&"a", at(millis));
        while let Next::Send(..) = plan.next(at(millis)) {
            sent += 1;
        }
    }
    assert!((1..=8).contains(&sent), "{sent} bursts");
    plan.contention(&"a", at(30_000));
    assert_eq!(plan.next(at(30_000)), Next::Send("a", addresses(1).to_vec()));
}

#[test]
fn added_addresses_are_announced_alone_and_refreshed_with_the_others() {
    let mut plan = Plan::new();
    plan.takeover("a", "a", addresses(1), at(0));
    run(&mut plan, 0, 6_000);
    let all = addresses(2);
    plan.update(&"a", &all, &[all[1]].into(), at(7_000));
    let sent = run(&mut plan, 7_000, 70_000);
    let alone = [7_000, 7_200, 8_000, 12_000].map(|millis| (millis, "a", 1));
    assert_eq!(sent, [&alone[..], &[(65_000, "a", 2)]].concat());
}

#[test]
fn removed_addresses_are_not_announced_any_more() {
    let mut plan = Plan::new();
    let three = addresses(3);
    plan.takeover("a", "a", addresses(1), at(0));
    plan.update(&"a", &three, &[three[1], three[2]].into(), at(0));
    plan.update(&"a", &addresses(2), &BTreeSet::new(), at(1));
    while let Next::Send(_, batch) = plan.next(at(1)) {
        assert!(!batch.contains(&three[2]));
    }
}

#[test]
fn a_router_without_addresses_sends_nothing_and_does_not_spin() {
    let mut plan = Plan::new();
    plan.takeover("a", "a", addresses(0), at(0));
    assert!(run(&mut plan, 0, 10_000).iter().all(|(_, _, count)| *count == 0));
    assert_eq!(plan.next(at(10_000)), Next::Wait(at(65_000)));
}
