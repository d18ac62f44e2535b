use std::net::Ipv4Addr;

use super::*;

const LIMIT: usize = 32;

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn addresses(count: u32) -> Arc<[IpAddr]> {
    (0..count).map(|n| Ipv4Addr::from(0xcb00_7100 + n).into()).collect()
}

type Plan = Schedule<&'static str>;

/// One turn, sent whole: the router and how many frames.
fn batch(plan: &mut Plan, now: Time) -> Option<(&'static str, usize)> {
    let batch = plan.next(now, LIMIT)?;
    plan.sent(&batch, batch.frames.len(), now);
    Some((batch.router, batch.frames.len()))
}

/// Everything sent up to `until`, as (milliseconds, router, frames), taken each time the schedule says.
fn run(plan: &mut Plan, from: u64, until: u64) -> Vec<(u64, &'static str, usize)> {
    let (mut now, mut sent) = (at(from), Vec::new());
    loop {
        if let Some((router, frames)) = batch(plan, now) {
            sent.push((now.nanos() / 1_000_000, router, frames));
        } else {
            match plan.deadline() {
                Some(due) if due <= at(until) => now = due,
                Some(_) | None => return sent,
            }
        }
    }
}

// shows: allocation 119; field-reports F-09
#[test]
fn a_takeover_is_announced_at_once_then_repeated_then_refreshed_each_minute() {
    let mut plan = Plan::new();
    plan.takeover("a", addresses(2), 2, at(0));
    let sent = run(&mut plan, 0, 130_000);
    assert_eq!(sent, [0, 200, 1000, 5000, 65_000, 125_000].map(|millis| (millis, "a", 4)));
}

#[test]
fn every_address_is_announced_in_its_first_form_before_any_in_its_second() {
    let mut plan = Plan::new();
    let all = addresses(40);
    plan.takeover("a", Arc::clone(&all), 2, at(0));
    let mut frames = Vec::new();
    while let Some(batch) = plan.next(at(0), LIMIT) {
        plan.sent(&batch, batch.frames.len(), at(0));
        frames.extend(batch.frames);
    }
    let wanted: Vec<_> = (0..2).flat_map(|form| all.iter().map(move |address| (*address, form))).collect();
    assert_eq!(frames, wanted);
}

#[test]
fn the_newest_takeover_goes_first_and_repeats_wait_for_first_bursts() {
    let mut plan = Plan::new();
    plan.takeover("old", addresses(100), 1, at(0));
    assert_eq!(batch(&mut plan, at(0)), Some(("old", 32)));
    plan.takeover("new", addresses(40), 1, at(1));
    let order: Vec<_> =
        run(&mut plan, 1, 100).into_iter().map(|(_, router, count)| (router, count)).collect();
    assert_eq!(order, [("new", 32), ("new", 8), ("old", 32), ("old", 32), ("old", 4)]);
    plan.takeover("third", addresses(1), 1, at(250));
    assert_eq!(batch(&mut plan, at(250)), Some(("third", 1)));
}

// shows: allocation 100
#[test]
fn a_withdrawn_router_is_not_announced_any_more_even_within_a_burst() {
    let mut plan = Plan::new();
    plan.takeover("a", addresses(100), 1, at(0));
    assert_eq!(batch(&mut plan, at(0)), Some(("a", 32)));
    plan.withdraw("a");
    assert_eq!(batch(&mut plan, at(0)), None);
    assert_eq!(plan.deadline(), None);
}

#[test]
fn contention_is_announced_at_once_but_not_in_a_storm() {
    let mut plan = Plan::new();
    plan.takeover("a", addresses(1), 1, at(0));
    run(&mut plan, 0, 10_000);
    // A peer that does not hear us contests every 10 ms for a second.
    let mut sent = 0;
    for millis in (20_000..21_000).step_by(10) {
        plan.contention("a", at(millis));
        while batch(&mut plan, at(millis)).is_some() {
            sent += 1;
        }
    }
    assert!((1..=8).contains(&sent), "{sent} bursts");
    plan.contention("a", at(30_000));
    assert_eq!(batch(&mut plan, at(30_000)), Some(("a", 1)));
}

