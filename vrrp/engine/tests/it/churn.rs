//! A hundred changes of the configuration a second.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use windlass_engine::{Hold, RouterConfig, State, TransitionReason, Vrid};

use crate::lab::{Lan, VIP, await_some, require_root, router, source};

/// VRID 7 with some VIPs that come and go, beside routers that do the same.
fn configuration(host: usize, round: u8) -> Vec<RouterConfig> {
    let mut own = router(host, 2);
    own.addresses.extend((0..round % 5).map(|n| IpAddr::from([192, 0, 2, 100 + n])));
    own.preempt = round.is_multiple_of(2);
    let passing = (0..round % 3).map(|n| RouterConfig {
        vrid: Vrid::new(20 + n).unwrap(),
        addresses: [[192, 0, 2, 120 + n].into()].into(),
        ..router(host, 2)
    });
    [own].into_iter().chain(passing).collect()
}

// shows: field-reports F-28
#[test]
fn a_hundred_changes_a_second_move_no_virtual_ip() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let nodes = [0, 1].map(|host| {
        let node = lan.hosts[host].engine();
        node.engine.apply(configuration(host, 0));
        node
    });
    nodes[0].await_status("Active", |status| status.state == State::Active);
    nodes[1].await_status("Backup", |status| status.active == Some(source(0)));
    let seven = || {
        [0, 1].map(|host| {
            let all: Vec<_> = nodes[host].engine.snapshot();
            let status = all.into_iter().find(|status| status.key.vrid.get() == 7).unwrap();
            (status.state, status.counters.became_active)
        })
    };
    let before = seven();
    for round in 0..=250 {
        for host in [0, 1] {
            nodes[host].engine.apply(configuration(host, round));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(seven(), before);
    println!("lateness under changes: {:?}", nodes[0].engine.lateness());
    // The last call counts.
    for host in [0, 1] {
        nodes[host].engine.apply(configuration(host, 0));
        nodes[host].await_status("only VRID 7", |status| status.key.vrid.get() == 7);
    }
}

#[test]
fn an_active_that_cannot_run_as_it_is_changed_resigns() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let nodes = [0, 1].map(|host| lan.hosts[host].engine());
    nodes[0].engine.apply(vec![router(0, 2)]);
    nodes[0].await_state(State::Active);
    nodes[1].engine.apply(vec![router(1, 2)]);
    nodes[1].await_status("Backup", |status| status.active == Some(source(0)));
    // Nothing is bound that could accept.
    nodes[0].engine.apply(vec![RouterConfig { accept: true, ..router(0, 2) }]);
    nodes[0].await_failure();
    assert_eq!(nodes[1].await_state(State::Active), TransitionReason::ActiveResigned);

    // A VIP that is on the interface already cannot be bound.
    nodes[0].engine.apply(vec![RouterConfig { hold: Hold::Address, ..router(0, 2) }]);
    nodes[0].await_state(State::Active);
    nodes[1].await_status("Backup", |status| status.active == Some(source(0)));
    nodes[1].forget_events();
    await_some("a bound VIP", || {
        let shown = lan.hosts[0].run(|| Command::new("ip").args(["-o", "address"]).output().unwrap());
        String::from_utf8_lossy(&shown.stdout).contains(&format!(" {VIP}/32 ")).then_some(())
    });
    lan.hosts[0].ip(&format!("addr add {VIP}/24 dev eth0"));
    nodes[0].await_failure();
    assert_eq!(nodes[1].await_state(State::Active), TransitionReason::ActiveResigned);
}
