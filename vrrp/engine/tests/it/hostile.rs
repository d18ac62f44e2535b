//! Strangers and garbage.

use std::iter;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use windlass_engine::{Event, State};

use crate::flooder::Flooder;
use crate::lab::{Host, Lan, VIP, address, await_some, require_root, router, router_v6};

/// Sends these messages as protocol 112 to the group, with this TTL.
fn send(host: &Host, ttl: u32, messages: Vec<Vec<u8>>) {
    host.run(move || {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(112))).unwrap();
        socket.bind_device(Some(b"eth0")).unwrap();
        socket.set_multicast_ttl_v4(ttl).unwrap();
        let group = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 18), 0).into();
        for message in messages {
            socket.send_to(&message, &group).unwrap();
        }
    });
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// VRID 7, priority 255, 100 cs, 192.0.2.50. Checksum: 3107 + ff01 + 0064 + c000 + 0232 = 1f29e, folded f29f, inverted.
fn rogue() -> Vec<u8> {
    unhex("3107ff0100640d60c0000232")
}

// shows: threats T-14
#[test]
fn a_stranger_with_our_vrid_and_priority_255_is_reported_and_not_obeyed() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].active(router(0, 1));
    send(&lan.hosts[1], 255, vec![rogue(); 3]);
    let seen = node.await_event("stranger", |event| match event {
        Event::ForeignRouter { interface, vrid, source, version, carp, .. } => {
            Some((interface.clone(), *vrid, *source, *version, *carp))
        }
        _ => None,
    });
    assert_eq!(seen, ("eth0".to_owned(), 7, address(1).into(), 3, false));
    let status = node.await_status("three strangers counted", |status| status.counters.foreign_adverts == 3);
    assert_eq!(status.state, State::Active);
    assert_eq!(status.counters.adverts_received, 0);
    let refused = &node.engine.links()[0].rejected;
    assert!(refused.is_empty(), "they are valid, and of a VRID that runs here: {refused:?}");
}

// shows: threats T-14
#[test]
fn who_sends_in_the_name_of_a_backup_is_told_of_and_moves_nothing() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let node = lan.hosts[0].active(router(0, 2));
    let forged = lan.hosts[2].run(|| Flooder::new(address(1), 7, 100));
    let forged_until_told = || {
        forged.send(1);
        node.reported(|event| match event {
            Event::SecondActive { source, .. } => Some(*source),
            _ => None,
        })
    };
    assert_eq!(await_some("a second Active told of", forged_until_told), address(1));
    assert_eq!(node.status().state, State::Active);
    assert_eq!(node.status().counters.became_active, 1);
}

#[test]
fn routers_are_heard_on_an_interface_where_none_of_ours_runs() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].engine();
    node.engine.listen(&["eth0".to_owned()]);
    // Version 2, a golden vector of `windlass-vrrp`, sent again until the engine listens.
    let version_2 = unhex("21331e010001b5c50a0001050000000000000000");
    await_some("stranger counted", || {
        send(&lan.hosts[1], 255, vec![version_2.clone()]);
        node.engine.links().into_iter().find(|link| link.interface == "eth0" && link.foreign_adverts > 0)
    });
    let seen = node.await_event("stranger", |event| match event {
        Event::ForeignRouter { vrid, version, .. } => Some((*vrid, *version)),
        _ => None,
    });
    assert_eq!(seen, (51, 2));
}

#[test]
fn garbage_is_counted_by_reason_and_harmless() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].active(router(0, 2));
    let mut garbage = vec![
        vec![],
        unhex("3107"),
        unhex("4107c80100640000c0000232"),
        unhex("3207c80100640000c0000232"),
        unhex("3100c80100640000c0000232"),
        unhex("3108c80100640000c0000232"),
        unhex("3107c8ff00640000c0000232"),
        unhex("3107c80100640000c0000232"),
    ];
    // Not of the protocol's size at all: longer than any advert.
    garbage.push(vec![0x31; 1400]);
    send(&lan.hosts[1], 255, garbage);
    send(&lan.hosts[1], 64, vec![rogue()]);
    let expected = [
        ("checksum", 1),
        ("length", 1),
        ("truncated", 2),
        ("ttl", 1),
        ("type", 1),
        ("unknown_vrid", 3),
        ("version", 1),
    ];
    await_some("refusals by reason", || {
        let links = node.engine.links();
        let counted: Vec<_> = links[0].rejected.iter().map(|(reason, count)| (*reason, *count)).collect();
        (counted == expected).then_some(())
    });
    assert_eq!(node.status().state, State::Active);
    assert_eq!(node.status().counters.became_active, 1);
}

#[test]
fn two_nodes_with_one_source_address_are_told_of_it() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    for host in &lan.hosts {
        host.ip("addr add fe80::1/64 dev eth0 nodad");
    }
    lan.hosts[1].ip("addr add 192.0.2.1/24 dev eth0");
    let nodes = [0, 1].map(|host| {
        let node = lan.hosts[host].engine();
        node.engine.apply(vec![router(0, 2), router_v6(0, 2)]);
        node
    });
    for node in nodes {
        node.await_event("word of it", |event| matches!(event, Event::SourceInUse { .. }).then_some(()));
        // In IPv4 the kernel drops what comes from an address of its own. Both claim the VIP, though.
        node.await_event("a conflict", |event| match event {
            Event::AddressConflict { address, .. } => address.is_ipv4().then_some(()),
            _ => None,
        });
    }
}

#[test]
fn adverts_that_a_packet_filter_refuses_are_told() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let rules = "add table ip t; add chain ip t out { type filter hook output priority 0; }; add rule ip t out ip protocol 112 drop";
    let filtered = lan.hosts[0].run(move || std::process::Command::new("nft").arg(rules).status().unwrap());
    assert!(filtered.success());
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router(0, 1)]);
    let error = node.await_event("word of it", |event| match event {
        Event::AdvertsRefused { error, .. } => Some(error.clone()),
        _ => None,
    });
    assert!(
        error.contains("VRID 7 for IPv4 on eth0") && error.contains("Operation not permitted"),
        "{error}"
    );
    assert!(node.status().counters.send_errors >= 3);
}

#[test]
fn a_vip_that_is_an_address_of_the_interface_is_told() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router(0, 1)]);
    node.await_state(State::Active);
    let on_interface = |event: &Event| match event {
        Event::AddressOnInterface { address, .. } => Some(*address),
        _ => None,
    };
    let change = |verb: &str| lan.hosts[0].ip(&format!("addr {verb} {VIP}/24 dev eth0"));
    change("add");
    assert_eq!(node.await_event("word of it", on_interface), VIP);
    // An address that is removed and added between two looks is no news: tried again, each time with a longer pause.
    let is_told_again = (1..=9).any(|round| {
        change("del");
        std::thread::sleep(round * Duration::from_millis(50));
        change("add");
        let deadline = Instant::now() + round * Duration::from_secs(1);
        iter::repeat_with(|| node.reported(on_interface))
            .take_while(|_| Instant::now() < deadline)
            .inspect(|_| std::thread::sleep(Duration::from_millis(5)))
            .any(|told| told == Some(VIP.into()))
    });
    assert!(is_told_again, "when it is there again");
    assert_eq!(node.status().counters.became_active, 1, "nothing else changes");
}
