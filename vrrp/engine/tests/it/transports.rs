//! Unicast, other groups, the virtual router MAC address.

use std::collections::BTreeSet;

use windlass_engine::{Family, Hold, RouterConfig, State, TransitionReason, Transport};

use crate::lab::{Capture, Lan, address, await_some, mac, require_root, router, router_v6, source};

fn unicast(config: RouterConfig) -> RouterConfig {
    RouterConfig { transport: Transport::Unicast { ttl: 255, accept_ttl: 255..=255 }, ..config }
}

fn grouped(group: &str, config: RouterConfig) -> RouterConfig {
    let group = Some(group.parse().unwrap());
    RouterConfig { transport: Transport::Multicast { group }, ..config }
}

#[test]
fn unicast_peers_elect_and_hand_over_and_nobody_else_is_told() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(4).with_link_local();
    let nodes: Vec<_> = lan.hosts[..3].iter().map(crate::lab::Host::engine).collect();
    for (n, node) in nodes.iter().enumerate() {
        node.engine.apply(vec![unicast(router(n, 3)), unicast(router_v6(n, 3))]);
    }
    let all_follow = |active: usize, others: &[usize]| {
        await_some("one Active that all know", || {
            let follows = |n: usize, state| {
                nodes[n].engine.snapshot().iter().all(|status| {
                    let expected = match status.key.family {
                        Family::V4 => source(active),
                        Family::V6 => crate::lab::address_v6(active).into(),
                    };
                    status.state == state && status.active == Some(expected)
                })
            };
            (follows(active, State::Active) && others.iter().all(|n| follows(*n, State::Backup)))
                .then_some(())
        });
    };
    all_follow(0, &[1, 2]);
    let capture = Capture::on(&lan.hosts[1]);
    let frame = capture.await_frame("advert", |frame| {
        (frame.get(23) == Some(&112) && frame[26..30] == address(0).octets()).then(|| frame.to_vec())
    });
    assert_eq!(frame[..6], mac(&lan.hosts[1])[..]);
    assert_eq!(frame[30..34], address(1).octets());
    lan.pull_cable(0);
    all_follow(1, &[2]);
}

#[test]
fn a_unicast_router_does_not_obey_multicast_nor_the_inverse() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    first.engine.apply(vec![router(0, 2)]);
    second.engine.apply(vec![unicast(router(1, 2))]);
    first.await_status("Active", |status| status.state == State::Active);
    second.await_status("Active", |status| status.state == State::Active);
    for node in [&first, &second] {
        await_some("refusal by destination", || {
            node.engine.links().into_iter().find(|l| l.rejected.get("destination").is_some_and(|n| *n > 0))
        });
        assert_eq!(node.status().counters.adverts_received, 0);
    }
}

#[test]
fn another_group_is_a_realm_of_its_own() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3).with_link_local();
    let nodes: Vec<_> = lan.hosts.iter().map(crate::lab::Host::engine).collect();
    // The first two in groups of their own, the third with the same VRID in the default ones.
    for (n, node) in nodes.iter().enumerate().take(2) {
        node.engine.apply(vec![grouped("224.0.0.181", router(n, 3)), grouped("ff02::1812", router_v6(n, 3))]);
    }
    nodes[2].engine.apply(vec![router(2, 3), router_v6(2, 3)]);
    await_some("two realms", || {
        let states = |n: usize| nodes[n].engine.snapshot().iter().map(|s| s.state).collect::<Vec<_>>();
        let heard = nodes[1].engine.snapshot().iter().all(|s| s.active.is_some());
        (heard
            && states(0) == [State::Active; 2]
            && states(1) == [State::Backup; 2]
            && states(2) == [State::Active; 2])
            .then_some(())
    });
    // Taken back to the default group, the router gives way to a better one there.
    nodes[0].engine.apply(vec![router(0, 3)]);
    await_some("one realm in IPv4", || {
        let third = nodes[2].engine.snapshot();
        (third[0].state == State::Backup && third[0].active == Some(source(0))).then_some(())
    });
}

#[test]
fn a_resignation_by_unicast_reaches_every_peer() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (first, second) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    first.engine.apply(vec![unicast(router(0, 2))]);
    second.engine.apply(vec![unicast(router(1, 2))]);
    second.await_status("Backup", |status| status.active == Some(source(0)));
    second.forget_events();
    first.engine.shutdown();
    assert_eq!(second.await_state(State::Active), TransitionReason::ActiveResigned);
}

// shows: rfc9568 T19
#[test]
fn with_the_virtual_mac_adverts_come_from_it_in_both_families() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let node = lan.hosts[0].engine();
    let capture = Capture::on(&lan.hosts[1]);
    let vmac = |config| RouterConfig { hold: Hold::Vmac, addresses: BTreeSet::new(), ..config };
    node.engine.apply(vec![vmac(router(0, 1)), vmac(router_v6(0, 1))]);
    let v4 = capture.await_frame("IPv4 advert", |frame| {
        (frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&112)).then(|| frame.to_vec())
    });
    assert_eq!(v4[..12], [0x01, 0, 0x5e, 0, 0, 0x12, 0, 0, 0x5e, 0, 1, 7]);
    let v6 = capture.await_frame("IPv6 advert", |frame| {
        (frame.get(12..14) == Some(&[0x86, 0xdd]) && frame.get(20) == Some(&112)).then(|| frame.to_vec())
    });
    assert_eq!(v6[..12], [0x33, 0x33, 0, 0, 0, 0x12, 0, 0, 0x5e, 0, 2, 7]);
}

/// Of 255 addresses an advert over an MTU of 1000 would be cut into fragments: one stands for all.
#[test]
fn a_list_that_does_not_fit_the_mtu_is_represented_by_one_address() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    lan.hosts[0].ip("link set eth0 mtu 1000");
    let node = lan.hosts[0].engine();
    let capture = Capture::on(&lan.hosts[1]);
    let addresses = (0..255).map(|n| std::net::Ipv4Addr::from(0xc612_0000 + n).into()).collect();
    node.engine.apply(vec![RouterConfig { addresses, ..router(0, 1) }]);
    let count = |expected: u8| {
        capture.await_frame(&format!("advert of {expected} addresses"), |frame| {
            (frame.get(23) == Some(&112) && frame[37] == expected).then_some(())
        });
    };
    count(1);
    lan.hosts[0].ip("link set eth0 mtu 1500");
    count(255);
}
