use super::*;

const SHORT: Duration = Duration::from_secs(3);

fn binding(last: u8) -> Binding {
    Binding { interface: 2, address: IpAddr::from([192, 0, 2, last]) }
}

fn at(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

fn wanted(bindings: &[Binding]) -> BTreeSet<Binding> {
    bindings.iter().copied().collect()
}

#[test]
fn what_is_wanted_is_added_then_renewed_within_a_third_of_its_lifetime_and_removed_when_it_is_not() {
    let mut bindings = Bindings::default();
    let both = wanted(&[binding(1), binding(2)]);
    let ops = bindings.ops(&both, at(0));
    assert_eq!(ops, [AddressOp::Add(binding(1)), AddressOp::Add(binding(2))]);
    bindings.succeeded(&ops, SHORT, at(0));
    assert!(bindings.holds(&binding(1)) && bindings.holds(&binding(2)));
    assert_eq!(bindings.ops(&both, at(400)), []);
    let due = bindings.due(Time::default()).unwrap();
    assert!(due <= at(1000), "{due:?}");
    assert_eq!(bindings.ops(&both, due), [AddressOp::Renew(binding(1))]);
    assert_eq!(bindings.ops(&both, at(1000)), [AddressOp::Renew(binding(1)), AddressOp::Renew(binding(2))]);
    let one = wanted(&[binding(2)]);
    assert_eq!(bindings.ops(&one, at(400)), [AddressOp::Remove(binding(1))]);
    bindings.succeeded(&[AddressOp::Remove(binding(1))], SHORT, at(400));
    assert!(!bindings.holds(&binding(1)));
}

#[test]
fn a_refusal_is_told_once_and_tried_again_after_growing_pauses_while_others_go_on() {
    let mut bindings = Bindings::default();
    let both = wanted(&[binding(1), binding(2)]);
    assert!(bindings.refused(AddressOp::Add(binding(1)), at(0)), "the first is news");
    bindings.succeeded(&[AddressOp::Add(binding(2))], SHORT, at(0));
    assert_eq!(bindings.ops(&both, at(99)), []);
    assert_eq!(bindings.ops(&both, at(100)), [AddressOp::Add(binding(1))]);
    assert!(!bindings.refused(AddressOp::Add(binding(1)), at(100)), "the second is not");
    assert_eq!(bindings.ops(&wanted(&[binding(1)]), at(299)), [AddressOp::Remove(binding(2))]);
    assert!(bindings.ops(&both, at(300)).contains(&AddressOp::Add(binding(1))));
    bindings.forget(&wanted(&[]), at(0));
    assert!(bindings.refused(AddressOp::Add(binding(1)), at(400)), "forgotten with the wish");
}

#[test]
fn what_somebody_else_removed_is_bound_again_at_once_and_then_after_growing_pauses() {
    let mut bindings = Bindings::default();
    let one = wanted(&[binding(1)]);
    bindings.succeeded(&[AddressOp::Add(binding(1))], SHORT, at(0));
    assert!(!bindings.lost(binding(2), at(10)), "never ours");
    for (lost, bound) in [(10, 10), (20, 120), (130, 330)] {
        assert!(bindings.lost(binding(1), at(lost)));
        if bound > lost {
            assert_eq!(bindings.ops(&one, at(bound - 1)), []);
            assert_eq!(bindings.due(Time::default()), Some(at(bound)));
        }
        assert_eq!(bindings.ops(&one, at(bound)), [AddressOp::Add(binding(1))]);
        bindings.succeeded(&[AddressOp::Add(binding(1))], SHORT, at(bound));
    }
    let quiet = 330 + 30_001;
    assert!(bindings.lost(binding(1), at(quiet)));
    assert_eq!(bindings.ops(&one, at(quiet)), [AddressOp::Add(binding(1))], "left alone for long enough");
}

#[test]
fn what_is_removed_again_and_again_is_given_up_for_the_longer_pauses_wanted_or_not() {
    let mut bindings = Bindings::default();
    let mut now = 0;
    for pause in [0, 100, 200, 400, 800, 1600, 3200] {
        bindings.succeeded(&[AddressOp::Add(binding(1))], SHORT, at(now));
        assert!(bindings.lost(binding(1), at(now)));
        bindings.forget(&wanted(&[]), at(now));
        assert_eq!(bindings.is_given_up(&binding(1), at(now)), pause >= 1000, "for {pause} ms");
        now += pause;
        assert!(!bindings.is_given_up(&binding(1), at(now)), "after {pause} ms");
        assert_eq!(bindings.due(at(now)), None, "what is over is no cause to wake up");
    }
}

#[test]
fn what_became_somebody_elses_is_not_removed() {
    let mut bindings = Bindings::default();
    bindings.succeeded(&[AddressOp::Add(binding(1))], SHORT, at(0));
    bindings.release(&binding(1));
    assert_eq!(bindings.ops(&wanted(&[]), at(10)), []);
}

#[test]
fn many_addresses_live_longer_so_that_renewing_stays_cheap() {
    let v4 = |count: u32| {
        (0..count).map(|n| Binding { interface: 2, address: std::net::Ipv4Addr::from(n).into() })
    };
    let v6 = |count: u32| {
        (0..count).map(|n| Binding { interface: 2, address: std::net::Ipv6Addr::from(u128::from(n)).into() })
    };
    for (four, six, seconds) in [
        (0, 0, 3),
        (1, 1, 3),
        (1024, 256, 3),
        (1025, 0, 6),
        (10_000, 0, 30),
        (0, 257, 12),
        (10_000, 1000, 48),
        (0, 10_000, 600),
    ] {
        let bindings: Vec<Binding> = v4(four).chain(v6(six)).collect();
        assert_eq!(lifetime(&bindings), Duration::from_secs(seconds), "{four} of IPv4, {six} of IPv6");
    }
}

#[test]
fn what_would_expire_comes_before_what_is_new() {
    let mut bindings = Bindings::default();
    bindings.succeeded(&[AddressOp::Add(binding(1)), AddressOp::Add(binding(3))], SHORT, at(0));
    let ops = bindings.ops(&wanted(&[binding(2), binding(3)]), at(2000));
    assert_eq!(
        ops,
        [AddressOp::Remove(binding(1)), AddressOp::Renew(binding(3)), AddressOp::Add(binding(2))]
    );
}
