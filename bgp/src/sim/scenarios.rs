//! Single faults, with the time that each may take.

use super::*;
use crate::tests::prefix;

fn routes(count: u32) -> Routes {
    let vip = |n: u32| prefix(&format!("10.{}.{}.{}", n >> 16, n >> 8 & 0xff, n & 0xff));
    (0..count).map(|n| (vip(n), Arc::new(Attributes::default()))).collect()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn calm(count: u32) -> World {
    let mut world = World::new(1);
    world.set_routes(routes(count));
    world.run_for(secs(5));
    assert!(world.is_calm(), "{world:#?}");
    assert!(world.downs.is_empty());
    world
}

/// Time until the condition holds, at most a minute.
fn time_until(world: &mut World, condition: impl Fn(&World) -> bool) -> Duration {
    let start = world.now;
    while !condition(world) {
        world.run_for(Duration::from_millis(1));
        assert!(world.now.since(start) < secs(60), "{world:#?}");
    }
    world.now.since(start)
}

// shows: bgp B20, B85
#[test]
fn an_undisturbed_session_stays_up_for_an_hour() {
    let mut world = calm(3);
    world.run_for(secs(3600));
    assert!(world.is_calm() && world.downs.is_empty());
    assert_eq!(world.bfd_events.last().unwrap().1.to, bfd::State::Up);
}

// shows: bgp B42, B74
#[test]
fn ten_thousand_routes_arrive_through_a_window_smaller_than_a_message_and_are_acknowledged() {
    let mut world = World::new(2);
    world.set_routes(routes(10_000));
    let arrived = time_until(&mut world, World::is_calm);
    assert!(arrived < secs(3), "{arrived:?}");
    world.run_for(secs(1));
    assert_eq!(world.acknowledged, 1);
}

// shows: bgp B84, B88, B90
#[test]
fn a_cut_path_is_found_within_the_detection_time_and_mended_afterwards() {
    let mut world = calm(3);
    world.disturb();
    world.link.is_cut = true;
    let found = time_until(&mut world, |world| world.speaker.state() != State::Established);
    assert!(found <= DETECTION && found >= Duration::from_millis(600), "{found:?}");
    assert_eq!(world.downs[0].1, DownReason::Sent(ErrorCode::BFD_DOWN.into()));
    world.run_for(secs(20));
    world.disturb();
    world.link.is_cut = false;
    assert!(time_until(&mut world, World::is_calm) < secs(60));
}

// shows: bgp B25
#[test]
fn without_bfd_a_silent_router_is_found_within_the_hold_time() {
    let mut world = calm(3);
    world.speaker_bfd.take_down(world.now);
    world.run_for(secs(5));
    assert_eq!(world.speaker.state(), State::Established, "AdminDown is no fault");
    world.crash_router();
    let found = time_until(&mut world, |world| world.speaker.state() != State::Established);
    assert!(found <= HOLD && found + secs(3) > HOLD, "{found:?}");
}

// shows: bgp B74, B76
#[test]
fn a_stopped_speaker_withdraws_before_it_closes() {
    let mut world = calm(2000);
    world.stop();
    let withdrawn = time_until(&mut world, |world| world.table().is_empty());
    assert!(withdrawn < secs(1), "{withdrawn:?}");
    let router = world.router.as_ref().expect("still connected");
    assert_eq!(router.session.state(), State::Established, "the routes went first");
    time_until(&mut world, |world| world.speaker.is_finished() && world.router.is_none());
    assert_eq!(world.downs.len(), 1);
}

// shows: bgp B25, B88, D11
#[test]
fn a_speaker_that_was_frozen_takes_its_own_lateness_for_no_silence() {
    let mut world = calm(3);
    // Shorter than the router's patience: its packets wait in the socket.
    world.frozen_until = world.now + Duration::from_millis(500);
    world.disturb();
    world.run_for(secs(5));
    assert!(world.is_calm() && world.downs.is_empty());
    // Longer: the router has found it, and reports Down.
    world.frozen_until = world.now + secs(5);
    world.disturb();
    world.run_for(Duration::from_millis(5100));
    let diagnostics: Vec<_> = world.bfd_events.iter().map(|(_, event)| event.diagnostic).collect();
    assert!(!diagnostics.contains(&bfd::Diagnostic::DETECTION_TIME_EXPIRED), "{diagnostics:?}");
    assert!(time_until(&mut world, World::is_calm) < secs(60));
}
