//! How VIPs are announced, and how many at once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use windlass_engine::{Interval, RouterConfig, Transport, Vrid};

use crate::lab::{Capture, Lan, VIP, arp_about, mac, require_root, router, take_turn};
use crate::lab6::{VIP6, neighbour_discovery, router6};

/// The address that a gratuitous ARP request or an unsolicited neighbour advertisement announces.
fn announced(frame: &[u8]) -> Option<IpAddr> {
    if let Some(message) = neighbour_discovery(frame, 136) {
        return <[u8; 16]>::try_from(message.get(8..24)?).ok().map(IpAddr::from);
    }
    let sender = Ipv4Addr::from(<[u8; 4]>::try_from(frame.get(28..32)?).ok()?);
    arp_about(sender, 1)(frame).map(|_| sender.into())
}

fn await_all(capture: &Capture, vips: &BTreeSet<IpAddr>) {
    let missing = RefCell::new(vips.clone());
    capture.await_frame("announcement of every VIP", |frame| {
        announced(frame).and_then(|address| {
            missing.borrow_mut().remove(&address);
            missing.borrow().is_empty().then_some(())
        })
    });
}

// shows: allocation 117; field-reports F-26
/// Announcing must not keep adverts waiting, nor must a list that does not fit an advert matter.
#[test]
fn thousands_of_vips_are_all_announced_and_no_advert_is_late_for_it() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(2);
    // Two frames each at 20,000 a second: longer than three intervals.
    let vips: BTreeSet<IpAddr> = (0..10_000).map(|n| Ipv4Addr::from(0xc612_0000 + n).into()).collect();
    let many = |n| RouterConfig { addresses: vips.clone(), ..router(n, 2) };
    let capture = Capture::on(&lan.hosts[1]);
    let backup = lan.hosts[1].engine();
    let active = lan.hosts[0].engine();
    // It does not take over before it has heard the Active, whose interval it then goes by.
    backup.engine.apply(vec![RouterConfig { interval: Interval::from_millis(20_000).unwrap(), ..many(1) }]);
    active.engine.apply(vec![many(0)]);
    await_all(&capture, &vips);
    assert_eq!(active.status().counters.became_active, 1);
    assert_eq!(backup.status().counters.became_active, 0, "the Backup missed three adverts");
    assert!(backup.status().counters.adverts_received > 0);
}

#[test]
fn a_thousand_vips_of_ipv6_are_all_announced() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let addresses = (0..1000_u16).map(|n| Ipv6Addr::from([0x2001, 0xdb8, 0, 0, 0, 0, 1, n]));
    let vips: BTreeSet<IpAddr> = addresses.map(IpAddr::from).collect();
    let router = RouterConfig { addresses: vips.clone(), ..router6(&lan, 0, 1) };
    let capture = Capture::on(&lan.hosts[1]);
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router]);
    await_all(&capture, &vips);
    node.await_status("count", |status| status.counters.announcements >= 1000);
}

// shows: allocation 92
#[test]
fn each_of_255_routers_announces_its_vip() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let vip = |n: u32| IpAddr::from(Ipv4Addr::from(0xc612_0000 + n));
    let routers = (1..=255_u8).map(|vrid| RouterConfig {
        vrid: Vrid::new(vrid).unwrap(),
        addresses: [vip(vrid.into())].into(),
        ..router(0, 1)
    });
    let vips = (1..=255).map(vip).collect();
    let capture = Capture::on(&lan.hosts[1]);
    let node = lan.hosts[0].engine();
    node.engine.apply(routers.collect());
    await_all(&capture, &vips);
}

// shows: allocation 119
#[test]
fn a_vip_is_announced_again_when_the_cable_is_plugged_in() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].active(router(0, 1));
    lan.pull_cable(0);
    node.await_failure();
    let capture = Capture::on(&lan.hosts[1]);
    lan.plug_cable(0);
    let (_, at) = capture.await_frame("gratuitous ARP", arp_about(VIP, 1));
    assert_eq!(at, mac(&lan.hosts[0]));
}

/// keepalived #1283: a peer that has forgotten where to send its adverts loses them while it asks.
#[test]
fn a_unicast_peer_says_where_it_is_when_its_cable_is_plugged_in() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let transport = Transport::Unicast { ttl: 255, accept_ttl: 255..=255 };
    let node = lan.hosts[0].active(RouterConfig { transport, ..router(0, 2) });
    lan.pull_cable(0);
    node.await_failure();
    let capture = Capture::on(&lan.hosts[1]);
    lan.plug_cable(0);
    let (to, at) = capture.await_frame("gratuitous ARP for its own address", |frame| {
        arp_about(crate::lab::address(0), 1)(frame).filter(|_| frame[28..32] == frame[38..42])
    });
    assert_eq!((to, at), (vec![0xff; 6], mac(&lan.hosts[0])));
}

// shows: rfc9568 T4
/// RFC 9568 §6.4.2 (T4): an Active that is still there is to yield before anyone is told of another.
#[test]
fn the_first_advert_goes_before_the_first_announcement() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let routers = [router(0, 1), router6(&lan, 0, 1)];
    let captures = [Capture::on(&lan.hosts[1]), Capture::on(&lan.hosts[1])];
    let node = lan.hosts[0].engine();
    node.engine.apply(routers.into());
    // VIP, Ethertype, where the protocol number is.
    let families = [(IpAddr::from(VIP), [0x08, 0x00], 23), (VIP6.into(), [0x86, 0xdd], 20)];
    for (capture, (vip, ethertype, protocol)) in captures.iter().zip(families) {
        let first = capture.await_frame("advert or announcement", |frame| {
            let advert = frame.get(12..14)? == ethertype && frame.get(protocol)? == &112;
            let announcement = announced(frame) == Some(vip);
            (advert || announcement).then_some(if advert { "advert" } else { "announcement" })
        });
        assert_eq!(first, "advert", "{vip}");
    }
}
