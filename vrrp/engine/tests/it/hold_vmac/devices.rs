//! The devices themselves.

use windlass_engine::{Event, RouterConfig, State};

use super::scene::{
    Client, Family, addresses, await_device, await_vip, config, device, lan, parameter, said, serve,
};
use crate::lab::{VIP, await_some, require_root};

#[test]
fn the_device_is_down_in_backup_has_the_vip_while_active_and_goes_with_the_router() {
    if !require_root() {
        return;
    }
    for family in Family::BOTH {
        let lan = lan(2);
        let (one, two) = (lan.hosts[0].engine(), lan.hosts[1].engine());
        let names = [family.device(&lan.hosts[0]), family.device(&lan.hosts[1])];
        one.engine.apply(vec![config(family, 0, 2)]);
        one.await_state(State::Active);
        await_vip(&lan.hosts[0], family, true);
        let shown = await_device(&lan.hosts[0], &names[0], true);
        assert!(shown.contains(family.virtual_mac()) && shown.contains("macvlan mode bridge"), "{shown}");
        assert!(shown.contains("addrgenmode none") && shown.contains("qdisc blackhole"), "{shown}");
        assert!(shown.contains("alias windlass:57"), "{shown}");
        let bound = addresses(&lan.hosts[0], &names[0]);
        assert_eq!(bound.len(), 1, "nothing but the VIP: {bound:?}");
        assert!(bound[0].contains("dynamic") && bound[0].contains("noprefixroute"), "{bound:?}");
        let vip = family.bound();
        assert!(!addresses(&lan.hosts[0], "eth0").iter().any(|line| line.contains(&vip)));

        two.engine.apply(vec![config(family, 1, 2)]);
        two.await_state(State::Backup);
        await_device(&lan.hosts[1], &names[1], false);
        assert_eq!(addresses(&lan.hosts[1], &names[1]), Vec::<String>::new());
        one.engine.shutdown();
        assert_eq!(device(&lan.hosts[0], &names[0]), None, "removed before the end of the shutdown");
        two.await_state(State::Active);
        await_device(&lan.hosts[1], &names[1], true);
        await_vip(&lan.hosts[1], family, true);
        two.engine.apply(Vec::new());
        await_some("end of the device", || device(&lan.hosts[1], &names[1]).is_none().then_some(()));
    }
}

#[test]
fn the_parents_settings_are_restored_when_its_last_device_goes_but_not_what_others_set_since() {
    if !require_root() {
        return;
    }
    let lan = lan(1);
    let host = &lan.hosts[0];
    let arp =
        || ["arp_ignore", "arp_announce"].map(|name| parameter(host, &format!("net/ipv4/conf/eth0/{name}")));
    let node = host.engine();
    let other = RouterConfig {
        vrid: windlass_engine::Vrid::new(9).unwrap(),
        addresses: [].into(),
        ..config(Family::V4, 0, 1)
    };
    node.engine.apply(vec![config(Family::V4, 0, 1), other.clone()]);
    await_vip(host, Family::V4, true);
    assert_eq!(arp(), ["1", "2"]);
    node.engine.apply(vec![other]);
    await_some("end of the first device", || device(host, &Family::V4.device(host)).is_none().then_some(()));
    assert_eq!(arp(), ["1", "2"], "the second needs them");
    crate::interop::site::sysctl(host, "net/ipv4/conf/eth0/arp_announce", "1");
    node.engine.shutdown();
    assert_eq!(arp(), ["0", "1"]);
}

#[test]
fn a_device_that_somebody_removes_or_closes_is_put_back() {
    if !require_root() {
        return;
    }
    for family in Family::BOTH {
        let lan = lan(1);
        let host = &lan.hosts[0];
        let name = family.device(host);
        let node = host.engine();
        node.engine.apply(vec![config(family, 0, 1)]);
        await_vip(host, family, true);
        host.ip(&format!("link del {name}"));
        await_device(host, &name, true);
        await_vip(host, family, true);
        host.ip(&format!("link set {name} down"));
        await_device(host, &name, true);
        await_vip(host, family, true);
        host.ip(&format!("addr flush dev {name}"));
        await_vip(host, family, true);
    }
}

