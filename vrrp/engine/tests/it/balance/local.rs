//! What the node itself sends to a VIP.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use windlass_engine::{Balancer, ClientSource, Engine, Options, State};

use crate::lab::{VIP, await_some, require_root, router};

use super::scene::{Connection, Scene, TABLE, VIPS, as_vip, await_active, balancing};

#[test]
fn the_nodes_own_connections_go_to_backends_only_while_it_is_active_and_the_process_lives() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    // Another is Active, and serves by itself.
    let _node = scene.active(1);
    let _there = scene.balance(1, &[1]);
    let here = scene.balance(0, &[0]);
    let served_by = |vip| Connection::open(scene.node(0), vip).unwrap().ask();
    for vip in VIPS {
        assert_eq!(served_by(vip), [2, 1], "{vip}: by the LAN, from the node's own address");
    }
    here.set_active(true);
    for vip in VIPS {
        assert_eq!(served_by(vip), [1, 1], "{vip}: by the node itself");
    }
    here.set_active(false);
    for vip in VIPS {
        assert_eq!(served_by(vip), [2, 1], "{vip}: by the LAN again");
    }
    here.set_active(true);
    let mut lasting = VIPS.map(|vip| Connection::open(scene.node(0), vip).unwrap());
    drop(here);
    for vip in VIPS {
        await_some("a connection of the other node's", || (served_by(vip) == [2, 1]).then_some(()));
    }
    for connection in &mut lasting {
        assert_eq!(connection.ask(), [1, 1], "{}: what was begun goes on", connection.vip);
    }
}

#[test]
fn the_nodes_own_connections_are_spread_and_have_its_own_address() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _node = scene.active(0);
    let kept = scene.balance(0, &[0, 1, 2]);
    kept.set_active(true);
    for vip in VIPS {
        let mut seen: Vec<_> = (0..60).map(|_| Connection::open(scene.node(0), vip).unwrap().ask()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [[1, 1], [2, 1], [3, 1]], "{vip}");
    }
}

/// Its kernel has no more than the client's end of them: a reset has it try again, and find its own server.
#[test]
fn the_nodes_own_connections_by_another_end_at_once_when_it_becomes_active_itself() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let first = scene.engine(0, 2);
    await_active(&first, State::Active);
    let kept = [scene.balance(0, &[0]), scene.balance(1, &[1])];
    kept[0].set_active(true);
    let second = scene.engine(1, 2);
    await_some("the first node's adverts", || {
        let heard = second.engine.snapshot().iter().all(|router| router.counters.adverts_received > 1);
        heard.then_some(())
    });
    let mut connections = VIPS.map(|vip| Connection::open(scene.node(1), vip).unwrap());
    for connection in &mut connections {
        assert_eq!(connection.ask(), [1, 2], "{}", connection.vip);
    }
    first.engine.shutdown();
    kept[0].set_active(false);
    await_active(&second, State::Active);
    kept[1].set_active(true);
    for connection in &mut connections {
        let vip = connection.vip;
        await_some("the end of the connection", || connection.try_ask().err());
        assert_eq!(Connection::open(scene.node(1), vip).unwrap().ask(), [2, 2], "{vip}");
    }
}

const KILLED: &str = "WINDLASS_TEST_KILLED";

/// Not a test of its own: the process that the test below kills.
#[test]
#[ignore = "the body of another test's process"]
fn serve_until_killed() {
    if std::env::var_os(KILLED).is_none() {
        return;
    }
    // Goes with the test, however that ends.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut options = Options::new(|_| ());
    as_vip(&mut options);
    let engine = Engine::start(options).unwrap();
    engine.apply(vec![router(0, 2)]);
    let mut balancer = Balancer::open(TABLE).unwrap();
    balancer.apply(&balancing(0, &[0], ClientSource::Masquerade)).unwrap();
    loop {
        balancer.check().unwrap();
        let is_active = engine.snapshot().iter().any(|router| router.state == State::Active);
        balancer.local(&is_active.then_some(VIP.into()).into_iter().collect()).unwrap();
        std::thread::park_timeout(Duration::from_millis(500));
    }
}

/// Neither the table nor the guard keeps the node from who took over.
#[test]
fn a_node_whose_process_was_killed_reaches_the_vip_on_the_next_one() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let served_by = || Connection::open(scene.node(0), VIP.into()).ok()?.try_ask().ok();
    let mut process = scene.node(0).run(|| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "balance::local::serve_until_killed", "--ignored"])
            .env(KILLED, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("start another process of this test")
    });
    await_some("a connection of the node's own", || (served_by() == Some([1, 1])).then_some(()));
    let next = scene.node(1).engine_with(as_vip);
    next.engine.apply(vec![router(1, 2)]);
    let _kept = scene.balance(1, &[1]);
    next.await_status("the other node's adverts", |router| router.counters.adverts_received > 1);
    assert_eq!(served_by(), Some([1, 1]));
    process.kill().unwrap();
    process.wait().unwrap();
    let start = Instant::now();
    next.await_state(State::Active);
    await_some("a connection of the next Active's", || (served_by() == Some([2, 1])).then_some(()));
    println!("after {:?}", start.elapsed());
}
