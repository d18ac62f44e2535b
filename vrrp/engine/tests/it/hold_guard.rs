//! The guard as the engine keeps it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use windlass_dataplane::guard::{Guard, Guarded};
use windlass_engine::{Hold, RouterConfig, State};

use crate::lab::{Host, LIMIT, Lan, VIP, address, await_some, require_root, router};

/// What `nft` shows of a set of the table, or nothing.
fn set(host: &Host, name: &'static str) -> Option<String> {
    let output = host.run(move || {
        Command::new("nft").args(["list", "set", "inet", "windlass", name]).output().expect("run `nft`")
    });
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn await_set(host: &Host, name: &'static str, holds: bool) {
    let vip = VIP.to_string();
    await_some("set of the table", || set(host, name).filter(|shown| shown.contains(&vip) == holds));
}

fn connect(host: &Host, to: SocketAddr) -> io::Result<()> {
    host.run(move || TcpStream::connect_timeout(&to, LIMIT).map(drop))
}

// shows: rfc9568 T16, T17
#[test]
fn the_guard_follows_the_routers_is_restored_and_goes_at_the_end() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let host = &lan.hosts[1];
    let first = lan.hosts[0].engine();
    first.engine.apply(vec![router(0, 2)]);
    first.await_state(State::Active);
    let node = host.engine_with(|options| options.guard = true);
    node.engine.apply(vec![router(1, 2)]);
    node.await_state(State::Backup);
    await_set(host, "vips4", true);
    await_set(host, "held4", false);
    first.engine.shutdown();
    node.await_state(State::Active);
    await_set(host, "held4", true);
    host.run(|| Command::new("nft").args(["flush", "ruleset"]).status().expect("run `nft`"));
    await_set(host, "held4", true);
    node.engine.apply(Vec::new());
    await_set(host, "vips4", false);
    node.engine.shutdown();
    assert_eq!(set(host, "vips4"), None);
}

/// Its own packets are let go when it has not said so for that long.
#[test]
fn an_engine_that_lives_says_so_often_enough() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let host = &lan.hosts[0];
    let node = host.engine_with(|options| {
        options.guard = true;
        options.guard_timeout = Duration::from_secs(3);
    });
    node.engine.apply(vec![router(0, 1)]);
    node.await_state(State::Active);
    await_set(host, "held4", true);
    // Milliseconds that are left of the three seconds.
    let left = || {
        let shown = set(host, "awake").expect("the set");
        assert!(shown.contains("timeout 3s"), "{shown}");
        let expires = shown.split_once("expires ").expect("that it lives").1;
        let number = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>().parse().ok();
        let (seconds, rest) = expires.split_once('s').unwrap();
        number(seconds).unwrap_or(0) * 1000
            + rest.split_once("ms").map_or(0, |(ms, _)| number(ms).unwrap_or(0))
    };
    let (mut last, mut renewed): (u32, u32) = (left(), 0);
    await_some("renewals", || {
        let now = left();
        renewed += u32::from(now > last);
        last = now;
        (renewed == 5).then_some(())
    });
}

/// A killed engine's table is replaced by what the new one is to guard, not by nothing.
#[test]
fn what_a_killed_engine_guarded_stays_guarded_until_the_next_one_knows_better() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let host = &lan.hosts[0];
    let vips = Guarded { vips: [VIP.into()].into(), ..Guarded::default() };
    drop(host.run(move || Guard::install("windlass", &vips)).unwrap());
    let node = host.engine_with(|options| options.guard = true);
    let guarded = || set(host, "vips4").is_some_and(|shown| shown.contains(&VIP.to_string()));
    assert!((0..20).all(|_| guarded()), "while nothing is known");
    node.engine.apply(vec![router(0, 1)]);
    while set(host, "held4").is_none_or(|shown| !shown.contains(&VIP.to_string())) {
        assert!(guarded());
    }
    drop(node);
    // One that is told nothing does not guard for ever what the last one left.
    let vips = Guarded { vips: [VIP.into()].into(), ..Guarded::default() };
    drop(host.run(move || Guard::install("windlass", &vips)).unwrap());
    let _node = host.engine_with(|options| options.guard = true);
    await_set(host, "vips4", false);
}

// shows: rfc9568 T17
#[test]
fn sockets_of_the_host_are_reached_on_a_bound_vip_only_if_it_accepts() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (client, host) = (&lan.hosts[0], &lan.hosts[1]);
    let _listener = host.run(|| TcpListener::bind("0.0.0.0:8022").unwrap());
    let node = host.engine_with(|options| options.guard = true);
    let config =
        |accept| RouterConfig { hold: Hold::Address, accept, source: address(1).into(), ..router(0, 1) };
    let vip = SocketAddr::new(VIP.into(), 8022);
    node.engine.apply(vec![config(true)]);
    node.await_state(State::Active);
    await_some("connection to the VIP", || connect(client, vip).ok());
    node.engine.apply(vec![config(false)]);
    await_some("refusal", || {
        connect(client, vip).err().filter(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    });
    connect(client, SocketAddr::new(address(1).into(), 8022)).expect("the host's own address is open");
    node.engine.apply(vec![config(true)]);
    await_some("connection to the VIP", || connect(client, vip).ok());
}
