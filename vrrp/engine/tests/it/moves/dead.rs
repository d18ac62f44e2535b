//! Connections whose node has died.

use socket2::SockRef;
use windlass_engine::Vrid;

use super::*;

#[test]
fn connections_of_a_node_that_is_dead_are_reset() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let [_first, second] = scene.nodes(ConnectionForwarding::default());
    let mut connections = scene.connections();
    scene.lan.pull_cable(0);
    await_active(&second, State::Active);
    assert_reset(&mut connections, "after the takeover");
    assert_eq!(second.engine.forwarding_status().addresses, 0);
    let lead = run(&scene.lan.hosts[1], "nft list chain inet windlass lead", "");
    assert!(lead.contains("counter packets 0 "), "it was known to be dead before the takeover: {lead}");
}

#[test]
fn connections_of_a_node_that_dies_after_it_handed_over_are_reset() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let nodes = scene.nodes(ConnectionForwarding::default());
    let (mut connections, mut forgotten) = (scene.connections(), scene.connections());
    scene.prefer_second(&nodes, true);
    for connections in [&mut connections, &mut forgotten] {
        ask_all(connections, 1, "after the move");
    }
    scene.lan.pull_cable(0);
    assert_reset(&mut connections, "after the death of the node that had handed over");
    await_some("nothing forwarded", || (nodes[1].engine.forwarding_status().addresses == 0).then_some(()));
    // From the very ports of others of which nothing is heard any more, as if the client had lost its power: the kernel of the
    // node knows nothing of them either.
    let client = &scene.lan.hosts[CLIENT];
    let blackholes = [format!("blackhole {VIP}/32"), format!("blackhole {VIP6}/128")];
    for to in &blackholes {
        client.ip(&format!("route add {to}"));
    }
    let ports = forgotten.into_iter().map(|connection| {
        // No state of the client's own is in the way.
        SockRef::from(&connection.stream).set_linger(Some(Duration::ZERO)).unwrap();
        (connection.stream.local_addr().unwrap(), connection.vip)
    });
    let ports: Vec<_> = ports.collect();
    for to in &blackholes {
        client.ip(&format!("route del {to}"));
    }
    for (from, vip) in ports {
        let again = connect_from(client, from, vip).expect("a connection from the same port");
        let mut again = Connection { stream: again, vip };
        assert_eq!(again.ask().unwrap(), 2, "{from}");
    }
}

/// The node that forwards to it sees that in a virtual router which is none of its own, seconds before its kernel does.
#[test]
fn a_node_that_dies_is_sent_nothing_more_once_another_has_taken_its_place() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new(Mode::Nftables);
    let nodes = scene.nodes(ConnectionForwarding::default());
    let mut connections = scene.connections();
    scene.prefer_second(&nodes, true);
    ask_all(&mut connections, 1, "after the move");
    let another = |n: usize, priority: u8| RouterConfig {
        vrid: Vrid::new(9).unwrap(),
        priority: Priority::new(priority).unwrap(),
        addresses: ["192.0.2.60".parse().unwrap()].into(),
        ..router(n, 4)
    };
    let preferred = Priority::new(254).unwrap();
    nodes[0].engine.apply([scene.routers(0, |_| ()), vec![another(0, 254)]].concat());
    let of_second = scene.routers(1, |router| router.priority = preferred);
    nodes[1].engine.apply([of_second, vec![another(1, 100)]].concat());
    let third = scene.lan.hosts[BACKEND].engine();
    third.engine.apply(vec![another(BACKEND, 200)]);
    for node in [&nodes[1], &third] {
        await_some("the first node's adverts", || {
            let routers = node.engine.snapshot();
            let heard = routers.iter().find(|router| router.key.vrid.get() == 9)?.active;
            (heard == Some("192.0.2.1".parse().unwrap())).then_some(())
        });
    }
    scene.lan.pull_cable(0);
    third.await_state(State::Active);
    let first = || run(&scene.lan.hosts[1], "ip -4 neigh show 192.0.2.1 dev eth0", "");
    await_some("nothing of IPv4 forwarded", || {
        (nodes[1].engine.forwarding_status().addresses <= 1).then_some(())
    });
    assert!(!first().contains("FAILED"), "its kernel knows already: {}", first());
    for connection in connections.iter_mut().filter(|connection| connection.vip.is_ipv4()) {
        assert_eq!(connection.ask().unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}
