//! Planned moves of addresses whose backends answer to them: what the new Active does not know goes by way of the former one, there and
//! back.

use super::*;

/// Too young to be told to anybody.
#[test]
fn connections_that_nobody_was_told_go_on_through_a_drain_beside_guarded_ports_and_sources() {
    if !require_root() {
        return;
    }
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

/// As after a while: nobody on the LAN says any more where a VIP is to the node that has it.
#[test]
fn answers_of_a_backend_on_the_new_active_find_the_former_one_however_long_ago_that_was_heard() {
    if !require_root() {
        return;
    }
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
