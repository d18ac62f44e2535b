//! Who answers for a VIP of IPv6.

use std::process::Command;

use windlass_engine::{Event, RouterConfig, State, Vrid};

use crate::lab::{Capture, Host, Lan, await_some, mac, require_root};
use crate::lab6::{VIP6, advertisement_of, ask_for, link_local, number, router6};

/// What the host's kernel says.
fn ip(host: &Host, arguments: &str) -> String {
    let line = arguments.to_owned();
    let output = host.run(move || Command::new("ip").args(line.split(' ')).output().unwrap());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(mac: &[u8]) -> String {
    mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// Waits until the observer's kernel has the VIP at this host.
fn await_cached(observer: &Host, host: &Host) {
    let wanted = text(&mac(host));
    await_some("neighbour cache entry", || {
        ip(observer, &format!("-6 neigh show {VIP6} dev eth0")).contains(&wanted).then_some(())
    });
}

// shows: rfc9568 T16, T17
#[test]
fn only_the_active_answers_solicitations_and_the_asking_kernel_believes_it() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let client = &lan.hosts[2];
    number(client, 3);
    let nodes = [lan.hosts[0].engine(), lan.hosts[1].engine()];
    for (n, node) in nodes.iter().enumerate() {
        node.engine.apply(vec![router6(&lan, n, 2)]);
    }
    nodes[0].await_status("Active", |status| status.state == State::Active);
    nodes[1].await_status("Backup", |status| status.active == Some(link_local(&lan.hosts[0]).into()));
    for _ in 0..3 {
        let capture = Capture::on(client);
        client.ip("-6 neigh flush dev eth0");
        ask_for(client, VIP6.into());
        let (_, flags, at) = capture.await_frame("solicited advertisement", |frame| {
            advertisement_of(VIP6)(frame).filter(|(destination, ..)| !destination.is_multicast())
        });
        assert_eq!((flags, at), (0xe0, mac(&lan.hosts[0])), "router, solicited, override");
    }
    let wanted = text(&mac(&lan.hosts[0]));
    await_some("neighbour cache entry of a router", || {
        let known = ip(client, &format!("-6 neigh show {VIP6} dev eth0"));
        (known.contains(&wanted) && known.contains("router")).then_some(())
    });
    assert!(nodes[0].status().counters.replies >= 3);
    assert_eq!(nodes[1].status().counters.replies, 0);
    assert!(!ip(&lan.hosts[0], "-6 addr show").contains(&VIP6.to_string()), "bound");
}

// shows: rfc9568 T4
#[test]
fn a_takeover_is_advertised_to_all_nodes() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let router = router6(&lan, 0, 1);
    let capture = Capture::on(&lan.hosts[1]);
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router]);
    let seen = capture.await_frame("unsolicited advertisement", advertisement_of(VIP6));
    assert_eq!(seen, ("ff02::1".parse().unwrap(), 0xa0, mac(&lan.hosts[0])), "router, override");
}

#[test]
fn a_cache_that_names_the_failed_active_is_corrected_by_the_next() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let client = &lan.hosts[2];
    number(client, 3);
    let routers = [router6(&lan, 0, 2), router6(&lan, 1, 2)];
    let nodes = [lan.hosts[0].engine(), lan.hosts[1].engine()];
    for (node, router) in nodes.iter().zip(routers) {
        node.engine.apply(vec![router]);
    }
    nodes[0].await_state(State::Active);
    ask_for(client, VIP6.into());
    await_cached(client, &lan.hosts[0]);
    lan.pull_cable(0);
    // The client asks nobody: the entry is changed by the announcement alone.
    await_cached(client, &lan.hosts[1]);
}

#[test]
fn a_host_that_wants_the_vip_for_itself_is_told_that_it_is_taken() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].active(router6(&lan, 0, 1));
    let client = &lan.hosts[1];
    await_some("answer to duplicate address detection", || {
        client.ip(&format!("addr add {VIP6}/64 dev eth0"));
        await_some("duplicate address detected", || {
            ip(client, "-6 addr show dev eth0 dadfailed").contains(&VIP6.to_string()).then_some(())
        });
        client.ip(&format!("addr del {VIP6}/64 dev eth0"));
        // An announcement may have told it before it asked: once more.
        (node.status().counters.replies > 0).then_some(())
    });
}

#[test]
fn another_host_that_claims_a_vip_is_reported() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].active(router6(&lan, 0, 1));
    // A foreign router of another VRID with the same address.
    let thief = lan.hosts[1].engine();
    thief.engine.apply(vec![RouterConfig {
        vrid: Vrid::new(8).unwrap(),
        source: link_local(&lan.hosts[1]).into(),
        ..router6(&lan, 0, 1)
    }]);
    let (address, claimant) = node.await_event("conflict", |event| match event {
        Event::AddressConflict { address, mac, .. } => Some((*address, mac.to_vec())),
        _ => None,
    });
    assert_eq!((address, claimant), (VIP6.into(), mac(&lan.hosts[1])));
}

