//! A VIP that leaves a virtual router which goes on, or one that ends for another that was there before, while nodes hear of it at
//! different moments.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use windlass_engine::{Event, Family, Priority, RouterConfig, RouterStatus, State, TransitionReason, Vrid};

use crate::lab::{Lan, Node, VIP, address, await_some, mac, require_root, router, take_turn};

const CANDIDATES: usize = 3;
const PROBE: Duration = Duration::from_millis(300);

fn last(octet: u8) -> IpAddr {
    [192, 0, 2, octet].into()
}

fn moving() -> IpAddr {
    VIP.into()
}

/// The router with this VRID and these VIPs. Priorities fall with the index of the host.
fn of(host: usize, vrid: u8, addresses: &[IpAddr]) -> RouterConfig {
    RouterConfig {
        vrid: Vrid::new(vrid).unwrap(),
        addresses: addresses.iter().copied().collect(),
        ..router(host, CANDIDATES)
    }
}

/// 7 with two VIPs, before; and 7 and 8 with one each, after.
fn before(host: usize) -> Vec<RouterConfig> {
    vec![of(host, 7, &[moving(), last(51)])]
}

fn after(host: usize) -> Vec<RouterConfig> {
    vec![of(host, 7, &[last(51)]), of(host, 8, &[moving()])]
}

fn status(node: &Node, vrid: u8) -> Option<RouterStatus> {
    node.engine.snapshot().into_iter().find(|status| status.key.vrid.get() == vrid)
}

fn claimed(node: &Node) -> BTreeSet<IpAddr> {
    node.engine.snapshot().into_iter().flat_map(|status| status.claimed).collect()
}

fn await_claimed(node: &Node, addresses: &[IpAddr]) {
    let wanted: BTreeSet<IpAddr> = addresses.iter().copied().collect();
    await_some("VIPs answered for", || (claimed(node) == wanted).then_some(()));
}

/// Waits until the node has heard of another Active for as long as it would have taken to take over from it.
fn await_adverts(node: &Node, vrid: u8) {
    let heard = |node| status(node, vrid).map_or(0, |status| status.counters.adverts_received);
    let before = heard(node);
    await_some("adverts", || (heard(node) > before + 8).then_some(()));
}

fn became_active(node: &Node) -> u64 {
    node.engine.snapshot().iter().map(|status| status.counters.became_active).sum()
}

/// The hosts; the first is Active in 7 and has its VIPs, the others have heard it.
fn hosts(lan: &Lan) -> [Node; CANDIDATES] {
    let nodes = [0, 1, 2].map(|host| lan.hosts[host].engine());
    for (host, node) in nodes.iter().enumerate() {
        node.engine.apply(before(host));
        if host == 0 {
            await_claimed(node, &[moving(), last(51)]);
        } else {
            await_some("the Active's adverts", || {
                status(node, 7).filter(|status| status.counters.adverts_received > 1).map(drop)
            });
        }
    }
    nodes
}

#[test]
fn one_vip_that_is_split_off_stays_where_it_is_until_the_active_has_heard_of_it() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(CANDIDATES);
    let [active, backup, _other] = hosts(&lan);
    backup.engine.apply(after(1));
    await_adverts(&backup, 7);
    assert_eq!(status(&backup, 8), None, "it would take the VIP over there");
    active.forget_events();
    active.engine.apply(after(0));
    assert_eq!(active.await_state(State::Active), TransitionReason::InService);
    await_claimed(&active, &[moving(), last(51)]);
    await_some("the Backup in the new router", || status(&backup, 8));
    await_adverts(&backup, 8);
    assert_eq!(became_active(&backup), 0);
    let left = status(&backup, 7).unwrap();
    assert_eq!(left.addresses, [last(51)].into());
}

#[test]
fn whoever_is_active_in_the_router_that_a_vip_joins_waits_until_the_other_has_let_go_of_it() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(CANDIDATES);
    // Two that leave: one from a router that goes on, one that was alone in a router that ends.
    let [staying, alone, joined] = [51, 52, 53].map(last);
    let old = |host| vec![of(host, 7, &[moving(), staying]), of(host, 9, &[alone])];
    let with = |mut routers: Vec<RouterConfig>, addresses: &[IpAddr]| {
        // The second host is Active there: the first has no part in it yet.
        routers.push(RouterConfig { peers: [address(0).into()].into(), ..of(1, 8, addresses) });
        routers
    };
    let active = lan.hosts[0].engine();
    active.engine.apply(old(0));
    await_claimed(&active, &[moving(), staying, alone]);
    let taker = lan.hosts[1].engine();
    taker.engine.apply(with(old(1), &[joined]));
    await_claimed(&taker, &[joined]);
    await_adverts(&taker, 9);

    let new = with(vec![of(1, 7, &[staying])], &[joined, moving(), alone]);
    taker.engine.apply(new);
    for vrid in [7, 9] {
        await_adverts(&taker, vrid);
        assert_eq!(claimed(&taker), [joined].into(), "the others are answered for elsewhere");
    }
    active.engine.apply(vec![of(0, 7, &[staying])]);
    await_claimed(&taker, &[joined, moving(), alone]);
    await_claimed(&active, &[staying]);
}

