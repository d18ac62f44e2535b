//! Asking before a VIP is claimed for the first time.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use windlass_engine::{Event, RouterConfig, State, TransitionReason, Vrid};

use crate::lab::{Capture, Lan, Node, VIP, arp_about, await_some, mac, require_root, router};
use crate::lab6::{VIP6, advertisement_of, ask_for, neighbour_discovery, number, router6};

const PROBE: Duration = Duration::from_millis(300);

/// Waits until the engine says that an address is taken, and by whom.
fn await_taken(node: &Node) -> (IpAddr, Vec<u8>) {
    node.await_event("taken address", |event| match event {
        Event::AddressTaken { address, mac, .. } => Some((*address, mac.to_vec())),
        _ => None,
    })
}

/// Waits until the engine says that it claims addresses, and which.
fn await_claimed(node: &Node) -> Vec<IpAddr> {
    node.await_event("claimed address", |event| match event {
        Event::AddressesClaimed { addresses, .. } => Some(addresses.clone()),
        _ => None,
    })
}

/// Takes the router away and gives it back, so that the test need not wait for the next question.
fn start_again(node: &Node, router: RouterConfig) {
    node.engine.apply(Vec::new());
    await_some("no router", || node.engine.snapshot().is_empty().then_some(()));
    node.engine.apply(vec![router]);
}

/// The address asked for by an ARP probe (sender 0.0.0.0) or by duplicate address detection (source ::).
fn probed(frame: &[u8]) -> Option<IpAddr> {
    if let Some(message) = neighbour_discovery(frame, 135) {
        let target = <[u8; 16]>::try_from(message.get(8..24)?).ok()?;
        return (frame[22..38] == [0; 16]).then(|| IpAddr::from(target));
    }
    let arp = frame.get(12..14)? == [8, 6] && frame.get(28..32)? == [0; 4];
    let target = <[u8; 4]>::try_from(frame.get(38..42)?).ok()?;
    arp.then(|| IpAddr::from(target))
}

// shows: allocation 121
#[test]
fn an_address_that_a_stranger_has_is_not_claimed_and_is_when_it_is_free() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let free = "192.0.2.51".parse().unwrap();
    lan.hosts[1].ip(&format!("addr add {VIP}/24 dev eth0"));
    let both = RouterConfig { probe: Some(PROBE), addresses: [VIP.into(), free].into(), ..router(0, 1) };
    let capture = Capture::on(&lan.hosts[2]);
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![both.clone()]);
    assert_eq!(await_taken(&node), (VIP.into(), mac(&lan.hosts[1])));
    // What came before the free address was announced has nothing that claims the other.
    let claims = RefCell::new(0);
    let IpAddr::V4(free_v4) = free else { unreachable!("an IPv4 address") };
    capture.await_frame("gratuitous ARP for the free address", |frame| {
        let ours = arp_about(VIP, 1)(frame).or_else(|| arp_about(VIP, 2)(frame));
        *claims.borrow_mut() += usize::from(ours.is_some_and(|(_, at)| at == mac(&lan.hosts[0])));
        arp_about(free_v4, 1)(frame)
    });
    assert_eq!(*claims.borrow(), 0);
    assert_eq!(node.status().state, State::Active);
    assert_eq!(await_claimed(&node), [free]);
    assert_eq!(node.status().claimed, [free].into());
    // Asked for both, in this order, it answers for the free one alone.
    ask_for(&lan.hosts[2], VIP.into());
    ask_for(&lan.hosts[2], free);
    node.await_status("answer", |status| status.counters.replies > 0);
    assert_eq!(node.status().counters.replies, 1);
    // The stranger is a client of the other address, also where it asks from the one that it has.
    let foreign_adverts = Capture::on(&lan.hosts[1]);
    lan.hosts[1].run(move || UdpSocket::bind((VIP, 0)).unwrap().send_to(b"", (free, 9)).unwrap());
    let to = mac(&lan.hosts[1]);
    foreign_adverts.await_frame("answer to the stranger at its address", |frame| {
        arp_about(free_v4, 2)(frame).filter(|(asker, _)| *asker == to && frame[38..42] == VIP.octets())
    });

    lan.hosts[1].ip(&format!("addr del {VIP}/24 dev eth0"));
    start_again(&node, both);
    let ours = mac(&lan.hosts[0]);
    capture.await_frame("gratuitous ARP for the VIP", |frame| {
        arp_about(VIP, 1)(frame).filter(|(_, at)| *at == ours)
    });
    // What was cleared before may come first.
    let claimed: BTreeSet<IpAddr> = await_some("both claimed", || {
        let claimed = node.status().claimed;
        (claimed.len() == 2).then_some(claimed)
    });
    assert_eq!(claimed, [VIP.into(), free].into());
}