#[test]
fn the_device_follows_its_parent_that_is_renamed_removed_and_made_anew() {
    if !require_root() {
        return;
    }
    let lan = lan(2);
    let (host, client) = (&lan.hosts[0], &lan.hosts[1]);
    serve(host, Family::V4, 0);
    let node = host.engine();
    node.engine.apply(vec![config(Family::V4, 0, 1)]);
    await_vip(host, Family::V4, true);
    let before = Family::V4.device(host);
    host.ip("link set eth0 down");
    host.ip("link set eth0 name lan0");
    node.await_failure();
    await_some("VIP off the device", || addresses(host, &before).is_empty().then_some(()));
    host.ip("link set lan0 name eth0");
    host.ip("link set eth0 up");
    await_vip(host, Family::V4, true);
    await_device(host, &before, true);

    host.ip("link del eth0");
    node.await_failure();
    await_some("end of the device", || device(host, &before).is_none().then_some(()));
    lan.bridge.ip(&format!("link add port0 type veth peer name eth0 netns {}", host.tid()));
    lan.bridge.ip("link set port0 master br0 up");
    host.ip("link set eth0 up");
    host.ip("addr add 192.0.2.1/24 dev eth0");
    node.await_event("recovery", |event| matches!(event, Event::Recovered { .. }).then_some(()));
    await_vip(host, Family::V4, true);
    Client::on(client, Family::V4).await_answer(0);
    assert_eq!(parameter(host, "net/ipv4/conf/eth0/arp_ignore"), "1");
}

#[test]
fn a_device_of_that_name_without_the_mark_is_left_alone_and_named_until_it_is_gone() {
    if !require_root() {
        return;
    }
    let lan = lan(1);
    let host = &lan.hosts[0];
    let name = Family::V4.device(host);
    host.ip(&format!("link add {name} link eth0 type macvlan mode bridge"));
    let before = device(host, &name).unwrap();
    let node = host.engine();
    node.engine.apply(vec![config(Family::V4, 0, 1)]);
    let error = node.await_failure();
    assert!(
        error.contains(&format!("`ip link del {name}`")) && error.contains("without this engine's mark"),
        "{error}"
    );
    node.await_status("Initialize", |status| status.state == State::Initialize);
    assert_eq!(device(host, &name).unwrap(), before);
    host.ip(&format!("link del {name}"));
    await_vip(host, Family::V4, true);
}

#[test]
fn another_device_with_the_virtual_mac_address_is_named_while_it_is_up() {
    if !require_root() {
        return;
    }
    let lan = lan(1);
    let host = &lan.hosts[0];
    host.ip("link add vrrp.7 link eth0 address 00:00:5e:00:01:07 type macvlan mode bridge");
    host.ip("link set vrrp.7 up");
    let node = host.engine();
    node.engine.apply(vec![config(Family::V4, 0, 1)]);
    let error = node.await_failure();
    assert!(error.contains("another device on eth0 has the virtual router MAC address"), "{error}");
    host.ip("link del vrrp.7");
    await_vip(host, Family::V4, true);
}

#[test]
fn an_equal_address_on_the_parent_bars_the_router() {
    if !require_root() {
        return;
    }
    let lan = lan(1);
    let host = &lan.hosts[0];
    host.ip(&format!("addr add {VIP}/24 dev eth0"));
    let node = host.engine();
    node.engine.apply(vec![config(Family::V4, 0, 1)]);
    let error = node.await_failure();
    assert!(error.contains(&format!("the interface has {VIP}/24, which this engine did not")), "{error}");
    assert_eq!(addresses(host, &Family::V4.device(host)), Vec::<String>::new());
    host.ip(&format!("addr del {VIP}/24 dev eth0"));
    await_vip(host, Family::V4, true);
}

// shows: field-reports F-55
#[test]
fn a_port_of_a_bridge_is_named_as_the_reason_and_other_routers_run() {
    if !require_root() {
        return;
    }
    let lan = lan(1);
    let host = &lan.hosts[0];
    host.ip("link add br7 type bridge");
    host.ip("link set eth0 master br7");
    let node = host.engine();
    let respond = RouterConfig {
        vrid: windlass_engine::Vrid::new(9).unwrap(),
        addresses: [].into(),
        ..crate::lab::router(0, 1)
    };
    node.engine.apply(vec![config(Family::V4, 0, 1), respond]);
    let error = node.await_failure();
    assert!(error.contains("port of a bridge"), "{error}");
    node.await_state(State::Active);
    assert_eq!(said(host, "ip -o link show type macvlan").as_deref(), Some(""));
}
