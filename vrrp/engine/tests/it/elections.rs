//! Who becomes Active, and how fast it is replaced.

use windlass_engine::{Interval, RouterConfig, State, TransitionReason};

use crate::lab::{Capture, Host, Lan, Node, require_root, router};

/// The engines of the LAN's two hosts, once the first is Active and the second hears it.
fn active_and_backup(lan: &Lan) -> (Node, Node) {
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    first.engine.apply(vec![router(0, 2)]);
    second.engine.apply(vec![router(1, 2)]);
    first.await_status("Active", |status| status.state == State::Active);
    second.await_status("Backup that hears it", |status| status.active == Some(crate::lab::source(0)));
    // On a busy machine the second may have been Active for a moment; that is over.
    second.forget_events();
    (first, second)
}

// shows: rfc9568 T21
#[test]
fn of_two_routers_the_higher_priority_is_active_and_the_other_takes_over_when_its_cable_is_pulled() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let nodes: Vec<_> = lan.hosts.iter().map(Host::engine).collect();
    for (n, node) in nodes.iter().enumerate() {
        node.engine.apply(vec![router(n, 2)]);
        assert_eq!(node.await_state(State::Backup), TransitionReason::Startup);
    }
    nodes[0].await_state(State::Active);
    nodes[1].await_status("Backup that knows the Active", |status| {
        status.state == State::Backup && status.active == Some(crate::lab::source(0))
    });
    // On a busy machine the second may have been Active for a moment; that is over.
    nodes[1].forget_events();

    lan.pull_cable(0);
    assert_eq!(nodes[1].await_state(State::Active), TransitionReason::ActiveSilent);
    let error = nodes[0].await_failure();
    assert_eq!(error, "interface eth0 has no carrier: check its cable or peer");
    nodes[0].await_status("router in Initialize", |status| status.state == State::Initialize);

    lan.plug_cable(0);
    assert_eq!(nodes[0].await_state(State::Active), TransitionReason::Preempted);
    assert!(matches!(nodes[1].await_state(State::Backup), TransitionReason::SuperiorActive { .. }));
    assert_eq!(nodes[0].status().error, None);
}

/// The one that is preempted says once more that it is Active, as it yields. That is no second Active, of which admins are told.
#[test]
fn a_router_that_preempts_counts_no_contention_for_the_last_advert_of_the_one_before() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let slow = |host| RouterConfig { interval: Interval::from_millis(1000).unwrap(), ..router(host, 2) };
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    second.engine.apply(vec![slow(1)]);
    second.await_status("Active", |status| status.state == State::Active);
    first.engine.apply(vec![slow(0)]);
    assert_eq!(first.await_state(State::Active), TransitionReason::Preempted);
    let before = first.status().counters;
    second.await_status("Backup that hears the other", |status| {
        status.state == State::Backup && status.active == Some(crate::lab::source(0))
    });
    first.await_status("that has heard it yield, or had before", |status| {
        status.counters.adverts_sent > before.adverts_sent + 1
    });
    let after = first.status().counters;
    assert_eq!(after.contentions, 0, "of {} adverts received", after.adverts_received);
}

#[test]
fn of_three_routers_exactly_one_is_active_before_and_after_a_failure() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let nodes: Vec<_> = lan.hosts.iter().map(Host::engine).collect();
    for (n, node) in nodes.iter().enumerate() {
        node.engine.apply(vec![router(n, 3)]);
    }
    let await_active = |active: usize, backups: &[usize]| {
        nodes[active].await_status("Active", |status| status.state == State::Active);
        for backup in backups {
            nodes[*backup].await_status("Backup", |status| {
                status.state == State::Backup && status.active == Some(crate::lab::source(active))
            });
        }
    };
    await_active(0, &[1, 2]);
    lan.pull_cable(0);
    await_active(1, &[2]);
}

/// At 20 s the down timer is a minute: only the resignation explains a takeover within the limit. On the way there the longer
/// interval, told at once, must not look like silence.
#[test]
fn a_router_that_is_taken_away_hands_over_at_once() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (first, second) = active_and_backup(&lan);

    let slower = |n| RouterConfig { interval: Interval::from_millis(20_000).unwrap(), ..router(n, 2) };
    let heard = second.status().counters.adverts_received;
    first.engine.apply(vec![slower(0)]);
    second.await_status("advert that tells the new interval", |s| s.counters.interval_mismatches > 0);
    assert!(second.status().counters.adverts_received > heard);
    first.engine.apply(Vec::new());
    assert_eq!(second.await_state(State::Active), TransitionReason::ActiveResigned);
    assert!(first.engine.snapshot().is_empty());
    assert_eq!(second.status().counters.resignations_received, 1);
}

// shows: placement P-10
#[test]
fn shutting_the_engine_down_resigns() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (first, second) = active_and_backup(&lan);
    first.engine.shutdown();
    second.await_status("resignation", |status| status.counters.resignations_received == 1);
    second.await_status("Active", |status| status.state == State::Active);
}

// shows: rfc9568 T20
/// A golden vector of `windlass-vrrp`, seen by another host on the wire.
#[test]
fn an_advert_on_the_wire_is_the_golden_vector() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    lan.hosts[0].ip("addr add 198.51.100.10/24 dev eth0");
    let node = lan.hosts[0].engine();
    let capture = Capture::on(&lan.hosts[1]);
    node.engine.apply(vec![RouterConfig {
        vrid: windlass_engine::Vrid::new(51).unwrap(),
        priority: windlass_engine::Priority::new(200).unwrap(),
        interval: Interval::from_millis(1000).unwrap(),
        source: "198.51.100.10".parse().unwrap(),
        addresses: ["192.0.2.100".parse().unwrap()].into(),
        ..router(0, 1)
    }]);
    let frame = capture.await_frame("advert", |frame| (frame.get(23) == Some(&112)).then(|| frame.to_vec()));
    assert_eq!(frame[..6], [0x01, 0, 0x5e, 0, 0, 0x12], "destination");
    assert_eq!(frame[6..12], crate::lab::mac(&lan.hosts[0])[..], "source");
    assert_eq!(frame[14..18], [0x45, 0xc0, 0, 32], "version, class CS6, length");
    assert_eq!(frame[22], 255, "TTL");
    assert_eq!(frame[26..34], [198, 51, 100, 10, 224, 0, 0, 18]);
    let golden = [0x31, 0x33, 0xc8, 0x01, 0x00, 0x64, 0x44, 0x02, 0xc0, 0x00, 0x02, 0x64];
    assert_eq!(frame[34..46], golden, "{:02x?}", &frame[34..46]);
}
