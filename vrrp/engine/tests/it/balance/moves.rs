//! A VIP that moves, and other tables on the node.

use windlass_engine::{State, Vrid};

use crate::guard::scene::{connect, listen, run};
use crate::lab::{await_some, require_root, router, take_turn};

use super::scene::{Scene, VIPS, ask_all, await_active};

/// Each node serves by itself: what the next Active does not know it forwards to the node that does.
#[test]
fn established_connections_stay_with_their_backends_when_the_vip_moves() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    for to in [[&[0][..], &[1]], [&[2], &[2]]] {
        let scene = Scene::new();
        let first = scene.engine(0, 2);
        await_active(&first, State::Active);
        let kept = [scene.balance(0, to[0]), scene.balance(1, to[1])];
        kept[0].set_active(true);
        let second = scene.engine(1, 2);
        await_some("the first node's adverts", || {
            let heard = second.engine.snapshot().iter().all(|router| router.counters.adverts_received > 1);
            heard.then_some(())
        });
        let mut connections = scene.connections(10);
        let before = ask_all(&mut connections);
        first.engine.shutdown();
        kept[0].set_active(false);
        await_active(&second, State::Active);
        kept[1].set_active(true);
        assert_eq!(ask_all(&mut connections), before, "go on: {to:?}");
        let mut new = scene.connections(5);
        let expected = if to[1] == [1] { [2, 4] } else { [3, 2] };
        assert_eq!(ask_all(&mut new), [expected].into(), "new ones are the new Active's: {to:?}");
        assert_eq!(ask_all(&mut connections), before, "and go on: {to:?}");
    }
}

#[test]
fn beside_an_agent_on_the_same_node_both_serve_their_own() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let node = scene.node(0);
    let other = std::net::Ipv4Addr::new(192, 0, 2, 51);
    let agent = node.engine_with(|options| options.guard = true);
    agent.engine.apply(vec![windlass_engine::RouterConfig {
        addresses: [other.into()].into(),
        vrid: Vrid::new(8).unwrap(),
        ..router(0, 1)
    }]);
    agent.await_state(State::Active);
    // kube-proxy's.
    run(
        node,
        "nft -f -",
        "table ip kube-proxy {
           chain nat-prerouting {
             type nat hook prerouting priority dstnat;
             ip daddr 192.0.2.51 tcp dport 80 meta mark set meta mark | 0x4000 dnat to 192.0.2.3:8080
           }
           chain nat-postrouting {
             type nat hook postrouting priority srcnat;
             meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random
           }
         }",
    );
    let _server = listen(scene.node(2), 8080);
    let _vip = scene.active(0);
    let kept = scene.balance(0, &[0, 1, 2]);
    let serves = || {
        connect(scene.client(), other, 80).expect("the Service's");
        connect(scene.client(), other, 6443).expect_err("no port of the Service's");
        assert_eq!(ask_all(&mut scene.connections(60)), [[1, 4], [2, 1], [3, 1]].into());
    };
    serves();
    agent.engine.shutdown();
    assert_eq!(ask_all(&mut scene.connections(60)), [[1, 4], [2, 1], [3, 1]].into());
    // What was translated goes on, as the guard's table still translates.
    let mut connections = scene.connections(10);
    let before = ask_all(&mut connections);
    kept.close();
    for vip in VIPS {
        let refused = connect(scene.client(), vip, 6443).expect_err("no table");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{vip}");
    }
    assert_eq!(ask_all(&mut connections), before);
}