#[test]
fn a_vip_that_is_split_off_is_answered_for_if_the_active_has_died_and_heard_of_nothing() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(CANDIDATES);
    let [_active, backup, last_one] = hosts(&lan);
    for (host, node) in [(1, &backup), (2, &last_one)] {
        node.forget_events();
        node.engine.apply(after(host));
    }
    await_adverts(&backup, 7);
    lan.pull_cable(0);
    assert_eq!(backup.await_state(State::Active), TransitionReason::ActiveSilent);
    assert_eq!(backup.await_state(State::Active), TransitionReason::InService);
    await_claimed(&backup, &[moving(), last(51)]);
    await_some("the new router on the last host", || status(&last_one, 8));
    await_adverts(&last_one, 8);
    assert_eq!(became_active(&last_one), 0);
}

/// The one that has heard must not begin an election in the new router, where the late one has no part.
#[test]
fn who_takes_over_from_one_that_resigns_has_the_vip_where_it_has_heard_of_it() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(CANDIDATES);
    let [active, late, waiting] = hosts(&lan);
    waiting.engine.apply(after(2));
    await_adverts(&waiting, 7);
    late.forget_events();
    active.engine.apply(vec![]);
    assert_eq!(late.await_state(State::Active), TransitionReason::ActiveResigned);
    await_claimed(&late, &[moving(), last(51)]);
    await_adverts(&waiting, 7);
    assert_eq!((became_active(&waiting), status(&waiting, 8)), (0, None));
    late.engine.apply(after(1));
    assert_eq!(late.await_state(State::Active), TransitionReason::InService);
    await_some("the new router on the last host", || status(&waiting, 8));
    await_adverts(&waiting, 8);
    assert_eq!(became_active(&waiting), 0);
}

#[test]
fn who_has_heard_of_nothing_takes_over_nothing_of_a_router_that_ended_when_one_vip_moved_and_one_is_gone() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(CANDIDATES);
    let [active, late, _other] = hosts(&lan);
    active.forget_events();
    active.engine.apply(vec![of(0, 8, &[moving()])]);
    assert_eq!(active.await_state(State::Active), TransitionReason::InService);
    await_adverts(&late, 7);
    assert_eq!(became_active(&late), 0);
    assert_eq!(claimed(&active), [moving()].into());
}

/// The first host has the VIP, moves it and goes: the second, which has not heard of it, takes the old router over, the third the new
/// one.
fn nobody_but_the_new_routers_active_answers(
    [before, after]: [fn(usize) -> Vec<RouterConfig>; 2],
    go: impl FnOnce(&Lan, &Node),
    left: &[IpAddr],
) {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(CANDIDATES);
    let [active, late, heard] = [0, 1, 2].map(|host| lan.hosts[host].engine());
    let asking = |routers: Vec<RouterConfig>| {
        routers.into_iter().map(|router| RouterConfig { probe: Some(PROBE), ..router }).collect::<Vec<_>>()
    };
    active.engine.apply(asking(before(0)));
    await_claimed(&active, &asking(before(0))[0].addresses.iter().copied().collect::<Vec<_>>());
    late.engine.apply(asking(before(1)));
    heard.engine.apply(asking(before(2)));
    // For so long that it would be believed to have had them.
    for node in [&late, &heard] {
        await_adverts(node, 7);
    }
    active.forget_events();
    active.engine.apply(asking(after(0)));
    assert_eq!(active.await_state(State::Active), TransitionReason::InService);
    heard.engine.apply(asking(after(2)));
    await_some("the new router on the last host", || status(&heard, 8));
    for (node, vrid) in [(&heard, 8), (&late, 7)] {
        await_adverts(node, vrid);
    }
    late.forget_events();
    go(&lan, &active);
    late.await_state(State::Active);
    let taken = late.await_event("address of the new router's Active", |event| match event {
        Event::AddressTaken { address, mac, .. } => Some((*address, mac.to_vec())),
        Event::AddressesClaimed { addresses, .. } => {
            assert!(!addresses.contains(&moving()), "claimed by both");
            None
        }
        _ => None,
    });
    assert_eq!(taken, (moving(), mac(&lan.hosts[2])));
    await_claimed(&heard, &[moving()]);
    await_claimed(&late, left);
}

