//! Routers that misbehave beside one that does not.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use socket2::SockRef;

use super::played::{Witness, accept, greeting, listen, listen_at, open};
use super::*;
use crate::lab::require_root;

/// A message of this type and length field.
fn message(length: u16, kind: u8, body: &[u8]) -> Vec<u8> {
    [&[0xff; 16][..], &length.to_be_bytes(), &[kind], body].concat()
}

/// Messages of routers that misbehave, each with the end of the answer; without one the speaker sends nothing but its OPEN.
fn misbehaviour() -> Vec<(Vec<u8>, Option<&'static [u8]>)> {
    let mut overlong = open(ROUTER, ROUTER);
    let length = overlong.len() - 5;
    overlong[length] = 200;
    vec![
        (vec![0x5a; 8192], Some(&[0, 21, 3, 1, 1])),
        (message(18, 4, &[]), Some(&[0, 23, 3, 1, 2, 0, 18])),
        (message(4097, 2, &[0; 4078]), Some(&[0, 23, 3, 1, 2, 16, 1])),
        (message(21, 3, &[6, 5]), None),
        (message(23, 2, &[0; 4]), Some(&[0, 21, 3, 5, 1])),
        (overlong, Some(&[0, 21, 3, 2, 0])),
        (open(ROUTER, 0), Some(&[0, 21, 3, 2, 2])),
        (open(ROUTER, Asn::TRANS.into()), Some(&[0, 21, 3, 2, 2])),
    ]
}

// shows: bgp B3, B5, B20, B21, B32, B34
#[test]
fn routers_that_send_garbage_get_a_notification_and_no_other_session_suffers() {
    if !require_root() {
        return;
    }
    let lan = lan(2);
    let good = listen(&lan.hosts[1]);
    let bad: Vec<_> = (1001..)
        .zip(misbehaviour())
        .map(|(port, case)| (port, listen_at(&lan.hosts[2], port), case))
        .collect();
    let node = lan.hosts[0].engine();
    let mut all = speaker([("good", peer(1))], &routes(&["203.0.113.1/32"]));
    for (port, ..) in &bad {
        all.peers.insert(port.to_string(), PeerConfig { port: *port, ..peer(2) });
    }
    node.engine.speak(all);
    let _witness = Witness::meet(good);
    await_established(&node, "good");
    for (port, listener, (bytes, expected)) in &bad {
        let mut stream = accept(listener);
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        match expected {
            Some(end) => assert!(answer.ends_with(end), "{bytes:?}: {answer:?}"),
            None => assert_eq!(usize::from(answer[17]), answer.len(), "{bytes:?}: {answer:?}"),
        }
        await_session(&node, &port.to_string(), |session| session.error.is_some());
    }
    assert_eq!(await_established(&node, "good").error, None);
}

// shows: bgp B6, B25
#[test]
fn a_router_that_sends_its_bytes_one_by_one_is_left_after_the_hold_time_and_no_other_session_suffers() {
    if !require_root() {
        return;
    }
    let lan = lan(2);
    let (good, slow) = (listen(&lan.hosts[1]), listen(&lan.hosts[2]));
    let node = lan.hosts[0].engine();
    let mut impatient = peer(2);
    impatient.session.hold_time = HoldTime::new(3).unwrap();
    let both = |prefix| speaker([("good", peer(1)), ("slow", impatient.clone())], &routes(&[prefix]));
    node.engine.speak(both("203.0.113.1/32"));
    let _witness = Witness::meet(good);
    let mut stream = accept(&slow);
    for byte in greeting() {
        stream.write_all(&[byte]).unwrap();
    }
    await_established(&node, "slow");
    let slow = std::thread::spawn(move || trickle(stream, &message(4096, 2, &[0; 900])));
    node.engine.speak(both("203.0.113.2/32"));
    await_session(&node, "good", |session| session.is_acknowledged && session.sent == 1);
    let answer = slow.join().unwrap();
    assert!(answer.ends_with(&[0, 21, 3, 4, 0]), "hold timer expired: {answer:?}");
    assert_eq!(await_established(&node, "good").error, None);
}

/// Sends one of these bytes each 50 ms until the peer closes; returns all that it sent.
fn trickle(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    for byte in bytes {
        let _ = stream.write_all(&[*byte]);
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => answer.extend(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(_) | Err(_) => return answer,
        }
    }
    panic!("not left: {answer:?}");
}

// shows: bgp B55, B56, D5
#[test]
fn a_router_that_sends_100000_routes_is_counted_and_no_other_session_suffers() {
    if !require_root() {
        return;
    }
    let lan = lan(2);
    let (good, full) = (listen(&lan.hosts[1]), listen(&lan.hosts[2]));
    let node = lan.hosts[0].engine();
    node.engine.speak(speaker([("good", peer(1)), ("full", peer(2))], &routes(&["203.0.113.1/32"])));
    let (_witness, mut full) = (Witness::meet(good), Witness::meet(full));
    let prefixes = [32, 198, 18, 0, 1].repeat(800);
    let update = message(23 + 4000, 2, &[&[0; 4], &*prefixes].concat());
    full.1.write_all(&update.repeat(125)).unwrap();
    let session = await_session(&node, "full", |session| session.counts.announced == 100_000);
    assert_eq!((session.state, session.error), (State::Established, None));
    node.engine.speak(speaker([("good", peer(1)), ("full", peer(2))], &routes(&["203.0.113.2/32"])));
    for peer in ["good", "full"] {
        await_session(&node, peer, |session| session.is_acknowledged && session.sent == 1);
    }
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
