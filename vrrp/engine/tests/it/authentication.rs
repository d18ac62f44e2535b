//! Signed adverts: which are accepted, and how keys and modes change without an outage.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, SystemTime};

use socket2::{Domain, Protocol, Socket, Type};
use windlass_engine::auth::{
    AntiReplay, AuthMode, Authentication, Key, KeyId, Keyring, Signer, WallTime, Window,
};
use windlass_engine::{
    Event, Hold, Interval, Priority, RouterConfig, State, TransitionReason, Transport, Versions,
};
use windlass_vrrp::Version;
use windlass_vrrp::wire::{AddressList, Advert, Checksum, Path};

use crate::lab::{Capture, Host, Lan, Node, address, await_some, require_root, router, router_v6, source};

fn key(id: u8) -> (KeyId, Key) {
    (KeyId::new(id).unwrap(), Key::new(&[id; 32]).unwrap())
}

/// Signs with the first of these keys and takes all.
fn keyring(ids: &[u8]) -> Keyring {
    let (id, first) = key(ids[0]);
    let others = ids[1..].iter().map(|id| key(*id));
    others.fold(Keyring::new(id, first), |wake_helpers, (id, key)| wake_helpers.with(id, key).unwrap())
}

/// As long as can be: a busy machine must not make adverts stale.
fn anti_replay() -> AntiReplay {
    AntiReplay::Window(Window::from_seconds(300).unwrap())
}

fn authenticated(mode: AuthMode, keyring: Keyring, config: RouterConfig) -> RouterConfig {
    let authentication = Some(Authentication { keyring, mode, anti_replay: anti_replay() });
    RouterConfig { authentication, ..config }
}

/// A pace at which a busy machine does not miss adverts.
fn slowly(config: RouterConfig) -> RouterConfig {
    RouterConfig { interval: Interval::SECOND, ..config }
}

/// The first two hosts' engines, once the first is Active and the second hears it.
fn pair(lan: &Lan, configs: [RouterConfig; 2]) -> [Node; 2] {
    let active = configs[0].source;
    let nodes = [lan.hosts[0].engine(), lan.hosts[1].engine()];
    for (node, config) in nodes.iter().zip(configs) {
        node.engine.apply(vec![config]);
    }
    nodes[0].await_status("Active", |status| status.state == State::Active);
    nodes[1].await_status("Backup that hears it", |status| {
        status.state == State::Backup && status.active == Some(active)
    });
    nodes.iter().for_each(Node::forget_events);
    nodes
}

fn await_refused(node: &Node, reason: &str, count: u64) {
    await_some(reason, || {
        let links = node.engine.links();
        links.iter().find(|link| link.rejected.get(reason).is_some_and(|refused| *refused >= count)).map(drop)
    });
}

fn takeovers(nodes: &[Node; 2]) -> [u64; 2] {
    nodes.each_ref().map(|node| node.status().counters.became_active)
}

/// Of the host with this index.
type Config = fn(usize) -> RouterConfig;

#[test]
fn routers_that_share_a_key_elect_whatever_carries_their_adverts() {
    if !require_root() {
        return;
    }
    let unicast = Transport::Unicast { ttl: 255, accept_ttl: 255..=255 };
    let kinds: [(&str, Config); 5] = [
        ("multicast", |host| router(host, 2)),
        ("IPv6", |host| router_v6(host, 2)),
        ("versions 2 and 3", |host| RouterConfig {
            versions: Versions::V2AndV3,
            interval: Interval::SECOND,
            ..router(host, 2)
        }),
        ("frames from the virtual MAC address", |host| RouterConfig { hold: Hold::Vmac, ..router(host, 2) }),
        ("unicast", |host| router(host, 2)),
    ];
    let lan = Lan::new(2).with_link_local();
    for (kind, config) in kinds {
        println!("{kind}");
        let configs = [0, 1].map(|host| {
            let mut config = authenticated(AuthMode::Enforce, keyring(&[1]), config(host));
            if kind == "unicast" {
                config.transport = unicast.clone();
            }
            config
        });
        let [first, second] = pair(&lan, configs);
        let heard = second.status().counters;
        assert!(heard.adverts_received > 0, "{kind}");
        assert_eq!((heard.unauthenticated, heard.unsigned), (0, 0), "{kind}");
        first.engine.apply(Vec::new());
        assert_eq!(second.await_state(State::Active), TransitionReason::ActiveResigned, "{kind}");
    }
}