#[test]
fn an_address_of_ipv6_that_a_stranger_has_is_not_claimed_and_is_when_it_is_free() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    number(&lan.hosts[1], 0x50);
    let router = RouterConfig { probe: Some(PROBE), ..router6(&lan, 0, 1) };
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router.clone()]);
    assert_eq!(await_taken(&node), (VIP6.into(), mac(&lan.hosts[1])));
    assert_eq!(node.status().counters.announcements, 0);

    lan.hosts[1].ip(&format!("addr del {VIP6}/64 dev eth0"));
    let capture = Capture::on(&lan.hosts[1]);
    start_again(&node, router);
    let (_, _, at) = capture.await_frame("advertisement of the VIP", advertisement_of(VIP6));
    assert_eq!(at, mac(&lan.hosts[0]));
}

#[test]
fn a_vip_that_moves_to_another_nodes_virtual_router_waits_for_the_old_holder_and_not_for_a_minute() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let old = lan.hosts[0].active(router(0, 1));
    let with = |vips: &[&str]| RouterConfig {
        vrid: Vrid::new(8).unwrap(),
        probe: Some(PROBE),
        addresses: vips.iter().map(|vip| vip.parse().unwrap()).collect(),
        ..router(1, 1)
    };
    let new = lan.hosts[1].active(with(&["192.0.2.51"]));
    // The new one learns of the move first.
    new.engine.apply(vec![with(&["192.0.2.50", "192.0.2.51"])]);
    assert_eq!(await_taken(&new), (VIP.into(), mac(&lan.hosts[0])));
    let capture = Capture::on(&lan.hosts[0]);
    let other = ["192.0.2.52".parse().unwrap()].into();
    old.engine.apply(vec![RouterConfig { addresses: other, ..router(0, 1) }]);
    let at = mac(&lan.hosts[1]);
    capture.await_frame("claim of the new holder", |frame| {
        arp_about(VIP, 1)(frame).filter(|(_, claimant)| *claimant == at)
    });
}

#[test]
fn a_first_claim_asks_first_and_a_takeover_from_a_peer_does_not() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let capture = Capture::on(&lan.hosts[2]);
    let nodes = [lan.hosts[0].engine(), lan.hosts[1].engine()];
    let asking = |n| RouterConfig { probe: Some(PROBE), ..router(n, 2) };
    nodes[0].engine.apply(vec![asking(0)]);
    nodes[0].await_state(State::Active);
    let asked = RefCell::new(0);
    capture.await_frame("gratuitous ARP", |frame| {
        *asked.borrow_mut() += usize::from(probed(frame) == Some(VIP.into()));
        arp_about(VIP, 1)(frame)
    });
    assert_eq!(*asked.borrow(), 2, "the first claim");

    nodes[1].engine.apply(vec![asking(1)]);
    nodes[1].await_status("Backup", |status| status.active == Some(crate::lab::source(0)));
    lan.pull_cable(0);
    assert!(nodes[1].status().claimed.is_empty(), "a Backup claims nothing");
    assert_eq!(nodes[1].await_state(State::Active), TransitionReason::ActiveSilent);
    assert_eq!(await_claimed(&nodes[1]), router(1, 2).addresses.into_iter().collect::<Vec<_>>());
    *asked.borrow_mut() = 0;
    let second = mac(&lan.hosts[1]);
    capture.await_frame("gratuitous ARP of the next Active", |frame| {
        *asked.borrow_mut() += usize::from(probed(frame) == Some(VIP.into()));
        arp_about(VIP, 1)(frame).filter(|(_, at)| *at == second)
    });
    assert_eq!(*asked.borrow(), 0, "a takeover");
}

