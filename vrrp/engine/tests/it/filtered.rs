//! Multicast of VRRP is filtered, as by a switch that snoops and hears no querier; unicast passes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::Command;

use windlass_engine::auth::{AntiReplay, AuthMode, Authentication, Key, KeyId, Keyring, Window};
use windlass_engine::{Event, Family, RouterConfig, RouterStatus, State, Vrid};

use crate::lab::{
    Capture, Host, Lan, Node, address, address_v6, await_some, require_root, router, router_v6, source,
};

fn nft(host: &Host, rules: String) {
    let done = host.run(move || Command::new("nft").arg(rules).status().expect("run `nft`"));
    assert!(done.success());
}

/// The host with index `to` hears no multicast of the one with index `from` any more.
fn filter(lan: &Lan, from: usize, to: usize) {
    let rules = format!(
        "add table inet f; add chain inet f in {{ type filter hook input priority 0; }}; \
         add rule inet f in ip saddr {} ip daddr 224.0.0.18 drop; \
         add rule inet f in ip6 saddr {} ip6 daddr ff02::12 drop",
        address(from),
        address_v6(from)
    );
    nft(&lan.hosts[to], rules);
}

fn unfilter(lan: &Lan, to: usize) {
    nft(&lan.hosts[to], "delete table inet f".to_owned());
}

/// A router of each family that falls back to unicast.
fn both(host: usize, candidates: usize) -> Vec<RouterConfig> {
    [router(host, candidates), router_v6(host, candidates)].map(falls_back).into()
}

fn falls_back(config: RouterConfig) -> RouterConfig {
    RouterConfig { unicast_fallback: true, ..config }
}

fn signed(config: RouterConfig) -> RouterConfig {
    let keyring = Keyring::new(KeyId::new(1).unwrap(), Key::new(&[1; 32]).unwrap());
    let anti_replay = AntiReplay::Window(Window::from_seconds(300).unwrap());
    let authentication = Some(Authentication { keyring, mode: AuthMode::Enforce, anti_replay });
    RouterConfig { authentication, ..config }
}

fn start(lan: &Lan, host: usize, routers: Vec<RouterConfig>) -> Node {
    let node = lan.hosts[host].engine();
    node.engine.apply(routers);
    node
}

fn source_of(host: usize, family: Family) -> IpAddr {
    match family {
        Family::V4 => source(host),
        Family::V6 => address_v6(host).into(),
    }
}

/// Waits until this holds for each router.
fn await_all(node: &Node, what: &str, accept: impl Fn(&RouterStatus) -> bool) -> Vec<RouterStatus> {
    await_some(what, || Some(node.engine.snapshot()).filter(|all| all.iter().all(&accept)))
}

/// Waits until the first host is Active and the second knows it.
fn await_settled(nodes: [&Node; 2]) {
    await_all(nodes[0], "Active", |status| status.state == State::Active);
    await_all(nodes[1], "Backup that knows it", |status| {
        status.state == State::Backup && status.active == Some(source_of(0, status.key.family))
    });
}

/// Waits until the node says of each router that multicast does not pass between it and this host.
fn await_without_multicast(node: &Node, hosts: &[usize]) {
    await_all(node, "word of multicast", |status| {
        let expected = hosts.iter().map(|host| source_of(*host, status.key.family));
        status.without_multicast == expected.collect::<BTreeSet<_>>()
    });
}

/// Waits until the Active has sent so many adverts more; how often the other became Active.
fn takeovers_during(nodes: [&Node; 2], adverts: u64) -> Vec<u64> {
    let before = nodes[0].engine.snapshot();
    await_some("adverts", || {
        let now = nodes[0].engine.snapshot();
        let sent = |(old, new): (&RouterStatus, &RouterStatus)| {
            new.counters.adverts_sent >= old.counters.adverts_sent + adverts
        };
        before.iter().zip(&now).all(sent).then_some(())
    });
    nodes[1].engine.snapshot().iter().map(|status| status.counters.became_active).collect()
}

#[test]
fn without_fallback_two_answer_where_multicast_does_not_pass() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    filter(&lan, 0, 1);
    filter(&lan, 1, 0);
    let first = start(&lan, 0, vec![router(0, 2)]);
    let second = start(&lan, 1, vec![router(1, 2)]);
    for node in [&first, &second] {
        node.await_status("an Active among two", |status| status.counters.adverts_sent >= 20);
        assert_eq!(node.status().state, State::Active);
    }
}

