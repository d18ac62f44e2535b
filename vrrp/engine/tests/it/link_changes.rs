//! Interfaces that change under a router that is Active. The engine lists the interfaces without cause only once a minute,
//! which is longer than any wait here: what a test sees was told by a notice.

use std::fmt::Write;

use windlass_engine::{Engine, Event, InterfaceInfo, RouterConfig, State, Unusable, Vrid};

use crate::lab::{
    Capture, Host, Lan, Node, VIP, arp_about, await_some, interval, mac, require_root, router, take_turn,
};

/// A host with the interfaces `eth0` and its other end `far`, and the source of the tests' router.
fn host() -> Host {
    let host = Host::new();
    host.ip("link add eth0 type veth peer name far");
    host.ip("link set far up");
    host.ip("link set eth0 up");
    host.ip("addr add 192.0.2.1/24 dev eth0");
    host
}

fn await_recovery(node: &Node) {
    node.await_event("recovery", |event| matches!(event, Event::Recovered { .. }).then_some(()));
    node.await_state(State::Active);
    assert!(node.engine.snapshot().iter().all(|status| status.error.is_none()));
}

/// The router is in Initialize, and this is why. On the way there may be other reasons: the kernel takes an interface down
/// before it deletes it.
fn await_halt(node: &Node, why: &str) {
    node.await_state(State::Initialize);
    node.await_event(&format!("failure: {why}"), |event| match event {
        Event::Failed { error, .. } => error.contains(why).then_some(()),
        _ => None,
    });
    node.await_status("this error", |status| {
        status.state == State::Initialize && status.error.as_ref().is_some_and(|error| error.contains(why))
    });
}

fn listed(host: &Host) -> Vec<InterfaceInfo> {
    host.run(|| Engine::interfaces().unwrap())
}

// shows: field-reports F-46
#[test]
fn a_router_stops_when_its_carrier_goes_and_runs_again_when_it_returns() {
    if !require_root() {
        return;
    }
    let host = host();
    let node = host.active(router(0, 1));
    for round in 1..=3 {
        host.ip("link set far down");
        await_halt(&node, "interface eth0 has no carrier: check its cable or peer");
        host.ip("link set far up");
        await_recovery(&node);
        assert_eq!(node.status().counters.became_active, round + 1);
    }
    host.ip("link set eth0 down");
    await_halt(&node, "interface eth0 is down: `ip link set eth0 up`");
}

// shows: field-reports F-46
#[test]
fn an_interface_that_is_deleted_under_an_active_router_and_made_anew_is_used_again() {
    if !require_root() {
        return;
    }
    let host = host();
    let node = host.active(router(0, 1));
    host.ip("link del eth0");
    await_halt(&node, "interface eth0 does not exist");
    let error = node.engine.links()[0].error.clone();
    assert!(error.as_ref().is_some_and(|error| error.contains("does not exist")), "{error:?}");

    host.ip("link add eth0 type veth peer name far");
    host.ip("addr add 192.0.2.1/24 dev eth0");
    host.ip("link set far up");
    host.ip("link set eth0 up");
    await_recovery(&node);
    let capture = Capture::on(&host);
    let (_, from) = capture.await_frame("an answer on the new interface", |frame| {
        arp_about(VIP, 1)(frame).or_else(|| arp_about(VIP, 2)(frame))
    });
    assert_eq!(from, mac(&host));
}

#[test]
fn a_router_follows_its_interfaces_name_and_not_its_index() {
    if !require_root() {
        return;
    }
    let host = host();
    host.ip("link add eth7 type veth peer name far7");
    host.ip("link set far7 up");
    host.ip("link set eth7 up");
    let node = host.active(router(0, 1));
    host.ip("link set eth0 name lan0");
    await_halt(&node, "interface eth0 does not exist");

    // Another interface under the name: usable as soon as it has the source.
    host.ip("link set eth7 name eth0");
    node.await_event("lack of the source", |event| match event {
        Event::Failed { error, .. } => error.contains("interface eth0 does not have 192.0.2.1").then_some(()),
        _ => None,
    });
    host.ip("addr add 192.0.2.1/32 dev eth0");
    await_recovery(&node);

    // And back to the first, in whatever steps it is noticed.
    host.ip("link set eth0 name eth7");
    host.ip("link set lan0 name eth0");
    await_recovery(&node);
    node.engine.apply(vec![RouterConfig { interface: "eth7".to_owned(), ..router(0, 1) }]);
    node.await_status("Active under the other name", |status| {
        status.key.interface == "eth7" && status.state == State::Active
    });
}