// shows: threats T-14
/// It has a peer's address, so nothing but the signature keeps it from being obeyed.
#[test]
fn a_router_without_the_key_changes_nothing_and_is_counted() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let nodes = pair(
        &lan,
        [0, 1].map(|host| slowly(authenticated(AuthMode::Enforce, keyring(&[1]), router(host, 3)))),
    );
    let before = takeovers(&nodes);
    let third = lan.hosts[2].engine();
    let superior = |config| slowly(RouterConfig { priority: Priority::new(250).unwrap(), ..config });
    let forged = Keyring::new(KeyId::new(1).unwrap(), Key::new(&[99; 32]).unwrap());
    for (reason, config) in [
        ("auth_missing", router(2, 3)),
        ("auth_invalid_hmac", authenticated(AuthMode::Enforce, forged, router(2, 3))),
        ("auth_unknown_key", authenticated(AuthMode::Enforce, keyring(&[3]), router(2, 3))),
    ] {
        third.engine.apply(vec![superior(config)]);
        for node in &nodes {
            await_refused(node, reason, 3);
            let told = node.await_event(reason, |event| match event {
                Event::Unauthenticated { source, error, .. } if error.label() == reason => Some(*source),
                _ => None,
            });
            assert_eq!(told, source(2));
        }
    }
    assert_eq!(takeovers(&nodes), before);
    assert_eq!(nodes[1].status().active, Some(source(0)));
    assert!(nodes[0].status().counters.unauthenticated >= 9);
    // Once it has the key, it is obeyed.
    third.engine.apply(vec![superior(authenticated(AuthMode::Enforce, keyring(&[1]), router(2, 3)))]);
    nodes[1].await_status("Backup of the third", |status| status.active == Some(source(2)));
}

// shows: threats T-14
/// Recorded: the resignation of a router that is Active again when it is repeated.
#[test]
fn a_recorded_resignation_does_not_work_twice_not_even_after_a_change_of_keys() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(3);
    let config = |host, keys: &[u8]| slowly(authenticated(AuthMode::Enforce, keyring(keys), router(host, 2)));
    let nodes = pair(&lan, [0, 1].map(|host| config(host, &[1])));
    let capture = Capture::on(&lan.hosts[2]);
    nodes[0].engine.apply(Vec::new());
    let recorded = capture.await_frame("resignation", |frame| {
        let vrrp = frame.get(23) == Some(&112) && frame.get(26..30) == Some(&address(0).octets()[..]);
        (vrrp && frame[36] == 0).then(|| frame[14..].to_vec())
    });
    nodes[1].await_status("Active", |status| status.state == State::Active);
    nodes[0].engine.apply(vec![config(0, &[1])]);
    nodes[1].await_status("Backup again", |status| status.active == Some(source(0)));

    let before = (takeovers(&nodes), nodes[1].status().counters.resignations_received);
    send(&lan.hosts[2], vec![recorded.clone(); 3]);
    await_refused(&nodes[1], "auth_replay", 3);
    for between in [RouterConfig { authentication: None, ..config(1, &[1]) }, config(1, &[2, 1])] {
        nodes[1].engine.apply(vec![between]);
        // Answered when it has been applied.
        nodes[1].status();
    }
    send(&lan.hosts[2], vec![recorded; 3]);
    await_refused(&nodes[1], "auth_replay", 6);
    let heard = nodes[1].status().counters.adverts_received;
    nodes[1].await_status("more adverts", |status| status.counters.adverts_received >= heard + 3);
    assert_eq!((takeovers(&nodes), nodes[1].status().counters.resignations_received), before);
}

