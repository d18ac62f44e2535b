//! Another host claims a VIP in service.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use windlass_engine::{AddressConflictPolicy, Event, Hold, RouterConfig, State};

use crate::hold_address::line;
use crate::lab::{Capture, Host, Lan, Node, VIP, arp_about, await_some, mac, require_root, router};
use crate::lab6::{VIP6, advertisement_of, ask_for, number, router6};

const PROBE: Duration = Duration::from_millis(300);

fn yielding(router: RouterConfig) -> RouterConfig {
    RouterConfig { probe: Some(PROBE), address_conflict: AddressConflictPolicy::Yield, ..router }
}

fn await_claimed(node: &Node) -> BTreeSet<IpAddr> {
    node.await_event("claimed address", |event| match event {
        Event::AddressesClaimed { addresses, .. } => Some(addresses.iter().copied().collect()),
        _ => None,
    })
}

fn await_conflict(node: &Node) -> (IpAddr, Vec<u8>) {
    node.await_event("conflict", |event| match event {
        Event::AddressConflict { address, mac, .. } => Some((*address, mac.to_vec())),
        _ => None,
    })
}

fn await_taken(node: &Node) -> (IpAddr, Vec<u8>) {
    node.await_event("taken address", |event| match event {
        Event::AddressTaken { address, mac, .. } => Some((*address, mac.to_vec())),
        _ => None,
    })
}

/// The host asks for `to` from an address that it has taken, which claims that one.
fn speak_from(host: &Host, address: IpAddr, to: IpAddr) {
    host.run(move || UdpSocket::bind((address, 0)).unwrap().send_to(b"", (to, 9)).unwrap());
}

#[test]
fn an_address_that_a_stranger_takes_is_kept_unless_it_is_to_be_yielded() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let (stranger, client) = (&lan.hosts[1], &lan.hosts[2]);
    let node = lan.hosts[0].active(RouterConfig { probe: Some(PROBE), ..router(0, 1) });
    assert_eq!(await_claimed(&node), [VIP.into()].into());
    stranger.ip(&format!("addr add {VIP}/24 dev eth0"));
    speak_from(stranger, VIP.into(), [192, 0, 2, 99].into());
    assert_eq!(await_conflict(&node), (VIP.into(), mac(stranger)));
    let before = node.status().counters.replies;
    ask_for(client, VIP.into());
    node.await_status("answer", |status| status.counters.replies > before);
    assert_eq!(node.status().claimed, [VIP.into()].into());
}

#[test]
fn an_address_that_a_stranger_takes_is_yielded_and_taken_back_once_the_stranger_is_gone() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let (stranger, client) = (&lan.hosts[1], &lan.hosts[2]);
    let kept: IpAddr = [192, 0, 2, 51].into();
    let both = RouterConfig { addresses: [VIP.into(), kept].into(), ..router(0, 1) };
    let node = lan.hosts[0].active(yielding(both));
    assert_eq!(await_claimed(&node), [VIP.into(), kept].into());
    stranger.ip(&format!("addr add {VIP}/24 dev eth0"));
    speak_from(stranger, VIP.into(), [192, 0, 2, 99].into());
    assert_eq!(await_conflict(&node), (VIP.into(), mac(stranger)));
    assert_eq!(await_taken(&node), (VIP.into(), mac(stranger)));
    // Asked for both, in this order, it answers for the one that it has kept.
    let before = node.status().counters.replies;
    ask_for(client, VIP.into());
    ask_for(client, kept);
    let status = node.await_status("answer", |status| status.counters.replies > before);
    assert_eq!(status.counters.replies, before + 1);
    assert_eq!((status.state, status.claimed), (State::Active, [kept].into()));

    let capture = Capture::on(client);
    stranger.ip(&format!("addr del {VIP}/24 dev eth0"));
    assert_eq!(await_claimed(&node), [VIP.into()].into());
    let ours = mac(&lan.hosts[0]);
    capture.await_frame("gratuitous ARP for the VIP", |frame| {
        arp_about(VIP, 1)(frame).filter(|(_, at)| *at == ours)
    });
    assert_eq!(node.status().claimed, [VIP.into(), kept].into());
    assert_eq!(node.status().counters.became_active, 1);
}

#[test]
fn an_address_of_ipv6_that_a_stranger_takes_is_yielded_and_taken_back_once_the_stranger_is_gone() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let stranger = &lan.hosts[1];
    let node = lan.hosts[0].active(yielding(router6(&lan, 0, 1)));
    assert_eq!(await_claimed(&node), [VIP6.into()].into());
    number(stranger, 0x50);
    speak_from(stranger, VIP6.into(), "2001:db8::99".parse().unwrap());
    assert_eq!(await_taken(&node), (VIP6.into(), mac(stranger)));
    assert!(node.status().claimed.is_empty());
    let capture = Capture::on(stranger);
    stranger.ip(&format!("addr del {VIP6}/64 dev eth0"));
    assert_eq!(await_claimed(&node), [VIP6.into()].into());
    let (_, _, at) = capture.await_frame("advertisement of the VIP", advertisement_of(VIP6));
    assert_eq!(at, mac(&lan.hosts[0]));
}

#[test]
fn an_address_that_somebody_claims_who_does_not_have_it_is_not_yielded() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let (liar, client) = (&lan.hosts[1], &lan.hosts[2]);
    let node = lan.hosts[0].active(yielding(router(0, 1)));
    assert_eq!(await_claimed(&node), [VIP.into()].into());
    liar.ip(&format!("addr add {VIP}/24 dev eth0"));
    speak_from(liar, VIP.into(), [192, 0, 2, 99].into());
    liar.ip(&format!("addr del {VIP}/24 dev eth0"));
    let capture = Capture::on(client);
    assert_eq!(await_conflict(&node), (VIP.into(), mac(liar)));
    let (asked, ours) = (RefCell::new(0), mac(&lan.hosts[0]));
    capture.await_frame("two questions, which nobody answers", |frame| {
        let probe = frame.len() >= 42 && frame[12..14] == [8, 6] && frame[28..32] == [0; 4];
        *asked.borrow_mut() += usize::from(probe && frame[38..42] == VIP.octets() && frame[22..28] == ours);
        (*asked.borrow() == 2).then_some(())
    });
    let before = node.status().counters.replies;
    ask_for(client, VIP.into());
    node.await_status("answer", |status| status.counters.replies > before);
    assert_eq!(node.status().claimed, [VIP.into()].into());
}

#[test]
fn an_address_on_an_interface_is_taken_off_while_it_is_yielded() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let stranger = &lan.hosts[1];
    let node = lan.hosts[0].active(RouterConfig { hold: Hold::Address, ..yielding(router(0, 1)) });
    // (The engine does not list what it has bound itself.)
    let is_bound = || line(&lan.hosts[0], VIP.into(), 32).is_some();
    await_some("VIP on the interface", || is_bound().then_some(()));
    stranger.ip(&format!("addr add {VIP}/24 dev eth0"));
    speak_from(stranger, VIP.into(), [192, 0, 2, 99].into());
    assert_eq!(await_taken(&node), (VIP.into(), mac(stranger)));
    await_some("VIP taken off the interface", || (!is_bound()).then_some(()));
    stranger.ip(&format!("addr del {VIP}/24 dev eth0"));
    await_some("VIP on the interface again", || is_bound().then_some(()));
}
