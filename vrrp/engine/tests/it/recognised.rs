//! Candidates that nobody named to each other.

use std::collections::BTreeSet;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use nix::unistd::{Uid, setfsuid};
use windlass_engine::auth::{AntiReplay, AuthMode, Authentication, Key, KeyId, Keyring, Window};
use windlass_engine::{Engine, Event, Family, RouterConfig, State, TransitionReason, Vrid};

use crate::lab::{Host, Lan, Node, interval, require_root, router, source};

/// The router of the host with this index, which knows no peer.
fn unnamed(host: usize) -> RouterConfig {
    RouterConfig { recognise_peers: true, peers: BTreeSet::new(), ..router(host, 1) }
}

fn signing(key: &str) -> Authentication {
    let key: Key = format!("hex:{}", key.repeat(32)).parse().unwrap();
    let keyring = Keyring::new(KeyId::new(1).unwrap(), key);
    Authentication {
        keyring,
        mode: AuthMode::Enforce,
        anti_replay: AntiReplay::Window(Window::for_interval(interval())),
    }
}

fn await_one_active(nodes: &[Node], active: usize) {
    for (n, node) in nodes.iter().enumerate() {
        let wanted = if n == active { State::Active } else { State::Backup };
        node.await_status(&format!("{wanted} on {n}"), |status| {
            status.state == wanted && status.active == Some(source(active))
        });
    }
}

/// The second death shows that Backups which never heard of each other do so in time.
#[test]
fn candidates_that_know_no_peers_elect_one_and_follow_each_other() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let mut nodes: Vec<_> = lan.hosts.iter().map(Host::engine).collect();
    for (n, node) in nodes.iter().enumerate() {
        node.engine.apply(vec![unnamed(n)]);
    }
    await_one_active(&nodes, 0);
    for node in &nodes {
        node.forget_events();
    }
    drop(nodes.remove(0));
    assert_eq!(nodes[0].await_state(State::Active), TransitionReason::ActiveResigned);
    nodes[1].await_status("follower of the second", |status| status.active == Some(source(1)));
    // What it is told again changes nothing of what it has found out.
    nodes[1].engine.apply(vec![RouterConfig { preempt: false, ..unnamed(2) }]);
    nodes[1].await_status("follower still", |status| {
        status.state == State::Backup && status.active == Some(source(1))
    });
    assert_eq!(nodes[1].status().counters.became_active, 0, "it was Active beside another");
    lan.pull_cable(1);
    assert_eq!(nodes[1].await_state(State::Active), TransitionReason::ActiveSilent);
}

#[test]
fn a_router_of_the_same_vrid_with_other_addresses_is_no_peer() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let stranger = RouterConfig { addresses: ["192.0.2.99".parse().unwrap()].into(), ..unnamed(0) };
    let other = lan.hosts[0].active(stranger);
    let node = lan.hosts[1].active(unnamed(1));
    node.await_status("adverts of a stranger", |status| status.counters.foreign_adverts > 2);
    other.await_status("adverts of a stranger", |status| status.counters.foreign_adverts > 2);
    assert_eq!((node.status().state, other.status().state), (State::Active, State::Active));
}

#[test]
fn with_a_key_only_who_signs_with_it_is_recognised() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let keyed = |host: usize, key| RouterConfig { authentication: Some(signing(key)), ..unnamed(host) };
    let forger = lan.hosts[0].active(keyed(0, "42"));
    let node = lan.hosts[1].active(keyed(1, "17"));
    node.await_status("refused adverts", |status| status.counters.unauthenticated > 2);
    assert_eq!(node.status().state, State::Active, "{:?}", node.status());
    let backup = lan.hosts[2].engine();
    backup.engine.apply(vec![keyed(2, "17")]);
    backup.await_status("follower of who has the key", |status| status.active == Some(source(1)));
    drop(forger);
}

// shows: field-reports F-66
/// As an agent and the process that holds the control plane's address: to all others both would be one router.
#[test]
fn a_vrid_that_another_process_of_the_host_uses_is_left_to_it() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let first = lan.hosts[0].active(unnamed(0));
    let other = RouterConfig { addresses: ["192.0.2.99".parse().unwrap()].into(), ..unnamed(0) };
    let second = lan.hosts[0].engine();
    second.engine.apply(vec![other.clone()]);
    let error = second.await_failure();
    assert!(error.contains("another process of this host uses this VRID"), "{error}");
    let in_use =
        |vrid| lan.hosts[0].run(move || Engine::is_vrid_in_use("eth0", Family::V4, Vrid::new(vrid).unwrap()));
    assert!(in_use(7) && !in_use(8));
    drop(first);
    second.await_state(State::Active);
}

// shows: threats T-23
#[test]
fn a_vrid_that_a_process_of_another_user_claims_is_used_all_the_same_and_that_is_told() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let as_nobody = || {
        setfsuid(Uid::from_raw(65534));
        UnixDatagram::bind_addr(
            &SocketAddr::from_abstract_name("windlass-vrrp/eth0/IPv4/224.0.0.18/7").unwrap(),
        )
    };
    let _intruder = lan.hosts[0].run(move || std::thread::spawn(as_nobody).join().unwrap().unwrap());
    let node = lan.hosts[0].engine();
    node.engine.apply(vec![unnamed(0)]);
    let uid = node.await_event("news of the claim", |event| match event {
        Event::ClaimIgnored { intruder, .. } => Some(intruder.uid),
        _ => None,
    });
    assert_eq!(uid, Some(65534));
    node.await_state(State::Active);
    let in_use = lan.hosts[0].run(|| Engine::is_vrid_in_use("eth0", Family::V4, Vrid::new(7).unwrap()));
    assert!(in_use, "the router's own claim");
}