// shows: threats T-14
#[test]
fn a_secret_is_changed_without_an_outage() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let config = |host, keys: &[u8]| slowly(authenticated(AuthMode::Enforce, keyring(keys), router(host, 2)));
    let nodes = pair(&lan, [0, 1].map(|host| config(host, &[1])));
    let before = takeovers(&nodes);
    let mut heard = nodes[1].status().counters.adverts_received;
    // Add the new key, sign with it, remove the old one; one router after the other.
    for keys in [&[1, 2][..], &[2, 1], &[2]] {
        for (host, node) in nodes.iter().enumerate() {
            node.engine.apply(vec![config(host, keys)]);
            nodes[1].await_status("more adverts", |status| status.counters.adverts_received >= heard + 2);
            heard = nodes[1].status().counters.adverts_received;
        }
    }
    assert_eq!(takeovers(&nodes), before, "one Active all the time");
    assert_eq!(nodes.each_ref().map(|node| node.status().counters.unauthenticated), [0, 0]);
    nodes[0].engine.apply(Vec::new());
    assert_eq!(nodes[1].await_state(State::Active), TransitionReason::ActiveResigned);
}

#[test]
fn running_routers_come_to_authentication_without_an_outage() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let nodes = pair(&lan, [0, 1].map(|host| slowly(router(host, 2))));
    let before = takeovers(&nodes);
    let mut heard = nodes[1].status().counters.adverts_received;
    let mut unsigned = Vec::new();
    for mode in [AuthMode::ReceiveOnly, AuthMode::Permissive, AuthMode::Enforce] {
        // The Backup first: it hears a peer that is a step behind.
        for host in [1, 0] {
            nodes[host].engine.apply(vec![slowly(authenticated(mode, keyring(&[1]), router(host, 2)))]);
            nodes[1].await_status("more adverts", |status| status.counters.adverts_received >= heard + 2);
            heard = nodes[1].status().counters.adverts_received;
        }
        unsigned.push(nodes[1].status().counters.unsigned);
    }
    assert_eq!(takeovers(&nodes), before, "one Active all the time");
    assert_eq!(nodes.each_ref().map(|node| node.status().counters.unauthenticated), [0, 0]);
    assert!(unsigned[0] >= 2, "a plain peer is heard: {unsigned:?}");
    assert_eq!(unsigned[1], unsigned[2], "all sign: {unsigned:?}");
    nodes[0].engine.apply(Vec::new());
    assert_eq!(nodes[1].await_state(State::Active), TransitionReason::ActiveResigned);
}

#[test]
fn a_clock_that_drifts_is_told_before_its_adverts_are_refused() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let node = lan.hosts[0].active(slowly(authenticated(AuthMode::Enforce, keyring(&[1]), router(0, 2))));
    let signed = |ahead: u64| {
        let path = Path::V4 { source: address(1), destination: Ipv4Addr::new(224, 0, 0, 18) };
        let config = router(1, 2);
        let advert = Advert {
            path,
            ttl: 255,
            vrid: config.vrid,
            priority: Some(config.priority),
            interval: config.interval,
            addresses: AddressList::representing(&config.addresses, config.source, 1),
        };
        let now = WallTime::from(SystemTime::now() + Duration::from_secs(ahead));
        advert.signed_datagram(Version::V3, Checksum::Rfc9568, |subject| {
            Some(Signer::default().sign(&keyring(&[1]), anti_replay(), subject, now))
        })
    };
    send(&lan.hosts[1], vec![signed(200)]);
    let seconds = node.await_event("warning", |event| match event {
        Event::ClocksDiffer { source: from, seconds, .. } if *from == source(1) => Some(*seconds),
        _ => None,
    });
    assert!((151..=200).contains(&seconds), "{seconds}");
    assert_eq!(node.status().counters.unauthenticated, 0);
    send(&lan.hosts[1], vec![signed(1000)]);
    await_refused(&node, "auth_stale", 1);
    assert_eq!(node.status().counters.adverts_received, 1);
}

/// Sends these datagrams, IP header included.
fn send(host: &Host, datagrams: Vec<Vec<u8>>) {
    host.run(move || {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW))).unwrap();
        socket.bind_device(Some(b"eth0")).unwrap();
        let group = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 18), 0).into();
        for datagram in datagrams {
            socket.send_to(&datagram, &group).unwrap();
        }
    });
}
