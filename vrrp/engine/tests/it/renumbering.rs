//! A VIP that changes its virtual router, as when a stranger takes the VRID.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use windlass_engine::{Event, Priority, RouterConfig, State, TransitionReason, Vrid};

use crate::lab::{Capture, Lan, Node, VIP, arp_about, await_some, mac, require_root, router, take_turn};

const PROBE: Duration = Duration::from_millis(100);

/// The same router with another VRID.
fn renumbered(host: usize) -> RouterConfig {
    RouterConfig { vrid: Vrid::new(8).unwrap(), ..router(host, 2) }
}

/// The first host, Active and answering for the VIP. Active alone is too early for a VIP that changes its router: the thread that answers comes
/// later, and what is not served yet is not in service.
fn serving(lan: &Lan) -> Node {
    let node = lan.hosts[0].active(router(0, 2));
    node.await_status("the VIP claimed", |status| !status.claimed.is_empty());
    node
}

/// Two hosts of which the first is Active, and the other has heard it.
fn active_and_backup(lan: &Lan) -> (Node, Node) {
    let active = serving(lan);
    let backup = lan.hosts[1].engine();
    backup.engine.apply(vec![router(1, 2)]);
    backup.await_status("the Active's adverts", |status| status.counters.adverts_received > 1);
    (active, backup)
}

fn apply(node: &Node, config: RouterConfig) {
    node.forget_events();
    node.engine.apply(vec![config]);
}

// shows: rfc9568 B1
#[test]
fn who_has_the_vip_goes_on_with_it_at_once_and_asks_nobody() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(2);
    let capture = Capture::on(&lan.hosts[1]);
    let (active, backup) = active_and_backup(&lan);
    for node in [&active, &backup] {
        node.forget_events();
    }

    // The other hears of it later. Meanwhile the VIP is where it was.
    let probing = RouterConfig { probe: Some(Duration::from_mins(1)), ..renumbered(0) };
    apply(&active, probing);
    assert_eq!(active.await_state(State::Active), TransitionReason::InService);
    let claimed = await_some("the VIP is answered for", || {
        let new = active.engine.snapshot().into_iter().find(|status| status.key.vrid.get() == 8)?;
        Some(new.claimed).filter(|claimed| !claimed.is_empty())
    });
    assert_eq!(claimed, BTreeSet::from([VIP.into()]));
    let announcement = arp_about(VIP, 1);
    let own = mac(&lan.hosts[0]);
    capture.await_frame("an announcement by the same host", |frame| {
        announcement(frame).filter(|(_, source)| *source == own).map(drop)
    });
    // To the other the VIP is in the old router still, whose adverts go on for now: it leaves it alone.
    let heard = backup.status().counters.adverts_received;
    backup.await_status("adverts of the old VRID", |status| status.counters.adverts_received > heard + 5);
    assert_eq!(backup.status().counters.became_active, 0);
    apply(&backup, renumbered(1));
    assert_eq!(backup.await_state(State::Backup), TransitionReason::Startup);
    backup.await_status("adverts of the new VRID", |status| status.counters.adverts_received > 1);
    assert_eq!(backup.status().counters.became_active, 0);
}

/// Which would have preempted it in the old one.
#[test]
fn who_comes_back_and_has_heard_of_nothing_leaves_the_vip_where_it_is() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(2);
    let active = serving(&lan);
    apply(&active, renumbered(0));
    assert_eq!(active.await_state(State::Active), TransitionReason::InService);
    let late = lan.hosts[1].engine();
    late.engine.apply(vec![RouterConfig { priority: Priority::new(254).unwrap(), ..router(1, 2) }]);
    late.await_status("adverts of the old VRID", |status| status.counters.adverts_received > 10);
    assert_eq!(late.status().counters.became_active, 0);
    let kept = || active.engine.snapshot().iter().all(|status| status.state == State::Active);
    assert!(kept(), "{:?}", active.engine.snapshot());
    // Once it is over nobody is left there to answer for it.
    active.engine.apply(Vec::new());
    assert_eq!(late.await_state(State::Active), TransitionReason::ActiveResigned);
}

#[test]
fn a_vip_that_joins_another_router_which_is_active_on_the_same_host_is_asked_for_by_nobody() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(1);
    let (moving, staying, new) = (VIP.into(), "192.0.2.51".parse().unwrap(), "192.0.2.52".parse().unwrap());
    let minute = Some(Duration::from_mins(1));
    let of = |vrid: u8, addresses: &[IpAddr], probe| RouterConfig {
        vrid: Vrid::new(vrid).unwrap(),
        addresses: addresses.iter().copied().collect(),
        probe,
        ..router(0, 1)
    };
    let node = lan.hosts[0].engine();
    let both = |left: &[IpAddr], right: &[IpAddr], probe| {
        node.engine.apply(vec![of(7, left, probe), of(8, right, probe)]);
    };
    let await_claimed = |addresses: &[IpAddr]| {
        await_some("the VIPs are answered for", || {
            let all = node.engine.snapshot();
            let claimed: BTreeSet<IpAddr> = all.into_iter().flat_map(|status| status.claimed).collect();
            (claimed == addresses.iter().copied().collect()).then_some(())
        });
    };
    both(&[moving, staying], &[], None);
    await_claimed(&[moving, staying]);
    // From now on a question would take a minute: of the two that join only the one that nobody served is asked for.
    both(&[staying], &[moving, new], minute);
    await_claimed(&[moving, staying]);
    // And back, where it was before.
    both(&[staying, moving], &[new], minute);
    await_claimed(&[moving, staying]);
}

