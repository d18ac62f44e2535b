//! The settings of `docs/bgp.md` for BIRD, as an administrator copies them.

use windlass_engine::BfdPath;
use windlass_engine::bgp::bfd::State as BfdState;

use super::bfd::{timers, with_bfd};
use super::makers::{Bird, Maker};
use super::router::require;
use super::*;

const PAGE: &str = include_str!("../../../../../docs/bgp.md");

/// The block below the heading.
fn recipe() -> &'static str {
    PAGE.split("### BIRD 2\n").nth(1).unwrap().split("```").nth(1).unwrap()
}

// shows: interop I-33, I-34
#[test]
fn bird_as_the_page_sets_it_up_uses_the_route_and_comes_back_after_a_cut() {
    if !require(Bird::PROGRAM) {
        return;
    }
    let lan = lan(1);
    let bird = Bird::with(&lan.hosts[1], recipe());
    let node = lan.hosts[0].engine();
    let with_detection = with_bfd(peer(1), timers(300, 300, 3), BfdPath::SingleHop);
    let announced = |attributes| {
        let routes = routes_with(&["203.0.113.1/32"], attributes);
        speaker([("router", with_detection.clone())], &routes)
    };
    node.engine.speak(announced(Attributes::default()));
    let await_route = || {
        await_some("route of the kernel", || {
            bird.daemon().ip(&["route", "show", "203.0.113.1"]).contains("via 192.0.2.1").then_some(())
        });
    };
    await_route();
    node.engine.speak(announced(Attributes::default().degraded()));
    await_some("degraded route", || bird.route("203.0.113.1/32").contains("BGP.local_pref: 0").then_some(()));
    let await_detection = || {
        await_some("BFD Up", || {
            node.engine.bfd_status().sessions.values().any(|bfd| bfd.state == BfdState::Up).then_some(())
        });
    };
    await_detection();
    (0..2).for_each(|host| lan.part(host, true));
    let ended = await_session(&node, "router", |session| session.error.is_some());
    assert_eq!(ended.error.unwrap(), "sent: cease: BFD down (6/10)");
    (0..2).for_each(|host| lan.part(host, false));
    await_established(&node, "router");
    await_route();
    await_detection();
}
