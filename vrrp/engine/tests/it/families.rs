//! Virtual routers for IPv6, alone and beside those for IPv4.

use windlass_engine::{Family, RouterConfig, State, TransitionReason};

use crate::lab::{Capture, Lan, address, address_v6, await_some, mac, require_root, router, router_v6};

#[test]
fn in_ipv6_the_higher_priority_is_active_and_the_other_takes_over() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    first.engine.apply(vec![router_v6(0, 2)]);
    second.engine.apply(vec![router_v6(1, 2)]);
    first.await_status("Active", |status| status.state == State::Active);
    second.await_status("Backup", |status| status.active == Some(address_v6(0).into()));
    second.forget_events();
    lan.pull_cable(0);
    assert_eq!(second.await_state(State::Active), TransitionReason::ActiveSilent);
    lan.plug_cable(0);
    first.await_status("Active again", |status| status.state == State::Active);
    second.await_status("Backup again", |status| status.active == Some(address_v6(0).into()));
    second.forget_events();
    first.engine.apply(Vec::new());
    assert_eq!(second.await_state(State::Active), TransitionReason::ActiveResigned);
    assert_eq!(second.status().counters.missing_link_local, 0);
}

// shows: rfc9568 T20
/// A golden vector of `windlass-vrrp`, seen by another host on the wire.
#[test]
fn an_ipv6_advert_on_the_wire_is_the_golden_vector() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    lan.hosts[0].ip("addr add fe80::10/64 dev eth0 nodad");
    let node = lan.hosts[0].engine();
    let capture = Capture::on(&lan.hosts[1]);
    node.engine.apply(vec![RouterConfig {
        vrid: windlass_engine::Vrid::new(51).unwrap(),
        priority: windlass_engine::Priority::new(200).unwrap(),
        interval: windlass_engine::Interval::from_millis(1000).unwrap(),
        source: "fe80::10".parse().unwrap(),
        addresses: ["fe80::100".parse().unwrap(), "2001:db8::100".parse().unwrap()].into(),
        ..router_v6(0, 1)
    }]);
    let frame = capture.await_frame("advert", |frame| {
        (frame.get(12..14) == Some(&[0x86, 0xdd]) && frame.get(20) == Some(&112)).then(|| frame.to_vec())
    });
    assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 0x12], "destination");
    assert_eq!(frame[6..12], mac(&lan.hosts[0])[..], "source");
    assert_eq!(frame[14..16], [0x6c, 0x00], "version and class CS6");
    assert_eq!(frame[21], 255, "hop limit");
    let ends = ["fe80::10", "ff02::12"].map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().octets());
    assert_eq!(frame[22..54], ends.concat()[..]);
    assert_eq!(frame[54..62], [0x31, 51, 200, 2, 0, 100, 0xd9, 0xed], "message with its checksum");
}

#[test]
fn one_vrid_is_two_routers_one_for_each_family_that_do_not_disturb_each_other() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    // Each host has the higher priority in one family.
    let swapped = |host: usize| RouterConfig { priority: router(1 - host, 2).priority, ..router_v6(host, 2) };
    first.engine.apply(vec![router(0, 2), swapped(0)]);
    second.engine.apply(vec![router(1, 2), swapped(1)]);
    await_some("one Active each", || {
        let all = [first.engine.snapshot(), second.engine.snapshot()].concat();
        let active = |family| {
            let of_family = all.iter().filter(|status| status.key.family == family);
            of_family.map(|status| (status.state, status.active)).collect::<Vec<_>>()
        };
        let (v4, v6) = (Some(address(0).into()), Some(address_v6(1).into()));
        (active(Family::V4) == [(State::Active, v4), (State::Backup, v4)]
            && active(Family::V6) == [(State::Backup, v6), (State::Active, v6)])
        .then_some(())
    });
}

// shows: rfc9568 T20
#[test]
fn an_ipv6_source_that_is_not_link_local_fails_with_the_remedy_and_the_other_routers_run() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    lan.hosts[0].ip("addr add 2001:db8::1/64 dev eth0 nodad");
    let node = lan.hosts[0].engine();
    let unfit = RouterConfig { source: "2001:db8::1".parse().unwrap(), peers: [].into(), ..router_v6(0, 1) };
    node.engine.apply(vec![unfit, router(0, 1)]);
    let error = node.await_failure();
    assert!(error.contains("is not link-local"), "{error}");
    node.await_state(State::Active);
}
