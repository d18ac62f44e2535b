//! Hypervisors and switches that drop frames whose source address is not their sender's.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use windlass_engine::SharedBy;

use crate::guard::scene::run;
use crate::lab::{Host, LIMIT, await_some, mac, require_root, take_turn};

use super::scene::{NODES, Scene, VIPS, answer_of, shares};

/// Drops frames of `from` that match one of these at `at`, before the IP stack.
fn filter(at: &Host, from: &Host, matches: [&str; 2]) {
    let from: Vec<_> = mac(from).iter().map(|byte| format!("{byte:02x}")).collect();
    let rules = matches.map(|one| format!("ether saddr {} {one} drop\n", from.join(":"))).concat();
    let chain = format!("chain in {{ type filter hook ingress device eth0 priority -500;\n{rules}}}");
    run(at, "nft -f -", &format!("table netdev f {{\n{chain}\n}}"));
}

/// Waits until the first node knows that the second one is filtered, or that it is not. Then clients of its lots are served by the others,
/// or by itself.
fn await_filtered(scene: &Scene, is_filtered: bool) {
    let both: BTreeSet<IpAddr> =
        shares(|_| 1, SharedBy::Connection).services.values().map(|one| one.servers[1]).collect();
    let expected = if is_filtered { both } else { BTreeSet::new() };
    let begun = Instant::now();
    await_some("the verdict", || (scene.nodes[0].engine.sharing_status().filtered == expected).then_some(()));
    eprintln!("filtered: {is_filtered}, known after {:?}", begun.elapsed());
    for vip in [VIPS, VIPS].concat() {
        let client = scene.connect_to(1, vip, LIMIT).unwrap();
        assert_eq!(client.answer == answer_of(1, client.own), !is_filtered, "{}", client.answer);
    }
}

/// A filter of frames from one of the first two nodes to the other appears and goes.
fn try_filter(from: usize, matches: [&str; 2]) {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::new();
    let hosts = &scene.lan.hosts;
    await_filtered(&scene, false);
    filter(&hosts[1 - from], &hosts[from], matches);
    await_filtered(&scene, true);
    for n in 0..NODES {
        let status = scene.nodes[n].engine.sharing_status();
        assert!(status.silent.is_empty() && status.returning.is_empty(), "{n}: {status:?}");
    }
    run(&hosts[1 - from], "nft -f -", "delete table netdev f");
    await_filtered(&scene, false);
}

#[test]
fn lots_of_a_server_to_which_no_client_s_address_passes_are_served_by_others_until_one_does() {
    try_filter(
        0,
        ["ip saddr != { 192.0.2.1, 192.0.2.50 }", "ip6 saddr != { fe80::/10, 2001:db8::1, 2001:db8::50 }"],
    );
}

#[test]
fn so_are_those_of_a_server_whose_answers_from_a_shared_address_do_not_pass() {
    try_filter(1, ["ip saddr 192.0.2.50", "ip6 saddr 2001:db8::50"]);
}
