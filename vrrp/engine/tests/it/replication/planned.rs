//! Planned moves of addresses whose backends answer to them: what the new Active does not know goes by way of the former one, there and
//! back.

use std::collections::BTreeSet;

use super::*;

/// Too young to be told to anybody.
#[test]
fn connections_that_nobody_was_told_go_on_through_a_drain_beside_guarded_ports_and_sources() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    for backend in [Backend::OnThirdHost, Backend::OnSecondNode, Backend::OfSecondNode] {
        let scene = Scene::for_engines(backend);
        let nodes = start(&scene, replicate_and_forward);
        nodes.iter().for_each(guard_ports_and_sources);
        let streams = scene.connections(MANY);
        assert_eq!(kept(&streams), 2 * MANY);
        drain_first_node(&scene, &nodes);
        assert_eq!(kept(&streams), 2 * MANY, "{backend:?}");
    }
}

/// It follows them for some seconds after it has handed the address over, and hears of no end there.
#[test]
fn what_ended_on_the_next_node_is_told_by_the_first_no_more_when_it_takes_the_address_back() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let scene = Scene::for_engines(Backend::OnThirdHost);
    let nodes = start(&scene, replicate_and_forward);
    let streams = replicated(&scene, &nodes);
    drain_first_node(&scene, &nodes);
    await_arrival(&scene, B);
    await_replicas(&nodes[A], MANY);
    let ended: BTreeSet<_> = streams.iter().map(key_of).collect();
    drop(streams);
    await_replicas(&nodes[A], 0);
    nodes[A].forget_events();
    nodes[A].engine.apply(routers(&scene, A));
    await_states(&nodes[A], State::Active);
    await_arrival(&scene, A);
    let more = scene.connections(MANY + 1);
    await_replicas(&nodes[B], more.len() / 2);
    let open: BTreeSet<_> = more.iter().map(key_of).collect();
    await_some("those in its kernel, and none that had ended", || {
        let known: BTreeSet<_> = listed(&mut scene.tracking(B)).iter().map(|known| known.key).collect();
        (open.is_subset(&known) && ended.is_disjoint(&known)).then_some(())
    });
}

/// As after a while: nobody on the LAN says any more where a VIP is to the node that has it.
#[test]
fn answers_of_a_backend_on_the_new_active_find_the_former_one_however_long_ago_that_was_heard() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    for backend in [Backend::OnSecondNode, Backend::OfSecondNode] {
        let scene = Scene::for_engines(backend);
        let nodes = start(&scene, replicate_and_forward);
        let streams = replicated(&scene, &nodes);
        drain_first_node(&scene, &nodes);
        await_arrival(&scene, B);
        scene.node(B).ip("neigh flush all");
        assert_eq!(kept(&streams), 2 * MANY, "{backend:?}");
        // Those that began there are not sent anywhere else.
        assert_eq!(kept(&scene.connections(2)), 4, "{backend:?}");
    }
}
