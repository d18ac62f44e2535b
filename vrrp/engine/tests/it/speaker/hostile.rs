//! Routers that misbehave beside one that does not.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use socket2::SockRef;
use windlass_engine::bgp::wire::{Capabilities, Open, keepalive};

use super::*;
use crate::lab::{Host, LIMIT, require_root};

fn listen(host: &Host) -> TcpListener {
    let listener = host.run(|| TcpListener::bind("0.0.0.0:179").unwrap());
    listener.set_nonblocking(true).unwrap();
    listener
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = await_some("connection", || listener.accept().ok());
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// OPEN and KEEPALIVE of a router.
fn greeting() -> Vec<u8> {
    let open = Open {
        asn: Asn::new(ROUTER).unwrap(),
        hold_time: HoldTime::new(90).unwrap(),
        router_id: RouterId::new([192, 0, 2, 99].into()).unwrap(),
        capabilities: Capabilities {
            families: Family::ALL.into(),
            route_refresh: true,
            extended_next_hop: false,
            four_octet_as: Some(ROUTER),
        },
    };
    let mut bytes = Vec::new();
    open.encode(&mut bytes);
    keepalive(&mut bytes);
    bytes
}

/// A session with a router that behaves, to see that nothing disturbs it.
struct Witness(TcpListener, TcpStream);

impl Witness {
    /// Accepts the speaker's connection and answers it.
    fn meet(listener: TcpListener) -> Self {
        let mut stream = accept(&listener);
        stream.write_all(&greeting()).unwrap();
        Self(listener, stream)
    }
}

// shows: bgp B3, B21
#[test]
fn a_router_that_sends_garbage_gets_a_notification_and_no_other_session_suffers() {
    if !require_root() {
        return;
    }
    let lan = lan(2);
    let (good, bad) = (listen(&lan.hosts[1]), listen(&lan.hosts[2]));
    let node = lan.hosts[0].engine();
    node.engine.speak(speaker([("good", peer(1)), ("bad", peer(2))], &routes(&["203.0.113.1/32"])));
    let _witness = Witness::meet(good);
    await_established(&node, "good");
    let mut stream = accept(&bad);
    stream.write_all(&[0x5a; 8192]).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    // Connection not synchronised: 1/1.
    assert_eq!(answer[answer.len() - 5..], [0, 21, 3, 1, 1], "{answer:?}");
    let error = await_session(&node, "bad", |session| session.error.is_some()).error.unwrap();
    assert!(error.contains("connection not synchronized"), "{error}");
    assert_eq!(await_established(&node, "good").error, None);
}

// shows: bgp D5, D6
#[test]
fn a_router_that_takes_no_bytes_delays_neither_another_session_nor_the_end_of_the_engine() {
    if !require_root() {
        return;
    }
    let lan = lan(2);
    let (good, stuck) = (listen(&lan.hosts[1]), listen(&lan.hosts[2]));
    SockRef::from(&stuck).set_recv_buffer_size(1).unwrap();
    let node = lan.hosts[0].engine();
    let texts: Vec<String> = (0..20_000).map(|n| format!("2001:db8:1::{n:x}/128")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let with_good = |prefixes: &[&str]| {
        let mut speaker = speaker([("good", peer(1)), ("stuck", peer(2))], &routes(&texts));
        speaker.routes.insert("good".to_owned(), routes(prefixes));
        speaker
    };
    node.engine.speak(with_good(&["203.0.113.1/32"]));
    let Witness(_good, mut witness) = Witness::meet(good);
    let Witness(_stuck, mut taker) = Witness::meet(stuck);
    await_established(&node, "stuck");
    node.engine.speak(with_good(&["203.0.113.1/32", "203.0.113.2/32"]));
    await_session(&node, "good", |session| session.is_acknowledged && session.sent == 2);
    let full = await_established(&node, "stuck");
    assert!(!full.is_acknowledged, "{full:?}");
    node.engine.shutdown();
    let mut last = Vec::new();
    witness.read_to_end(&mut last).unwrap();
    // Administrative shutdown: 6/2, with its reason.
    assert!(last.ends_with(b"\x03\x06\x02\x0ewindlass stops"), "{last:?}");
    // In order if the kernel had room for the last message, otherwise by a reset.
    let ended = taker.read_to_end(&mut last).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
}
