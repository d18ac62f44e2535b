use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags};

use super::*;
use crate::lab::in_namespace;
use crate::poll::poll;

const LIMIT: Duration = Duration::from_secs(20);
/// A connection with a wrong key stays without an answer: the first two attempts of the kernel go within a second and a half.
const UNANSWERED: Duration = Duration::from_millis(1500);

fn listener(address: IpAddr, key: Option<&Md5Key>) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    if let Some(key) = key {
        setsockopt(&listener, Md5Signature, &key.option(address)).unwrap();
    }
    let own = listener.local_addr().unwrap();
    (listener, own)
}

fn dial(peer: SocketAddr) -> Dial<'static> {
    Dial { peer, source: None, interface: None, md5: None, minimum_ttl: None, user_timeout: None }
}

/// Waits until it is writable, and returns the own address.
fn outcome(connection: &TcpConnection, limit: Duration) -> io::Result<Option<IpAddr>> {
    poll(&mut [PollFd::new(connection.as_fd(), PollFlags::POLLOUT)], Some(limit), "the test's peer");
    connection.connected()
}

fn with_loopback(body: impl Fn(IpAddr) + Send + 'static) {
    in_namespace(move || {
        std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            body(address);
        }
    });
}

// shows: bgp B11
#[test]
fn peers_with_one_md5_key_connect_and_with_two_keys_they_do_not() {
    with_loopback(|address| {
        let [key, other] = [b"one", b"two"].map(|key| Md5Key::new(key).unwrap());
        let (_listener, peer) = listener(address, Some(&key));
        let right = TcpConnection::dial(&Dial { md5: Some(&key), ..dial(peer) }).unwrap();
        assert_eq!(outcome(&right, LIMIT).unwrap(), Some(address));
        for md5 in [Some(&other), None] {
            let wrong = TcpConnection::dial(&Dial { md5, ..dial(peer) }).unwrap();
            assert_eq!(outcome(&wrong, UNANSWERED).unwrap(), None, "{address}");
        }
    });
}

// shows: bgp B12
#[test]
fn packets_below_the_minimum_ttl_are_dropped() {
    with_loopback(|address| {
        let (_listener, peer) = listener(address, None);
        let near = TcpConnection::dial(&Dial { minimum_ttl: Some(64), ..dial(peer) }).unwrap();
        assert_eq!(outcome(&near, LIMIT).unwrap(), Some(address));
        let far = TcpConnection::dial(&Dial { minimum_ttl: Some(255), ..dial(peer) }).unwrap();
        assert_eq!(outcome(&far, UNANSWERED).unwrap(), None, "{address}");
    });
}

// shows: bgp D4
#[test]
fn bytes_are_acknowledged_once_the_peer_has_room_for_them() {
    with_loopback(|address| {
        let (listener, peer) = listener(address, None);
        let connection = TcpConnection::dial(&dial(peer)).unwrap();
        outcome(&connection, LIMIT).unwrap();
        assert!(connection.is_acknowledged().unwrap());
        while connection.write(&[0; 1 << 12]).is_ok() {}
        assert!(!connection.is_acknowledged().unwrap(), "the peer's window is closed");
        let (mut accepted, _) = listener.accept().unwrap();
        std::thread::spawn(move || io::copy(&mut accepted, &mut io::sink()));
        let deadline = Instant::now() + LIMIT;
        while !connection.is_acknowledged().unwrap() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    });
}

// shows: bgp B10
#[test]
fn a_peer_that_acknowledges_nothing_is_given_up_after_the_user_timeout() {
    in_namespace(|| {
        std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        let (_listener, peer) = listener(Ipv4Addr::LOCALHOST.into(), None);
        let user_timeout = Some(Duration::from_millis(500));
        let connection = TcpConnection::dial(&Dial { user_timeout, ..dial(peer) }).unwrap();
        outcome(&connection, LIMIT).unwrap();
        // From now on its packets are dropped.
        setsockopt(&connection, MinimumTtl, &255).unwrap();
        connection.write(b"bytes").unwrap();
        poll(&mut [PollFd::new(connection.as_fd(), PollFlags::POLLIN)], Some(LIMIT), "the test's peer");
        let error = connection.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    });
}

// shows: bgp B10
#[test]
fn an_attempt_that_fails_says_why() {
    with_loopback(|address| {
        let (listener, peer) = listener(address, None);
        drop(listener);
        let refused =
            TcpConnection::dial(&dial(peer)).map(|connection| outcome(&connection, LIMIT).unwrap_err());
        let refused = refused.map_or_else(|error| error.to_string(), |error| error.to_string());
        assert!(refused.contains("refused"), "{refused}");
        let foreign = if address.is_ipv4() { "192.0.2.9" } else { "2001:db8::9" };
        let source = Some(foreign.parse().unwrap());
        let error = TcpConnection::dial(&Dial { source, ..dial(peer) }).unwrap_err().to_string();
        assert!(error.contains("cannot use the source address"), "{error}");
        let error =
            TcpConnection::dial(&Dial { interface: Some("eth9"), ..dial(peer) }).unwrap_err().to_string();
        assert!(error.contains("cannot use the interface"), "{error}");
    });
}

// shows: bgp B11
#[test]
fn keys_have_1_to_80_bytes_and_are_not_printed() {
    assert_eq!(Md5Key::new(b""), Err(InvalidMd5Key(0)));
    assert_eq!(Md5Key::new(&[b'k'; 81]), Err(InvalidMd5Key(81)));
    let key = Md5Key::new(&[b'k'; 80]).unwrap();
    assert!(!format!("{key:?}").contains("kk"));
}