#[test]
fn a_source_address_that_goes_stops_the_router_by_name_until_it_is_back() {
    if !require_root() {
        return;
    }
    let host = host();
    host.ip("addr add 198.51.100.1/24 dev eth0");
    let node = host.active(router(0, 1));
    host.ip("addr del 192.0.2.1/24 dev eth0");
    await_halt(&node, "eth0 does not have 192.0.2.1");
    let error = node.status().error;
    assert!(error.as_ref().is_some_and(|error| error.contains("198.51.100.1")), "{error:?}");
    host.ip("addr add 192.0.2.1/25 dev eth0");
    await_recovery(&node);
}

#[test]
fn another_link_layer_address_is_announced_and_disturbs_no_router() {
    if !require_root() {
        return;
    }
    let host = host();
    let node = host.active(router(0, 1));
    let capture = Capture::on(&host);
    host.ip("link set eth0 address 02:00:00:00:00:99");
    let (_, from) = capture.await_frame("gratuitous ARP from the new address", |frame| {
        arp_about(VIP, 1)(frame).filter(|(_, from)| from.ends_with(&[0x99]))
    });
    assert_eq!(from, mac(&host));
    let sent = node.status().counters.adverts_sent;
    let status = node.await_status("adverts by the new sockets", |s| s.counters.adverts_sent >= sent + 3);
    assert_eq!((status.state, status.error), (State::Active, None));
    assert_eq!(status.counters.became_active, 1);
}

#[test]
fn two_thousand_addresses_added_and_removed_at_once_disturb_no_router_and_nothing_is_missed_afterwards() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let host = host();
    let node = host.active(router(0, 1));
    for verb in ["add", "del"] {
        let mut script = String::new();
        for n in 0..2000 {
            writeln!(script, "addr {verb} 10.1.{}.{}/32 dev eth0", n / 250, n % 250 + 1).unwrap();
        }
        let file = std::env::temp_dir().join(format!("windlass-{}-{verb}", std::process::id()));
        std::fs::write(&file, script).unwrap();
        host.ip(&format!("-batch {}", file.display()));
        std::fs::remove_file(&file).unwrap();
        let expected = if verb == "add" { 2001 } else { 1 };
        assert_eq!(listed(&host)[0].ipv4.len(), expected);
    }
    assert_eq!(node.status().counters.became_active, 1);
    assert_eq!(node.status().state, State::Active);
    host.ip("addr del 192.0.2.1/24 dev eth0");
    await_halt(&node, "eth0 does not have 192.0.2.1");
}

#[test]
fn macvlans_of_the_engine_are_not_listed_but_others_are() {
    if !require_root() {
        return;
    }
    let host = host();
    for (name, alias) in [("vmac7", "windlass:7"), ("other", "somebody's")] {
        host.ip(&format!("link add {name} link eth0 type macvlan mode private"));
        host.ip(&format!("link set {name} alias {alias}"));
        host.ip(&format!("addr add 192.0.2.51/32 dev {name}"));
        host.ip(&format!("link set {name} up"));
    }
    let listed = listed(&host);
    let names: Vec<_> = listed.iter().map(|info| info.name.as_str()).collect();
    assert!(names.contains(&"eth0") && names.contains(&"other"), "{names:?}");
    assert!(!names.contains(&"vmac7"), "{names:?}");
}

