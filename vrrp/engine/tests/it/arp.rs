//! Who answers for a VIP.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};

use windlass_engine::{Event, RouterConfig, State, Vrid};

use crate::lab::{Capture, Host, Lan, VIP, arp_about, mac, require_root, router};

/// Makes the host's kernel ask who has the VIP.
fn ask_for_vip(host: &Host) {
    host.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // Port 9, discard: what matters is the ARP request before it.
        socket.send_to(b"x", (VIP, 9)).unwrap();
    });
}

#[test]
fn only_the_active_answers_for_a_vip_that_no_interface_has() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let nodes = [lan.hosts[0].engine(), lan.hosts[1].engine()];
    for (n, node) in nodes.iter().enumerate() {
        node.engine.apply(vec![router(n, 2)]);
    }
    nodes[0].await_status("Active", |status| status.state == State::Active);
    nodes[1].await_status("Backup", |status| status.active == Some(crate::lab::source(0)));
    let client = &lan.hosts[2];
    for _ in 0..3 {
        let capture = Capture::on(client);
        client.ip("neigh flush dev eth0");
        ask_for_vip(client);
        let (to, at) = capture.await_frame("ARP reply", |frame| {
            arp_about(VIP, 2)(frame).filter(|(destination, _)| destination[0] != 0xff)
        });
        assert_eq!((to, at), (mac(client), mac(&lan.hosts[0])));
    }
    assert!(nodes[0].status().counters.replies >= 3);
    assert_eq!(nodes[1].status().counters.replies, 0);
    let bound = lan.hosts[0].run(|| windlass_engine::Engine::interfaces().unwrap());
    assert!(!bound[0].ipv4.iter().any(|(address, _)| *address == VIP), "{bound:?}");
}

#[test]
fn a_takeover_is_broadcast_as_arp_request_and_as_reply() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let capture = Capture::on(&lan.hosts[1]);
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router(0, 1)]);
    for operation in [1, 2] {
        let (to, at) = capture.await_frame("gratuitous ARP", arp_about(VIP, operation));
        assert_eq!((to, at), (vec![0xff; 6], mac(&lan.hosts[0])), "operation {operation}");
    }
}

#[test]
fn a_vip_added_to_an_active_is_announced_and_a_removed_one_is_not_answered() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let second: Ipv4Addr = "192.0.2.51".parse().unwrap();
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router(0, 1)]);
    node.await_state(State::Active);
    let capture = Capture::on(&lan.hosts[1]);
    node.engine.apply(vec![RouterConfig { addresses: [second.into()].into(), ..router(0, 1) }]);
    let (_, at) = capture.await_frame("gratuitous ARP for the new VIP", arp_about(second, 1));
    assert_eq!(at, mac(&lan.hosts[0]));
    assert_eq!(node.status().state, State::Active);
    assert_eq!(node.status().counters.became_active, 1);

    // Both are asked for; the one that is left is answered, so the other was heard and passed over.
    let before = node.status().counters.replies;
    ask_for_vip(&lan.hosts[1]);
    lan.hosts[1].run(move || UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", (second, 9)).unwrap());
    node.await_status("ARP reply", |status| status.counters.replies > before);
    assert_eq!(node.status().counters.replies, before + 1);
}

#[test]
fn another_station_that_claims_a_vip_is_reported() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router(0, 1)]);
    node.await_state(State::Active);
    // A foreign router of another VRID with the same address: it announces it in its own name.
    let thief = lan.hosts[1].engine();
    thief.engine.apply(vec![RouterConfig {
        vrid: Vrid::new(8).unwrap(),
        source: crate::lab::source(1),
        ..router(0, 1)
    }]);
    let (address, claimant) = node.await_event("conflict", |event| match event {
        Event::AddressConflict { address, mac, .. } => Some((*address, mac.to_vec())),
        _ => None,
    });
    assert_eq!((address, claimant), (VIP.into(), mac(&lan.hosts[1])));
}

/// Scenario 94 of vrrp.md: announcing must not keep adverts waiting, nor must a list that does not fit an advert matter.
#[test]
fn thousands_of_vips_are_all_announced_and_no_advert_is_late_for_it() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let vips: BTreeSet<Ipv4Addr> = (0..3000).map(|n| Ipv4Addr::from(0xc612_0000 + n)).collect();
    let many = |n| RouterConfig { addresses: vips.iter().copied().map(Into::into).collect(), ..router(n, 2) };
    let capture = Capture::on(&lan.hosts[1]);
    let backup = lan.hosts[1].engine();
    let active = lan.hosts[0].engine();
    active.engine.apply(vec![many(0)]);
    backup.engine.apply(vec![many(1)]);
    let mut missing = vips.clone();
    while !missing.is_empty() {
        let announced = capture.await_frame("gratuitous ARP for every VIP", |frame| {
            any_announced(frame).filter(|address| missing.contains(address))
        });
        missing.remove(&announced);
    }
    assert_eq!(active.status().counters.became_active, 1);
    assert_eq!(backup.status().counters.became_active, 0, "the Backup missed three adverts");
}

/// The address that a gratuitous ARP request announces.
fn any_announced(frame: &[u8]) -> Option<Ipv4Addr> {
    let sender = <[u8; 4]>::try_from(frame.get(28..32)?).ok()?;
    arp_about(sender.into(), 1)(frame).map(|_| sender.into())
}
