//! Interfaces that are not there, and come.

use std::net::IpAddr;

use windlass_engine::{Engine, Event, RouterConfig, State};

use crate::lab::{Lan, address, await_some, require_root, router, source};

// shows: allocation 103; rfc9568 T18
#[test]
fn a_router_on_an_unknown_interface_fails_by_name_and_runs_when_the_interface_comes() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![RouterConfig { interface: "eth7".to_owned(), ..router(0, 1) }]);
    let error = node.await_failure();
    assert!(error.starts_with("interface eth7 does not exist"), "{error}");
    assert_eq!(node.status().error, Some(error));

    lan.hosts[0].ip("link add eth7 type veth peer name far");
    let error = node.await_failure();
    assert_eq!(error, "interface eth7 is down: `ip link set eth7 up`");
    lan.hosts[0].ip("link set far up");
    lan.hosts[0].ip("link set eth7 up");
    let error = node.await_event("failure for lack of an address", |event| match event {
        Event::Failed { error, .. } if error.contains("no IPv4 address") => Some(error.clone()),
        _ => None,
    });
    assert!(error.contains("does not have 192.0.2.1"), "{error}");
    lan.hosts[0].ip("addr del 192.0.2.1/24 dev eth0");
    lan.hosts[0].ip("addr add 192.0.2.1/24 dev eth7");
    node.await_event("recovery", |event| matches!(event, Event::Recovered { .. }).then_some(()));
    node.await_state(State::Active);
    assert_eq!(node.status().error, None);

    lan.hosts[0].ip("link del eth7");
    // The kernel takes it down first.
    node.await_event("failure for lack of the interface", |event| match event {
        Event::Failed { error, .. } => error.starts_with("interface eth7 does not exist").then_some(()),
        _ => None,
    });
    node.await_status("Initialize", |status| status.state == State::Initialize);
}

// shows: rfc9568 T18, T20
#[test]
fn a_source_that_the_interface_does_not_have_is_refused_before_anything_is_sent() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let node = lan.hosts[0].active(router(0, 1));
    node.engine.apply(vec![RouterConfig { source: source(8), ..router(0, 1) }]);
    let error = node.await_failure();
    assert!(error.contains("does not have 192.0.2.9") && error.contains("but 192.0.2.1"), "{error}");
    let sent = node.status().counters.adverts_sent;
    // Back to the right one: the only adverts are of the new active period.
    node.engine.apply(vec![router(0, 1)]);
    node.await_state(State::Active);
    assert!(node.status().counters.adverts_sent > sent);
    assert_eq!(node.status().counters.became_active, 2);
}

#[test]
fn interfaces_are_listed_with_mac_and_primary_address_first() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    lan.hosts[0].ip("addr add 192.0.2.77/24 dev eth0");
    lan.hosts[0].ip("link add noaddress type veth peer name far");
    lan.hosts[0].ip("link set noaddress up");
    // As DHCPv6 and a router advertisement leave it.
    lan.hosts[0].ip("addr add 2001:db8:9::5/128 dev eth0 nodad");
    lan.hosts[0].ip("route add 2001:db8:9::/64 dev eth0 proto ra");
    // A bridge of containers, and one with a way out.
    for (bridge, port) in [("br-5ee", "veth5ee"), ("br-lan", "uplink")] {
        lan.hosts[0].ip(&format!("link add {bridge} type bridge"));
        lan.hosts[0].ip(&format!("link add {port} type veth peer name p-{port}"));
        lan.hosts[0].ip(&format!("link set {port} master {bridge}"));
        lan.hosts[0].ip(&format!("link set {bridge} up"));
        lan.hosts[0].ip(&format!("addr add 203.0.113.1/24 dev {bridge}"));
    }
    let found = lan.hosts[0].run(|| Engine::interfaces().unwrap());
    let names: Vec<_> = found.iter().map(|info| (info.name.as_str(), info.isolated)).collect();
    assert_eq!(names, [("br-5ee", true), ("br-lan", false), ("eth0", false)], "{found:?}");
    let found = &found[2..];
    let own = ("2001:db8:9::5".parse().unwrap(), 64);
    assert!(found[0].ipv6.contains(&own), "{:?}", found[0].ipv6);
    assert_eq!(found[0].ipv4, [(address(0), 24), ("192.0.2.77".parse().unwrap(), 24)]);
    assert!(found[0].carrier && found[0].mac != [0; 6]);
}

#[test]
fn the_machine_has_addresses_elsewhere_too_and_speaks_to_the_world_from_that_of_its_default_route() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let host = &lan.hosts[0];
    let host_addresses = || host.run(|| Engine::host_addresses().unwrap());
    assert_eq!(host_addresses().sources, [] as [IpAddr; 0]);
    host.ip("link set lo up");
    host.ip("addr add 198.51.100.1/32 dev lo");
    host.ip("link add eth1 type veth peer name far");
    host.ip("addr add 203.0.113.1/24 dev eth1");
    host.ip("addr add 2001:db8::1/64 dev eth0 nodad");
    let routes = [
        ("route add default via 192.0.2.254", "192.0.2.1"),
        ("route add default via 2001:db8::254", "192.0.2.1 2001:db8::1"),
        ("route replace default via 192.0.2.254 src 198.51.100.1", "198.51.100.1 2001:db8::1"),
        ("route replace unreachable default", "2001:db8::1"),
    ];
    for (command, expected) in routes {
        host.ip(command);
        await_some(&format!("{expected} after `ip {command}`"), || {
            let sources: Vec<_> = host_addresses().sources.iter().map(ToString::to_string).collect();
            (sources.join(" ") == expected).then_some(())
        });
    }
    let found = host_addresses();
    for (interface, address) in [("lo", "198.51.100.1"), ("eth1", "203.0.113.1"), ("eth0", "192.0.2.1")] {
        let listed = (interface.to_owned(), address.parse().unwrap());
        assert!(found.addresses.contains(&listed), "{listed:?} is not among {:?}", found.addresses);
    }
    let names: Vec<_> = found.interfaces.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["eth0"], "eth1 is down");
}