#[test]
fn where_multicast_passes_nowhere_one_is_active_and_both_say_so() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    filter(&lan, 0, 1);
    filter(&lan, 1, 0);
    let second = start(&lan, 1, both(1, 2));
    second.await_state(State::Active);
    let first = start(&lan, 0, both(0, 2));
    await_settled([&first, &second]);
    await_without_multicast(&first, &[1]);
    await_without_multicast(&second, &[0]);
    let told = RefCell::new(BTreeSet::new());
    first.await_event("events of both families", |event| {
        if let Event::WithoutMulticast { key, peers } = event
            && *peers == BTreeSet::from([source_of(1, key.family)])
        {
            told.borrow_mut().insert(key.family);
        }
        (told.borrow().len() == 2).then_some(())
    });
    let quiet = takeovers_during([&first, &second], 1);
    assert_eq!(takeovers_during([&first, &second], 40), quiet);
    await_settled([&first, &second]);
}

// shows: rfc9568 B8
#[test]
fn multicast_that_is_filtered_and_passes_again_moves_nothing() {
    if !require_root() {
        return;
    }
    for filtered in [&[(0, 1)][..], &[(0, 1), (1, 0)]] {
        let lan = Lan::new(2).with_link_local();
        let (first, second) = (start(&lan, 0, both(0, 2)), start(&lan, 1, both(1, 2)));
        await_settled([&first, &second]);
        for (from, to) in filtered {
            filter(&lan, *from, *to);
        }
        await_without_multicast(&first, &[1]);
        await_without_multicast(&second, &[0]);
        for (_, to) in filtered {
            unfilter(&lan, *to);
        }
        await_without_multicast(&second, &[]);
        await_without_multicast(&first, &[]);
        assert_eq!(takeovers_during([&first, &second], 10), [0, 0], "{filtered:?}");
    }
}

/// A copy has the trailer of the original: no replay.
#[test]
fn signed_adverts_fall_back_likewise_and_none_is_taken_for_a_replay() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let signing = |host| both(host, 2).into_iter().map(signed).collect::<Vec<_>>();
    let (first, second) = (start(&lan, 0, signing(0)), start(&lan, 1, signing(1)));
    await_settled([&first, &second]);
    filter(&lan, 0, 1);
    await_without_multicast(&first, &[1]);
    unfilter(&lan, 1);
    await_without_multicast(&second, &[]);
    await_without_multicast(&first, &[]);
    assert_eq!(takeovers_during([&first, &second], 10), [0, 0]);
    for node in [&first, &second] {
        await_all(node, "nothing refused", |status| status.counters.unauthenticated == 0);
    }
}

#[test]
fn two_actives_that_were_parted_meet_again_by_unicast() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2).with_link_local();
    let (first, second) = (start(&lan, 0, both(0, 2)), start(&lan, 1, both(1, 2)));
    await_settled([&first, &second]);
    lan.part(0, true);
    lan.part(1, true);
    await_all(&second, "two Actives", |status| status.state == State::Active);
    filter(&lan, 0, 1);
    filter(&lan, 1, 0);
    lan.part(0, false);
    await_settled([&first, &second]);
}

#[test]
fn a_resignation_reaches_by_unicast_whom_multicast_does_not_reach() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let config = |host| vec![falls_back(router(host, 2))];
    let (first, second) = (start(&lan, 0, config(0)), start(&lan, 1, config(1)));
    await_settled([&first, &second]);
    filter(&lan, 0, 1);
    await_without_multicast(&second, &[0]);
    second.forget_events();
    first.engine.shutdown();
    assert_eq!(second.await_state(State::Active), windlass_engine::TransitionReason::ActiveResigned);
}

// shows: rfc9568 B9
/// Each node is Active in one router: each hears the other, and nobody need be told by unicast.
#[test]
fn on_a_healthy_lan_nothing_goes_by_unicast() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let other = |host: usize| RouterConfig {
        vrid: Vrid::new(8).unwrap(),
        priority: router(1 - host, 2).priority,
        addresses: ["192.0.2.51".parse().unwrap()].into(),
        ..router(host, 2)
    };
    let routers = |host| vec![falls_back(router(host, 2)), falls_back(other(host))];
    let (first, second) = (start(&lan, 0, routers(0)), start(&lan, 1, routers(1)));
    for node in [&first, &second] {
        await_some("one Active router on each", || {
            let states: BTreeSet<State> = node.engine.snapshot().iter().map(|s| s.state).collect();
            (states == BTreeSet::from([State::Active, State::Backup])).then_some(())
        });
    }
    let capture = Capture::on(&lan.hosts[1]);
    let (multicast, unicast) = (Cell::new(0), Cell::new(0));
    capture.await_frame("adverts of three turns", |frame| {
        if frame.get(23) == Some(&112) {
            let of = if frame[30..34] == [224, 0, 0, 18] { &multicast } else { &unicast };
            of.set(of.get() + 1);
        }
        (multicast.get() == 100).then_some(())
    });
    assert_eq!(unicast.get(), 0);
}