#[test]
fn a_vip_of_a_thousand_is_heard_by_its_group() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let client = &lan.hosts[1];
    number(client, 2);
    let addresses = (0..1000_u16).map(|n| [0x2001, 0xdb8, 0, 0, 0, 0, 1, n].into());
    let mut router = router6(&lan, 0, 1);
    router.addresses = addresses.map(|address: std::net::Ipv6Addr| address.into()).collect();
    let node = lan.hosts[0].active(router);
    for n in [0, 499, 999] {
        let vip = std::net::Ipv6Addr::from([0x2001, 0xdb8, 0, 0, 0, 0, 1, n]);
        let capture = Capture::on(client);
        ask_for(client, vip.into());
        let (_, _, at) = capture.await_frame("solicited advertisement", |frame| {
            advertisement_of(vip)(frame).filter(|(destination, ..)| !destination.is_multicast())
        });
        assert_eq!(at, mac(&lan.hosts[0]), "{vip}");
    }
    await_some("a thousand groups", || {
        (ip(&lan.hosts[0], "-6 maddr show dev eth0").matches("ff02::1:ff").count() >= 1000).then_some(())
    });
    node.engine.apply(Vec::new());
    await_some("groups left", || {
        (ip(&lan.hosts[0], "-6 maddr show dev eth0").matches("ff02::1:ff").count() < 10).then_some(())
    });
}

// shows: rfc9568 T17
/// A switch that snoops MLD lets a solicitation through only to who has joined its group.
#[test]
fn a_backup_that_takes_over_is_asked_through_a_switch_that_snoops() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    // Half a second, in centiseconds: until then the bridge floods, in case there is another querier.
    lan.bridge
        .ip("link set br0 type bridge mcast_query_response_interval 50 mcast_startup_query_interval 50");
    let client = &lan.hosts[2];
    number(client, 3);
    let routers = [router6(&lan, 0, 2), router6(&lan, 1, 2)];
    lan.bridge.ip("link set br0 type bridge mcast_querier 1");
    let nodes = [lan.hosts[0].engine(), lan.hosts[1].engine()];
    for (node, router) in nodes.iter().zip(routers) {
        node.engine.apply(vec![router]);
    }
    nodes[1].await_status("Backup", |status| status.active.is_some());
    await_some("both ports in the bridge's table", || {
        let table = bridge_groups(&lan.bridge);
        (table.matches("ff02::1:ff00:50").count() >= 2).then_some(())
    });
    lan.pull_cable(0);
    nodes[1].await_state(State::Active);
    let capture = Capture::on(client);
    client.ip("-6 neigh flush dev eth0");
    ask_for(client, VIP6.into());
    let (_, flags, at) = capture.await_frame("solicited advertisement", |frame| {
        advertisement_of(VIP6)(frame).filter(|(destination, ..)| !destination.is_multicast())
    });
    assert_eq!((flags, at), (0xe0, mac(&lan.hosts[1])));
}

/// Groups the bridge has learnt from MLD, each with its port.
fn bridge_groups(bridge: &Host) -> String {
    let output = bridge.run(|| Command::new("bridge").args(["mdb", "show", "dev", "br0"]).output().unwrap());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

// shows: rfc9568 T22
/// T22: both as Backup of the virtual router and as Active of another, and behind the guard.
#[test]
fn a_node_of_the_group_believes_the_announcement_of_the_next_active() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let observer = &lan.hosts[2];
    number(observer, 3);
    let nodes =
        [lan.hosts[0].engine(), lan.hosts[1].engine(), observer.engine_with(|options| options.guard = true)];
    for (n, node) in nodes.iter().enumerate() {
        let mut routers = vec![router6(&lan, n, 3)];
        if n == 2 {
            routers.push(RouterConfig {
                vrid: Vrid::new(9).unwrap(),
                peers: [].into(),
                addresses: ["2001:db8::59".parse().unwrap()].into(),
                ..routers[0].clone()
            });
        }
        node.engine.apply(routers);
    }
    await_some("Backup, and Active", || {
        let states: Vec<_> = nodes[2].engine.snapshot().iter().map(|status| status.state).collect();
        (states == [State::Backup, State::Active]).then_some(())
    });
    nodes[0].await_status("Active", |status| status.state == State::Active);
    ask_for(observer, VIP6.into());
    await_cached(observer, &lan.hosts[0]);
    lan.pull_cable(0);
    await_cached(observer, &lan.hosts[1]);
}