#[test]
fn contention_does_not_keep_a_long_burst_from_its_end() {
    let mut plan = Plan::new();
    plan.takeover("a", addresses(320), 1, at(0));
    let mut seen = BTreeSet::new();
    for second in 0..10 {
        let batch = plan.next(at(second * 1500), LIMIT).unwrap();
        plan.sent(&batch, batch.frames.len(), at(second * 1500));
        seen.extend(batch.frames);
        plan.contention("a", at(second * 1500));
    }
    assert_eq!(seen.len(), 320);
}

#[test]
fn added_addresses_are_announced_alone_and_refreshed_with_the_others() {
    let mut plan = Plan::new();
    plan.takeover("a", addresses(1), 1, at(0));
    run(&mut plan, 0, 6_000);
    let all = addresses(2);
    plan.update("a", &all, vec![all[1]], at(7_000));
    let sent = run(&mut plan, 7_000, 70_000);
    let alone = [7_000, 7_200, 8_000, 12_000].map(|millis| (millis, "a", 1));
    assert_eq!(sent, [&alone[..], &[(65_000, "a", 2)]].concat());
}

#[test]
fn removed_addresses_are_not_announced_any_more() {
    let mut plan = Plan::new();
    let three = addresses(3);
    plan.takeover("a", addresses(1), 1, at(0));
    plan.update("a", &three, vec![three[1], three[2]], at(0));
    plan.update("a", &addresses(2), Vec::new(), at(1));
    while let Some(batch) = plan.next(at(1), LIMIT) {
        assert!(batch.frames.iter().all(|(address, _)| *address != three[2]));
        plan.sent(&batch, batch.frames.len(), at(1));
    }
}

#[test]
fn what_the_kernel_had_no_room_for_is_sent_later_and_others_go_on() {
    let mut plan = Plan::new();
    plan.takeover("other", addresses(1), 1, at(0));
    plan.takeover("stuck", addresses(40), 1, at(1));
    let first = plan.next(at(1), LIMIT).unwrap();
    assert_eq!(first.router, "stuck");
    plan.sent(&first, 10, at(1));
    plan.postpone(&first, at(11));
    assert_eq!(batch(&mut plan, at(1)), Some(("other", 1)));
    assert_eq!(batch(&mut plan, at(1)), None);
    let rest = plan.next(at(11), LIMIT).unwrap();
    assert_eq!((rest.router, rest.frames[0]), ("stuck", (addresses(40)[10], 0)));
}

#[test]
fn a_defence_is_one_burst_of_one_address() {
    let mut plan = Plan::new();
    let all = addresses(3);
    plan.takeover("a", Arc::clone(&all), 2, at(0));
    run(&mut plan, 0, 10_000);
    plan.defend("a", all[1], at(11_000));
    let batch = plan.next(at(11_000), LIMIT).unwrap();
    assert_eq!(batch.frames, [(all[1], 0), (all[1], 1)]);
    plan.sent(&batch, 2, at(11_000));
    assert_eq!(run(&mut plan, 11_000, 65_000), [(65_000, "a", 6)]);
    plan.defend("not active", all[0], at(66_000));
    assert_eq!(plan.next(at(66_000), LIMIT), None);
}

#[test]
fn a_router_without_addresses_sends_nothing_and_does_not_spin() {
    let mut plan = Plan::new();
    plan.takeover("a", addresses(0), 2, at(0));
    assert!(run(&mut plan, 0, 10_000).iter().all(|(_, _, count)| *count == 0));
    assert_eq!(plan.deadline(), Some(at(65_000)));
}

#[test]
fn a_thousand_routers_have_their_turn_newest_first() {
    let mut plan = Schedule::new();
    for router in 0..1000_u32 {
        plan.takeover(router, addresses(1), 1, at(u64::from(router)));
    }
    let mut order = Vec::new();
    while let Some(batch) = plan.next(at(1000), LIMIT) {
        plan.sent(&batch, 1, at(1000));
        if order.len() < 1000 {
            order.push(batch.router);
        }
    }
    assert!(order.windows(2).all(|pair| pair[0] > pair[1]));
}