// shows: rfc9568 B1
#[test]
fn who_was_preferred_to_it_in_the_new_router_preempts_it() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(2);
    let (active, backup) = active_and_backup(&lan);
    let first = RouterConfig { priority: Priority::new(250).unwrap(), ..renumbered(1) };
    apply(&active, renumbered(0));
    assert_eq!(active.await_state(State::Active), TransitionReason::InService);
    apply(&backup, first);
    assert_eq!(backup.await_state(State::Active), TransitionReason::Preempted);
    assert!(matches!(active.await_state(State::Backup), TransitionReason::SuperiorActive { .. }));
}

/// Who has the VIP hears of the other router last.
#[test]
fn who_does_not_have_the_vip_waits_in_the_old_router_until_the_active_has_gone_before() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(2);
    let (active, backup) = active_and_backup(&lan);
    apply(&backup, RouterConfig { priority: Priority::new(250).unwrap(), ..renumbered(1) });
    let heard = backup.status().counters.adverts_received;
    backup
        .await_status("more adverts of the old VRID", |status| status.counters.adverts_received > heard + 10);
    assert_eq!(backup.status().key.vrid, router(1, 2).vrid);
    apply(&active, renumbered(0));
    assert_eq!(active.await_state(State::Active), TransitionReason::InService);
    assert_eq!(backup.await_state(State::Active), TransitionReason::Preempted);
    assert_eq!(backup.status().key.vrid.get(), 8);
}

#[test]
fn who_waits_in_the_old_router_takes_over_there_and_goes_on_in_the_new_one() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(2);
    let (active, backup) = active_and_backup(&lan);
    apply(&backup, renumbered(1));
    lan.pull_cable(0);
    assert_eq!(backup.await_state(State::Active), TransitionReason::ActiveSilent);
    assert_eq!(backup.await_state(State::Active), TransitionReason::InService);
    let new = backup.await_event("the VIP is announced in the new router", |event| match event {
        Event::AddressesClaimed { key, addresses } => Some((key.vrid.get(), addresses.clone())),
        _ => None,
    });
    assert_eq!(new.1, [IpAddr::from(VIP)]);
    drop(active);
}

#[test]
fn a_router_with_one_vip_that_was_not_served_waits_as_any_other() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(2);
    let node = lan.hosts[0].active(router(0, 2));
    let other = "192.0.2.51".parse().unwrap();
    apply(&node, RouterConfig { addresses: [VIP.into(), other].into(), ..renumbered(0) });
    assert_eq!(node.await_state(State::Active), TransitionReason::ActiveSilent);
}

/// Two hosts that were apart while the VIP changed its virtual router, of which one does not know that; together again. Each is
/// Active in a router of its own. The second has this priority.
fn together_again(lan: &Lan, second: u8) -> (Node, Node) {
    let asks = |config| RouterConfig { probe: Some(PROBE), ..config };
    let [priority, first] = [second, 200].map(|priority| Priority::new(priority).unwrap());
    for host in [0, 1] {
        lan.part(host, true);
    }
    let behind = lan.hosts[0].active(asks(RouterConfig { priority: first, ..router(0, 2) }));
    let ahead = lan.hosts[1].active(asks(RouterConfig { priority, ..renumbered(1) }));
    for node in [&behind, &ahead] {
        node.await_status("the VIP claimed", |status| !status.claimed.is_empty());
        node.forget_events();
    }
    lan.part(1, false);
    (behind, ahead)
}

fn await_left_to_peer(node: &Node) -> (IpAddr, Vec<u8>) {
    node.await_event("an address left to a peer", |event| match event {
        Event::AddressLeftToPeer { address, mac, .. } => Some((*address, mac.to_vec())),
        _ => None,
    })
}

// shows: rfc9568 B4
#[test]
fn of_two_that_serve_a_vip_in_different_routers_after_a_partition_one_leaves_it_to_the_other() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    for (second, winner) in [(201, 1), (199, 0)] {
        let lan = Lan::new(2);
        let (behind, ahead) = together_again(&lan, second);
        let (keeps, leaves) = if winner == 0 { (behind, ahead) } else { (ahead, behind) };
        assert_eq!(await_left_to_peer(&leaves), (VIP.into(), mac(&lan.hosts[winner])));
        assert!(leaves.status().claimed.is_empty());
        assert_eq!(keeps.status().claimed, [VIP.into()].into());
        // The other is told, and goes: nobody is asked.
        keeps.engine.apply(Vec::new());
        leaves.await_status("the VIP claimed again", |status| !status.claimed.is_empty());
        assert_eq!(leaves.status().counters.became_active, 1);
    }
}

// shows: rfc9568 B4
#[test]
fn who_left_a_vip_to_a_peer_in_another_router_has_it_back_when_both_are_in_the_same_one() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(2);
    // Who is behind goes first there, and second in the router that it is told of.
    let (behind, ahead) = together_again(&lan, 199);
    await_left_to_peer(&ahead);
    behind.engine.apply(vec![RouterConfig {
        priority: Priority::new(150).unwrap(),
        probe: Some(PROBE),
        ..renumbered(0)
    }]);
    ahead.await_status("the VIP claimed again", |status| !status.claimed.is_empty());
    await_some("the other lets go of it", || {
        behind.engine.snapshot().iter().all(|status| status.claimed.is_empty()).then_some(())
    });
}
