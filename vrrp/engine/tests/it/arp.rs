//! Who answers for a VIP.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{MsgFlags, sendto};
use socket2::{Domain, Socket, Type};

use windlass_engine::{Event, RouterConfig, State, Vrid};

use crate::lab::{Capture, Host, Lan, VIP, arp_about, await_some, mac, require_root, router, take_turn};
use crate::lab6::ask_for;

const VIP_OF_NOBODY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 200);

// shows: allocation 101; rfc9568 T16, T17
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
        ask_for(client, VIP.into());
        assert_eq!(await_answer(&capture), (mac(client), mac(&lan.hosts[0])));
    }
    assert!(nodes[0].status().counters.replies >= 3);
    assert_eq!(nodes[1].status().counters.replies, 0);
    let bound = lan.hosts[0].run(|| windlass_engine::Engine::interfaces().unwrap());
    assert!(!bound[0].ipv4.iter().any(|(address, _)| *address == VIP), "{bound:?}");
}

// shows: field-reports F-09; rfc9568 T4
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

// shows: allocation 102
#[test]
fn a_vip_added_to_an_active_is_announced_and_a_removed_one_is_not_answered() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let second: Ipv4Addr = "192.0.2.51".parse().unwrap();
    let node = lan.hosts[0].active(router(0, 1));
    let capture = Capture::on(&lan.hosts[1]);
    node.engine.apply(vec![RouterConfig { addresses: [second.into()].into(), ..router(0, 1) }]);
    let (_, at) = capture.await_frame("gratuitous ARP for the new VIP", arp_about(second, 1));
    assert_eq!(at, mac(&lan.hosts[0]));
    assert_eq!(node.status().state, State::Active);
    assert_eq!(node.status().counters.became_active, 1);

    // Both are asked for; the one that is left is answered, so the other was heard and passed over.
    let before = node.status().counters.replies;
    ask_for(&lan.hosts[1], VIP.into());
    ask_for(&lan.hosts[1], second.into());
    node.await_status("ARP reply", |status| status.counters.replies > before);
    assert_eq!(node.status().counters.replies, before + 1);
}

#[test]
fn another_host_that_claims_a_vip_is_reported() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].active(router(0, 1));
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

/// As with the parent of a VLAN: its socket is given what the device on it receives, and what has a tag.
#[test]
fn what_a_device_on_the_interface_hears_or_has_a_tag_is_no_conflict_on_the_interface() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    lan.hosts[0].ip("link add link eth0 name on0 address 02:00:00:00:00:09 type macvlan mode bridge");
    lan.hosts[0].ip("link set on0 up");
    let node = lan.hosts[0].active(router(0, 1));
    let send = sender(&lan.hosts[1]);
    let claim = |to: &[u8], tag: &[u8], from: &[u8]| {
        let header = [to, from, tag, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
        [&header[..], from, &VIP.octets(), to, &[192, 0, 2, 1]].concat()
    };
    send(&claim(&[2, 0, 0, 0, 0, 9], &[], &[2, 0, 0, 0, 0, 1]));
    send(&claim(&[0xff; 6], &[0x81, 0, 0, 7], &[2, 0, 0, 0, 0, 2]));
    send(&claim(&[0xff; 6], &[], &[2, 0, 0, 0, 0, 3]));
    let claimant = node.await_event("conflict", |event| match event {
        Event::AddressConflict { mac, .. } => Some(*mac),
        _ => None,
    });
    assert_eq!(claimant, [2, 0, 0, 0, 0, 3]);
}

/// An ARP request from the host's `eth0`: sender and target.
fn request(from: &[u8], sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let header = [&[0xff; 6], from, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    [&header[..], from, &sender.octets(), &[0; 6], &target.octets()].concat()
}

/// A function that sends a frame by the host's `eth0`.
fn sender(host: &Host) -> impl Fn(&[u8]) + Send + 'static {
    let (socket, eth0) = host.run(|| {
        let mut entries = getifaddrs().unwrap().filter(|entry| entry.interface_name == "eth0");
        let eth0 = entries.find_map(|entry| entry.address?.as_link_addr().copied()).unwrap();
        (Socket::new(Domain::PACKET, Type::RAW, None).unwrap(), eth0)
    });
    move |frame| {
        // A full queue in a storm is no failure of the test.
        let _ = sendto(socket.as_raw_fd(), frame, &eth0, MsgFlags::empty());
    }
}

/// Waits for the answer to the host's question for the VIP.
fn await_answer(capture: &Capture) -> (Vec<u8>, Vec<u8>) {
    capture.await_frame("ARP reply", |frame| {
        arp_about(VIP, 2)(frame).filter(|(destination, _)| destination[0] != 0xff)
    })
}

// shows: rfc9568 T17
#[test]
fn a_host_that_wants_the_vip_for_itself_is_told_that_it_is_taken() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let _node = lan.hosts[0].active(router(0, 1));
    let client = &lan.hosts[1];
    let capture = Capture::on(client);
    sender(client)(&request(&mac(client), Ipv4Addr::UNSPECIFIED, VIP));
    assert_eq!(await_answer(&capture), (mac(client), mac(&lan.hosts[0])));
}

// shows: allocation 117
#[test]
fn a_storm_of_questions_for_other_addresses_does_not_starve_answers() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(3);
    let node = lan.hosts[0].active(router(0, 1));
    let (client, storm) = (&lan.hosts[1], &lan.hosts[2]);
    let (over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (shout, noise) = (sender(storm), request(&mac(storm), crate::lab::address(2), VIP_OF_NOBODY));
    let thread = std::thread::spawn({
        let (over, sent) = (Arc::clone(&over), Arc::clone(&sent));
        move || {
            while !over.load(Ordering::Relaxed) {
                shout(&noise);
                sent.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let ask = sender(client);
    // The LAN may lose a question in the storm, as it may lose the answer: what counts is that the engine answers.
    let mut answers = 0;
    while answers < 20 || sent.load(Ordering::Relaxed) < 50_000 {
        let before = node.status().counters.replies;
        await_some("answer", || {
            ask(&request(&mac(client), crate::lab::address(1), VIP));
            (node.status().counters.replies > before).then_some(())
        });
        answers += 1;
    }
    over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert_eq!(node.status().counters.became_active, 1);
}

/// RFC 5227 §2.4 (b).
#[test]
fn a_vip_that_another_host_claims_is_defended_once() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router(0, 1)]);
    // The takeover's four bursts in two forms; the next is a minute away.
    node.await_status("repeats", |status| status.counters.announcements == 8);
    let thief = &lan.hosts[1];
    let claim = request(&mac(thief), VIP, VIP);
    let shout = sender(thief);
    shout(&claim);
    shout(&claim);
    let claimant = node.await_event("conflict", |event| match event {
        Event::AddressConflict { mac, .. } => Some(mac.to_vec()),
        _ => None,
    });
    assert_eq!(claimant, mac(thief));
    node.await_status("defence", |status| status.counters.announcements >= 10);
    assert_eq!(node.status().counters.announcements, 10);
}
