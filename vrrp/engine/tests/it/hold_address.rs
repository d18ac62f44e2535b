//! VIPs on an interface while Active.

mod lifetime;
mod marks;

use std::net::IpAddr;
use std::process::Command;

use windlass_engine::{Event, Hold, Interval, Priority, RouterConfig, State};

use crate::lab::{Capture, Host, Lan, VIP, address, await_some, require_root, router};

/// A router of the lab that binds its VIP.
fn binding(host: usize, candidates: usize) -> RouterConfig {
    RouterConfig { hold: Hold::Address, ..router(host, candidates) }
}

/// What `ip -o address show dev eth0` says, one address a line.
fn shown(host: &Host) -> Vec<String> {
    let output = host.run(|| {
        Command::new("ip").args(["-o", "address", "show", "dev", "eth0"]).output().expect("run `ip`")
    });
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The line about this address.
pub(crate) fn line(host: &Host, address: IpAddr, prefix: u8) -> Option<String> {
    let wanted = format!(" {address}/{prefix} ");
    shown(host).into_iter().find(|line| line.contains(&wanted))
}

fn await_bound(host: &Host) -> String {
    await_some("VIP on the interface", || line(host, VIP.into(), 32))
}

// shows: rfc9568 T16, T17
#[test]
fn the_vip_is_on_the_actives_interface_alone_and_moves_with_it() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (one, two) = (lan.hosts[0].active(binding(0, 2)), lan.hosts[1].engine());
    let bound = await_bound(&lan.hosts[0]);
    assert!(bound.contains("scope global dynamic noprefixroute"), "{bound}");
    let lifetime = bound.split("valid_lft ").nth(1).and_then(|rest| rest.split("sec").next()?.parse().ok());
    assert!(lifetime.is_some_and(|seconds: u32| seconds <= 3), "{bound}");
    // After the interface's own: what asks for the first address still gets that.
    let first = shown(&lan.hosts[0]).into_iter().next().unwrap();
    assert!(first.contains(&format!(" {}/24 ", address(0))), "{first}");

    two.engine.apply(vec![binding(1, 2)]);
    two.await_state(State::Backup);
    assert_eq!(line(&lan.hosts[1], VIP.into(), 32), None);
    one.engine.shutdown();
    assert_eq!(line(&lan.hosts[0], VIP.into(), 32), None, "let go before the end of the shutdown");
    two.await_state(State::Active);
    await_bound(&lan.hosts[1]);
}

// shows: rfc9568 T9
#[test]
fn a_leaver_keeps_the_vip_bound_until_its_successor_has_taken_over() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (one, two) = (lan.hosts[0].engine(), lan.hosts[1].engine());
    // The longest skew time there is: nearly an interval.
    let successor = RouterConfig { priority: Priority::new(1).unwrap(), ..binding(1, 2) };
    one.engine.apply(vec![RouterConfig { interval: Interval::SECOND, ..binding(0, 2) }]);
    one.await_state(State::Active);
    await_bound(&lan.hosts[0]);
    two.engine.apply(vec![RouterConfig { interval: Interval::SECOND, ..successor }]);
    two.await_status("Backup that knows the Active", |status| status.active.is_some());
    let capture = Capture::on(&lan.hosts[1]);
    let leaver = std::thread::spawn(move || one.engine.shutdown());
    capture.await_frame("resignation", |frame| {
        (frame.len() > 36 && frame[23] == 112 && frame[36] == 0).then_some(())
    });
    loop {
        let bound = line(&lan.hosts[0], VIP.into(), 32).is_some();
        // Looked at afterwards: it was not Active when the address was looked for.
        if two.status().state == State::Active {
            break;
        }
        assert!(bound, "nobody has the VIP");
    }
    await_bound(&lan.hosts[1]);
    leaver.join().unwrap();
    assert_eq!(line(&lan.hosts[0], VIP.into(), 32), None);
}

#[test]
fn a_removed_vip_is_put_back_and_told() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let node = lan.hosts[0].active(binding(0, 1));
    await_bound(&lan.hosts[0]);
    for _ in 0..2 {
        lan.hosts[0].ip(&format!("addr del {VIP}/32 dev eth0"));
        let lost = node.await_event("loss of the VIP", |event| match event {
            Event::AddressLost { address, .. } => Some(*address),
            _ => None,
        });
        assert_eq!(lost, VIP);
        await_bound(&lan.hosts[0]);
    }
}

/// A network manager that removes what it does not know, as often as it appears.
#[test]
fn where_the_vip_is_removed_again_and_again_another_node_gets_it() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(2);
    let (one, two) = (lan.hosts[0].active(binding(0, 2)), lan.hosts[1].engine());
    two.engine.apply(vec![binding(1, 2)]);
    two.await_state(State::Backup);
    for _ in 0..6 {
        await_bound(&lan.hosts[0]);
        lan.hosts[0].ip(&format!("addr del {VIP}/32 dev eth0"));
    }
    let error = one.await_failure();
    assert!(error.contains("removed 192.0.2.50 from the interface again and again"), "{error}");
    two.await_state(State::Active);
    await_bound(&lan.hosts[1]);
    // It tries again by itself, and gives up at once if that was no good.
    one.await_event("recovery", |event| matches!(event, Event::Recovered { .. }).then_some(()));
    await_bound(&lan.hosts[0]);
    lan.hosts[0].ip(&format!("addr del {VIP}/32 dev eth0"));
    one.await_failure();
}

#[test]
fn an_equal_address_of_another_is_left_alone_and_the_router_fails_by_name_until_it_is_gone() {
    if !require_root() {
        return;
    }
    for prefix in [24, 32] {
        let lan = Lan::new(1);
        lan.hosts[0].ip(&format!("addr add {VIP}/{prefix} dev eth0"));
        let before = shown(&lan.hosts[0]);
        let node = lan.hosts[0].engine();
        node.engine.apply(vec![binding(0, 1)]);
        let error = node.await_failure();
        assert!(
            error.contains(&format!("the interface has {VIP}/{prefix}, which this engine did not")),
            "{error}"
        );
        assert_eq!(shown(&lan.hosts[0]), before);
        node.await_status("Initialize", |status| status.state == State::Initialize);
        lan.hosts[0].ip(&format!("addr del {VIP}/{prefix} dev eth0"));
        node.await_event("recovery", |event| matches!(event, Event::Recovered { .. }).then_some(()));
        await_bound(&lan.hosts[0]);
        // One that comes later wins, too.
        lan.hosts[0]
            .ip(&format!("addr replace {VIP}/{prefix} dev eth0 valid_lft forever preferred_lft forever"));
        node.await_failure();
        await_some("only the other's address", || {
            (shown(&lan.hosts[0]).iter().filter(|line| line.contains(&VIP.to_string())).count() == 1
                && line(&lan.hosts[0], VIP.into(), prefix).is_some_and(|line| line.contains("forever")))
            .then_some(())
        });
        node.engine.shutdown();
        assert!(line(&lan.hosts[0], VIP.into(), prefix).is_some(), "not removed at the end either");
    }
}