#[test]
fn who_takes_over_a_router_that_its_active_has_emptied_asks_who_has_its_vips() {
    let both = [|host| vec![of(host, 7, &[moving()])], |host| vec![of(host, 8, &[moving()])]];
    nobody_but_the_new_routers_active_answers(both, |_, active| active.engine.apply(Vec::new()), &[]);
}

/// Two changes within the time for which a router without VIPs goes on: 7 and 8 become 9 and 8, and these 9 and 7.
#[test]
fn who_was_active_in_a_router_that_it_emptied_takes_over_no_vip_that_comes_to_its_vrid_from_another_node() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(CANDIDATES);
    let [staying, coming] = [moving(), last(51)];
    let step = |host: usize, vrid_of_staying: u8, vrid_of_coming: u8| {
        // The second host is the one for this VIP.
        let priority = Priority::new(if host == 1 { 250 } else { 90 }).unwrap();
        let stays = RouterConfig { priority, ..of(host, vrid_of_staying, &[staying]) };
        vec![stays, of(host, vrid_of_coming, &[coming])]
    };
    let [first, second] = [0, 1].map(|host| lan.hosts[host].engine());
    second.engine.apply(step(1, 7, 8));
    await_some("the VIP that stays", || claimed(&second).contains(&staying).then_some(()));
    first.engine.apply(step(0, 7, 8));
    await_claimed(&first, &[coming]);
    await_claimed(&second, &[staying]);
    first.engine.apply(step(0, 9, 8));
    second.engine.apply(step(1, 9, 8));
    await_some("the new router", || status(&second, 9).filter(|status| status.claimed == [staying].into()));
    // The second host hears of the next change when the first has long made it.
    second.forget_events();
    first.engine.apply(step(0, 9, 7));
    await_adverts(&first, 7);
    second.engine.apply(step(1, 9, 7));
    await_claimed(&first, &[coming]);
    await_adverts(&second, 7);
    await_claimed(&second, &[staying]);
    let has_taken_it = |event: &Event| match event {
        Event::AddressesClaimed { addresses, .. } => addresses.contains(&coming).then_some(()),
        _ => None,
    };
    assert_eq!(second.reported(has_taken_it), None);
}

#[test]
fn who_takes_over_from_a_dead_active_asks_for_the_vip_that_it_did_not_list() {
    nobody_but_the_new_routers_active_answers(
        [before, |host| match host {
            0 => after(host),
            _ => vec![of(host, 8, &[moving()])],
        }],
        |lan, _| lan.pull_cable(0),
        &[last(51)],
    );
}

#[test]
fn routers_of_both_families_wait_each_by_itself() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let lan = Lan::new(CANDIDATES).with_link_local();
    let v6 = |host, vrid, addresses: &[&str]| RouterConfig {
        vrid: Vrid::new(vrid).unwrap(),
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        ..crate::lab::router_v6(host, CANDIDATES)
    };
    let active = lan.hosts[0].engine();
    let both = ["2001:db8::50", "2001:db8::51"].map(|address| address.parse::<IpAddr>().unwrap());
    active.engine.apply(vec![v6(0, 7, &["2001:db8::50", "2001:db8::51"]), of(0, 7, &[moving()])]);
    await_claimed(&active, &[both[0], both[1], moving()]);
    let backup = lan.hosts[1].engine();
    backup.engine.apply(vec![v6(1, 7, &["2001:db8::50", "2001:db8::51"]), of(1, 7, &[moving()])]);
    await_adverts(&backup, 7);
    let after = |host| {
        let routers =
            [v6(host, 7, &["2001:db8::51"]), v6(host, 8, &["2001:db8::50"]), of(host, 7, &[moving()])];
        routers.to_vec()
    };
    backup.engine.apply(after(1));
    let heard = || {
        let all = backup.engine.snapshot();
        all.into_iter().filter(|status| status.key.family == Family::V6).collect::<Vec<_>>()
    };
    let before = heard()[0].counters.adverts_received;
    await_some("adverts", || (heard()[0].counters.adverts_received > before + 8).then_some(()));
    assert_eq!((heard().len(), became_active(&backup)), (1, 0));
    active.engine.apply(after(0));
    await_some("the Backup in the new router", || status(&backup, 8));
    await_adverts(&backup, 8);
    assert_eq!(became_active(&backup), 0);
    await_claimed(&active, &[both[0], both[1], moving()]);
}
