//! A Backup hears its Active again after whatever was done to its interface: one that did not would become a second Active.

use std::io::Write;
use std::process::{Command, Stdio};

use windlass_engine::{Engine, Family, RouterConfig, State};

use crate::lab::{Host, Lan, Node, address_v6, await_some, mac, require_root, router, router_v6, source};

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// An Active and a Backup that hears it, of each family.
fn pair(lan: &Lan) -> [Node; 2] {
    let nodes = [0, 1].map(|host| {
        let node = lan.hosts[host].engine();
        node.engine.apply(both(host));
        node
    });
    await_hearing(&nodes[1], &FAMILIES, "at first");
    nodes
}

fn both(host: usize) -> Vec<RouterConfig> {
    vec![router(host, 2), router_v6(host, 2)]
}

/// The second host's routers are Backup, and hear ten adverts more of the first one's.
fn await_hearing(node: &Node, families: &[Family], when: &str) {
    let heard = |family: Family| {
        let status = node.engine.snapshot().into_iter().find(|status| status.key.family == family);
        status.filter(|status| status.error.is_none() && status.state != State::Initialize)
    };
    for family in families {
        let active = match family {
            Family::V4 => source(0),
            Family::V6 => address_v6(0).into(),
        };
        let before = await_some("running router", || heard(*family)).counters;
        let after = await_some(&format!("ten more adverts of {family} {when}"), || {
            heard(*family).filter(|status| status.counters.adverts_received >= before.adverts_received + 10)
        });
        assert_eq!((after.state, after.active), (State::Backup, Some(active)), "{family} {when}");
        assert_eq!(after.counters.became_active, 0, "{family} {when}");
    }
}

fn sysctl(host: &Host, key: &'static str, value: &'static str) {
    host.run(move || std::fs::write(format!("/proc/sys/net/{key}"), value).unwrap());
}

/// `ip` without a pause between its steps: they may be noticed in one go.
fn at_once(host: &Host, steps: String) {
    host.run(move || {
        let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        ip.stdin.take().unwrap().write_all(steps.as_bytes()).unwrap();
        assert!(ip.wait().unwrap().success(), "{steps}");
    });
}

#[test]
fn a_backup_hears_after_its_interface_was_down() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let nodes = pair(&lan);
    lan.hosts[1].ip("link set eth0 down");
    nodes[1].await_failure();
    lan.hosts[1].ip("link set eth0 up");
    lan.hosts[1].ip("addr add fe80::2/64 dev eth0 nodad");
    await_hearing(&nodes[1], &FAMILIES, "after the interface was down");
}

#[test]
fn a_backup_hears_after_ipv6_was_disabled() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let nodes = pair(&lan);
    sysctl(&lan.hosts[1], "ipv6/conf/eth0/disable_ipv6", "1");
    nodes[1].await_failure();
    sysctl(&lan.hosts[1], "ipv6/conf/eth0/disable_ipv6", "0");
    lan.hosts[1].ip("addr add fe80::2/64 dev eth0 nodad");
    await_hearing(&nodes[1], &FAMILIES, "after IPv6 was disabled");
}

#[test]
fn a_backup_hears_after_the_mtu_was_too_small_for_ipv6() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let nodes = pair(&lan);
    lan.hosts[1].ip("link set eth0 mtu 1200");
    nodes[1].await_failure();
    lan.hosts[1].ip("link set eth0 mtu 1500");
    lan.hosts[1].ip("addr add fe80::2/64 dev eth0 nodad");
    await_hearing(&nodes[1], &FAMILIES, "after the MTU was too small for IPv6");
}

#[test]
fn a_backup_hears_after_the_mtu_was_too_small_for_a_moment() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let nodes = pair(&lan);
    at_once(
        &lan.hosts[1],
        "link set eth0 mtu 1200\nlink set eth0 mtu 1500\naddr add fe80::2/64 dev eth0 nodad\n".to_owned(),
    );
    await_hearing(&nodes[1], &FAMILIES, "after the MTU was too small for a moment");
}

#[test]
fn a_backup_hears_on_an_interface_that_had_no_ipv6_at_first() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let first = lan.hosts[0].engine();
    first.engine.apply(both(0));
    lan.hosts[1].ip("link set eth0 mtu 1200");
    let second = lan.hosts[1].engine();
    second.engine.apply(both(1));
    second.await_failure();
    await_hearing(&second, &[Family::V4], "without IPv6");
    lan.hosts[1].ip("link set eth0 mtu 1500");
    lan.hosts[1].ip("addr add fe80::2/64 dev eth0 nodad");
    await_hearing(&second, &FAMILIES, "after IPv6 came");
}

#[test]
fn a_backup_hears_after_its_addresses_were_flushed() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let nodes = pair(&lan);
    lan.hosts[1].ip("addr flush dev eth0");
    nodes[1].await_failure();
    lan.hosts[1].ip("addr add fe80::2/64 dev eth0 nodad");
    lan.hosts[1].ip("addr add 192.0.2.2/24 dev eth0");
    await_hearing(&nodes[1], &FAMILIES, "after its addresses were flushed");
}

#[test]
fn a_backup_hears_on_an_interface_made_anew_with_the_old_index_and_link_layer_address() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let nodes = pair(&lan);
    let listed = lan.hosts[1].run(|| Engine::interfaces().unwrap());
    let index = listed.into_iter().find(|info| info.name == "eth0").unwrap().index;
    let mac = mac(&lan.hosts[1]).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    let steps = format!(
        "link del eth0\nlink add eth0 index {index} address {mac} type veth peer name port9 netns {}\n\
         link set eth0 up\naddr add fe80::2/64 dev eth0 nodad\naddr add 192.0.2.2/24 dev eth0\n",
        lan.bridge.tid()
    );
    at_once(&lan.hosts[1], steps);
    lan.bridge.ip("link set port9 master br0 up");
    await_hearing(&nodes[1], &FAMILIES, "after the interface was made anew");
}

#[test]
fn vips_are_asked_for_after_the_mtu_was_too_small_for_a_moment() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1).with_link_local();
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![router_v6(0, 1)]);
    let joined = || {
        let groups = lan.hosts[0].run(|| std::fs::read_to_string("/proc/thread-self/net/igmp6").unwrap());
        // Of fe80::50 and 2001:db8::50.
        groups.contains("ff0200000000000000000001ff000050").then_some(())
    };
    await_some("group of the VIPs", joined);
    at_once(
        &lan.hosts[0],
        "link set eth0 mtu 1200\nlink set eth0 mtu 1500\naddr add fe80::1/64 dev eth0 nodad\n".to_owned(),
    );
    await_some("group of the VIPs, again", joined);
    // Closing the old sockets costs no membership.
    let sent = node.status().counters.adverts_sent;
    node.await_status("adverts of some seconds", |status| status.counters.adverts_sent >= sent + 30);
    assert!(joined().is_some());
}
