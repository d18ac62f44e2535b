//! What forwarding rests on: its window, the rules of the routing, and a kernel that picks connections up.

use windlass_engine::MarkMask;

use super::*;

/// The window closes for what was not heard of. What was goes on.
#[test]
fn what_was_heard_of_in_the_window_goes_on_after_it_and_what_was_not_is_reset() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let settings =
        ConnectionForwarding { window: Duration::from_secs(5), marks: MarkMask::new(0x0300).unwrap() };
    let nodes = scene.nodes(settings);
    let (mut heard, mut silent) = (scene.connect(VIP.into()), scene.connect(VIP.into()));
    assert_eq!((heard.ask().unwrap(), silent.ask().unwrap()), (1, 1));
    scene.prefer_second(&nodes, true);
    let window = || run(&scene.lan.hosts[1], "nft list map inet windlass window4", "").contains("192.0.2.50");
    assert!(window(), "open after the move");
    await_some("the end of the window", || {
        assert_eq!(heard.ask().unwrap(), 1);
        (!window()).then_some(())
    });
    assert_eq!(silent.ask().unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(heard.ask().unwrap(), 1);
}

// shows: field-reports F-77
#[test]
fn rules_of_the_routing_are_put_back_and_swept_and_others_left_alone() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let host = &scene.lan.hosts[1];
    // What a killed engine left, and what others have.
    host.ip("rule add pref 87 fwmark 0x30/0xf0 lookup 22275 protocol 87");
    host.ip("route add default via 192.0.2.99 dev eth0 table 22275");
    host.ip("route add 192.0.2.77/32 via 192.0.2.99 dev eth0 table 22275 protocol 87");
    host.ip("rule add pref 86 fwmark 0x30/0xf0 lookup 22275");
    host.ip("rule add pref 88 fwmark 0x30/0xf0 lookup 9 protocol 87");
    let rules = || run(host, "ip rule list", "");
    let nodes = scene.nodes(ConnectionForwarding::default());
    await_some("the sweep", || (!rules().contains("87:")).then_some(()));
    assert!(rules().contains("86:") && rules().contains("88:"), "{}", rules());
    let mut connections = scene.connections();
    scene.prefer_second(&nodes, true);
    ask_all(&mut connections, 1, "after the move");
    assert!(!run(host, "ip route show table 22275", "").contains("192.0.2.77"));
    // Marks of other programs may have the same bits: their packets to other hosts go as without us.
    let (vip, vip6) = (VIP.to_string(), VIP6.to_string());
    for (mark, to, is_led) in [
        ("0x10", vip.as_str(), true),
        ("0x10", vip6.as_str(), true),
        ("0x10", "192.0.2.3", false),
        ("0x1bd10", "192.0.2.3", false),
        ("0x10", "2001:db8::3", false),
        ("0x1bd10", "2001:db8::3", false),
    ] {
        let route = run(host, &format!("ip route get {to} mark {mark}"), "");
        assert_eq!(route.contains("via"), is_led, "{mark}: {route}");
    }
    let ours = |rules: String| rules.contains("87:") && rules.contains("fwmark 0x10/0xf0");
    assert!(ours(rules()), "{}", rules());
    host.ip("rule del pref 87");
    host.ip("route flush table 22273");
    await_some("the rule again", || ours(rules()).then_some(()));
    ask_all(&mut connections, 1, "with the rule put back");
}

#[test]
fn where_connections_cannot_be_picked_up_it_is_said_and_new_ones_are_served() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let loose = "/proc/sys/net/netfilter/nf_conntrack_tcp_loose";
    scene.lan.hosts[1].run(move || std::fs::write(loose, "0").unwrap());
    let nodes = scene.nodes(ConnectionForwarding::default());
    scene.prefer_second(&nodes, true);
    let error = await_some("the reason", || nodes[1].engine.forwarding_status().error.clone());
    assert!(error.contains("nf_conntrack_tcp_loose is 0"), "{error}");
    let mut new = scene.connections();
    ask_all(&mut new, 2, "begun after the move");
}