#[test]
fn an_ipv6_address_that_another_host_has_is_neither_listed_nor_a_source() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let taken: std::net::Ipv6Addr = "2001:db8::77".parse().unwrap();
    let eth0 = |host: &Host| listed(host).into_iter().find(|info| info.name == "eth0");
    lan.hosts[0].ip("addr add 2001:db8::77/64 dev eth0");
    let has = |info: &InterfaceInfo| info.ipv6.contains(&(taken, 64)).then_some(());
    await_some("address that is checked", || eth0(&lan.hosts[0]).as_ref().and_then(has));
    lan.hosts[1].ip("addr add 2001:db8::77/64 dev eth0");
    let refused =
        |info: &InterfaceInfo| info.ipv6_unusable.contains(&(taken, Unusable::Duplicate)).then_some(());
    await_some("duplicate", || eth0(&lan.hosts[1]).as_ref().and_then(refused));
    assert!(has(&eth0(&lan.hosts[1]).unwrap()).is_none());

    // The same of a router's source, told by a notice.
    lan.hosts[0].ip("addr add fe80::1/64 dev eth0 nodad");
    let node = lan.hosts[1].engine();
    node.engine.apply(vec![router_v6()]);
    assert!(node.await_failure().contains("eth0 does not have fe80::1"));
    lan.hosts[1].ip("addr add fe80::1/64 dev eth0");
    node.await_event("failure for a duplicate", |event| match event {
        Event::Failed { error, .. } => error.contains("fe80::1 on interface eth0").then_some(error.clone()),
        _ => None,
    });
    node.await_status("duplicate source", |status| {
        let told = "is another host's too (duplicate address detection failed)";
        status.error.as_ref().is_some_and(|error| error.contains(told))
    });
    lan.hosts[0].ip("addr del fe80::1/64 dev eth0");
    lan.hosts[1].ip("addr del fe80::1/64 dev eth0");
    lan.hosts[1].ip("addr add fe80::1/64 dev eth0");
    await_recovery(&node);
}

const LINK_LOCAL: &str = "fe80::1";

/// A router for IPv6 on `eth0`, alone.
fn router_v6() -> RouterConfig {
    RouterConfig {
        interval: interval(),
        addresses: ["2001:db8::50".parse().unwrap()].into(),
        ..RouterConfig::new("eth0", Vrid::new(9).unwrap(), LINK_LOCAL.parse().unwrap())
    }
}

#[test]
fn an_ipv6_router_runs_while_its_link_local_address_can_be_used() {
    if !require_root() {
        return;
    }
    let host = host();
    let node = host.engine();
    node.engine.apply(vec![router_v6()]);
    let error = node.await_failure();
    assert!(error.contains("eth0 does not have fe80::1"), "{error}");
    // Checked for duplicates first, for a second or so.
    host.ip("addr add fe80::1/64 dev eth0");
    await_recovery(&node);
    host.ip("addr del fe80::1/64 dev eth0");
    await_halt(&node, "eth0 does not have fe80::1");
    host.ip("addr add fe80::1/64 dev eth0 nodad");
    await_recovery(&node);
    host.run(|| std::fs::write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1").unwrap());
    await_halt(&node, "eth0 does not have fe80::1");
    host.run(|| std::fs::write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "0").unwrap());
    host.ip("addr add fe80::1/64 dev eth0 nodad");
    await_recovery(&node);
}

#[test]
fn an_ipv6_router_runs_on_an_interface_that_had_no_ipv6_when_it_was_opened() {
    if !require_root() {
        return;
    }
    let host = host();
    // Below the least that IPv6 needs.
    host.ip("link set eth0 mtu 1200");
    let node = host.active(router(0, 1));
    node.engine.apply(vec![router(0, 1), router_v6()]);
    node.await_failure();
    host.ip("link set eth0 mtu 1500");
    host.ip("addr add fe80::1/64 dev eth0 nodad");
    await_recovery(&node);
    let v4 = node.engine.snapshot().into_iter().find(|status| status.key == router(0, 1).key());
    assert_eq!(v4.map(|status| status.counters.became_active), Some(1), "the IPv4 router was disturbed");
}
