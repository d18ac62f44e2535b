//! Whom connections are told.

use super::*;
use crate::connections::scene::CLIENT;
use crate::lab::address;

/// It serves as backend as well.
const THIRD: usize = 3;

/// What the node knows of the one with this index.
fn of(node: &Node, peer: usize) -> Option<PeerReplication> {
    let status = node.engine.replication_status();
    status.peers.iter().find(|one| one.peer == address(peer)).cloned()
}

#[test]
fn a_node_that_is_told_nothing_is_known_to_live_and_has_the_connections_once_it_is_told() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    // The client is a candidate that does not live.
    let told = |host: usize, replica: usize| {
        let replicas = [address(replica).into()].into();
        vec![RouterConfig { vip_as_source: true, replicas, ..router(host, THIRD + 1) }]
    };
    let [first, second, third] = [(A, B), (B, A), (THIRD, A)].map(|(host, replica)| {
        let node = scene.node(host).engine_with(replicate);
        node.engine.apply(told(host, replica));
        node
    });
    first.await_state(State::Active);
    let streams: Vec<TcpStream> = (0..MANY).map(|_| scene.connect(VIPS[0])).collect();
    assert_eq!(kept(&streams), MANY);
    let await_all = |node: &Node| {
        let all = || of(node, A).filter(|peer| peer.in_sync && peer.connections == MANY);
        await_some("replicas", || all().map(drop));
    };
    await_all(&second);
    let answers = |peer: usize| of(&first, peer).filter(|peer| peer.answers);
    let heard = await_some("a word of who is told nothing", || answers(THIRD));
    assert!(!heard.is_replica && answers(CLIENT).is_none());
    assert!(of(&third, A).is_some_and(|peer| !peer.in_sync && peer.connections == 0));
    first.engine.apply(told(A, THIRD));
    await_all(&third);
}