#[test]
fn a_takeover_from_a_peer_asks_for_what_is_unproven_and_not_for_what_was_proven_meanwhile() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let unproven = |n| RouterConfig { probe: Some(PROBE), unproven: [VIP.into()].into(), ..router(n, 2) };
    for (proven, questions) in [(false, 2), (true, 0)] {
        let nodes = [lan.hosts[0].engine(), lan.hosts[1].engine()];
        nodes[0].engine.apply(vec![unproven(0)]);
        assert_eq!(await_claimed(&nodes[0]), [IpAddr::from(VIP)]);
        nodes[1].engine.apply(vec![unproven(1)]);
        nodes[1].await_status("Backup", |status| status.active == Some(crate::lab::source(0)));
        if proven {
            nodes[1].engine.apply(vec![RouterConfig { unproven: [].into(), ..unproven(1) }]);
        }
        // What is ordered later is done later, and this is told by its status.
        let both = RouterConfig { addresses: [VIP.into(), [192, 0, 2, 51].into()].into(), ..unproven(1) };
        nodes[1].engine.apply(vec![RouterConfig {
            unproven: if proven { [].into() } else { [VIP.into()].into() },
            ..both
        }]);
        nodes[1].await_status("order", |status| status.addresses.len() == 2);
        let capture = Capture::on(&lan.hosts[2]);
        nodes[0].engine.apply(Vec::new());
        let (asked, second) = (RefCell::new(0), mac(&lan.hosts[1]));
        capture.await_frame("gratuitous ARP of the next Active", |frame| {
            *asked.borrow_mut() += usize::from(probed(frame) == Some(VIP.into()));
            arp_about(VIP, 1)(frame).filter(|(_, at)| *at == second)
        });
        assert_eq!(*asked.borrow(), questions, "proven: {proven}");
    }
}

/// Three nodes are started at once, the lowest first, and a fourth host has their first address but not their second.
fn a_stranger_keeps_his_address(lan: &Lan, routers: &[RouterConfig; 3], taken: IpAddr, free: IpAddr) {
    let capture = Capture::on(&lan.hosts[3]);
    let nodes = [2, 1, 0].map(|host: usize| {
        let node = lan.hosts[host].engine();
        let addresses: BTreeSet<IpAddr> = [taken, free].into();
        let unproven = addresses.clone();
        node.engine.apply(vec![RouterConfig {
            probe: Some(PROBE),
            unproven,
            addresses,
            ..routers[host].clone()
        }]);
        node
    });
    let highest = &nodes[2];
    assert_eq!(await_taken(highest), (taken, mac(&lan.hosts[3])));
    assert_eq!(await_claimed(highest), [free]);
    // All claims before the highest one's to the free address.
    let macs = [0, 1, 2].map(|host| mac(&lan.hosts[host]));
    let stolen = RefCell::new(0);
    capture.await_frame("claim to the free address", |frame| {
        let claimant = |address: IpAddr| match address {
            IpAddr::V4(address) => {
                arp_about(address, 1)(frame).or_else(|| arp_about(address, 2)(frame)).map(|(_, at)| at)
            }
            IpAddr::V6(address) => advertisement_of(address)(frame).map(|(_, _, at)| at),
        };
        *stolen.borrow_mut() += usize::from(claimant(taken).is_some_and(|at| macs.contains(&at)));
        claimant(free).filter(|at| *at == macs[0])
    });
    assert_eq!(*stolen.borrow(), 0, "claims to the stranger's address");
    assert_eq!(highest.status().claimed, [free].into());
}

// shows: allocation 121
#[test]
fn of_nodes_that_start_at_once_none_claims_a_strangers_address() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(4);
    lan.hosts[3].ip(&format!("addr add {VIP}/24 dev eth0"));
    let free = "192.0.2.51".parse().unwrap();
    a_stranger_keeps_his_address(&lan, &[0, 1, 2].map(|host| router(host, 3)), VIP.into(), free);
    let of_version_2 = |host| RouterConfig {
        versions: windlass_engine::Versions::V2,
        interval: windlass_engine::Interval::SECOND,
        ..router(host, 3)
    };
    a_stranger_keeps_his_address(&lan, &[0, 1, 2].map(of_version_2), VIP.into(), free);
}

#[test]
fn of_nodes_of_ipv6_that_start_at_once_none_claims_a_strangers_address() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(4);
    number(&lan.hosts[3], 0x50);
    let free = "2001:db8::51".parse().unwrap();
    a_stranger_keeps_his_address(&lan, &[0, 1, 2].map(|host| router6(&lan, host, 3)), VIP6.into(), free);
}

#[test]
fn a_first_claim_of_ipv6_asks_as_duplicate_address_detection_does() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let router = RouterConfig { probe: Some(PROBE), ..router6(&lan, 0, 1) };
    let capture = Capture::on(&lan.hosts[1]);
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router]);
    let asked = RefCell::new(0);
    capture.await_frame("advertisement", |frame| {
        *asked.borrow_mut() += usize::from(probed(frame) == Some(VIP6.into()));
        advertisement_of(VIP6)(frame)
    });
    assert_eq!(*asked.borrow(), 2);
}
